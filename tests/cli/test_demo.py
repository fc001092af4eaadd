"""The demonstration: what it compares, and that it draws."""

import pytest

from kaucus import _demo


@pytest.fixture(scope="module")
def census():
    pytest.importorskip("pandas")
    return _demo.read_census()


def test_the_table_has_categories_and_gaps(census):
    frame, income = census
    assert frame.shape == (2500, 12)
    assert {str(dtype) for dtype in frame.dtypes} == {"int64", "category"}
    assert frame["occupation"].isna().sum() > 100
    assert 0.2 < income.mean() < 0.3


def test_each_model_meets_the_same_table(census, monkeypatch):
    monkeypatch.setattr(_demo, "N_TRAIN", 200)
    fast = _demo.TableClassifier(effort="fast", random_state=0)
    monkeypatch.setattr(_demo, "TableClassifier", lambda random_state: fast)
    rows = _demo.compare_on_table(census[0][:400], census[1][:400])
    names = ["TableClassifier", "HistGradientBoostingClassifier", "SVC"]
    assert [row[0] for row in rows] == names
    assert all(0.7 < float(row[2]) < 1 for row in rows)
    assert rows[2][1] == "none"  # SVC has no probabilities


def test_few_representatives_read_digits():
    few, every, svm = _demo.compare_on_digits()
    assert [few[-1], every[-1]] == ["200", "898"]
    assert all(float(row[1].split()[0]) < 2 for row in (few, every, svm))


def test_kernel_k_means_finds_rings_and_k_means_does_not():
    (_, _, kernel), (_, _, plain) = _demo.find_rings()
    assert kernel == 1.0
    assert plain < 0.6


def test_a_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [["m", "0.3", area, "", "", ""] for area in ("0.9", "0.8", "0.7")]
    path = _demo.draw_demo(tmp_path / "kaucus-demo.png", rows)
    assert path.read_bytes().startswith(b"\x89PNG")
