"""Frames with dates, text and gaps, through skrub."""

import pytest

pytest.importorskip("skrub")

from benchmarks import frames


def test_a_frame_with_dates_text_and_gaps_is_learned():
    frame, y = frames.made_frame(300)
    assert frame.isna().any().any()
    model = frames.pipelines(regression=True)["skrub and kaucus"]
    assert model.fit(frame[:200], y[:200]).score(frame[200:], y[200:]) > 0.8
