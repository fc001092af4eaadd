"""The benchmark of outliers: how rows are mixed, and its tables."""

import numpy as np

from benchmarks import outliers as bench


def test_a_twentieth_of_the_rows_are_of_other_classes():
    X, y = np.arange(600.0)[:, None], np.repeat([0, 1, 2], [380, 120, 100])
    rows, outlier = bench.mixed(X, y, 0)
    assert len(rows) == 400
    assert outlier.sum() == 20
    assert ((rows[:, 0] >= 380) == outlier).all()


def test_means_are_of_sets_that_all_contenders_have(monkeypatch):
    heads = [{"contender": c, "draw": 0} for c in bench.CONTENDERS]
    numbers = {"fitted": 90.0, "unseen": 80.0, "seconds": 1.0}
    records = [{**head, "set": "a", **numbers} for head in heads]
    records += [{**head, "set": "b", "fitted": 10.0} for head in heads[:2]]
    found = bench.tables({"records": records})
    assert found[0].title == "100 AUC of fitted rows"
    assert found[0].rows[1] == ["b", "10.0", "10.0", "", ""]
    assert found[0].rows[2] == ["mean of 1", *["90.0"] * 4]
