"""Frames with dates, text and gaps, through skrub."""

import pytest

from benchmarks import frames


def test_a_frame_with_dates_text_and_gaps_is_learned():
    pytest.importorskip("skrub")  # not before: to import it takes a second
    frame, y = frames.made_frame(300)
    assert frame.isna().any().any()
    model = frames.pipelines(regression=True)["skrub and kaucus"]
    assert model.fit(frame[:200], y[:200]).score(frame[200:], y[200:]) > 0.8
