"""The benchmark of quantiles: what it measures, and its tables."""

import numpy as np
import pytest

from benchmarks import quantiles as bench


def test_loss_and_shares_of_known_quantiles():
    y = np.linspace(0, 1, 1001)
    f = np.tile(bench.LEVELS, (1001, 1))
    found = bench.judged(f, y)
    assert found["within"] == pytest.approx(90, abs=0.2)
    assert found["crossing"] == 0
    # Of uniform targets the loss at the quantile of τ is τ (1 − τ) / 2.
    expected = np.mean([a * (1 - a) / 2 for a in bench.LEVELS]) / y.std()
    assert found["loss"] == pytest.approx(100 * expected, rel=1e-2)
    assert bench.judged(f[:, ::-1], y)["crossing"] == 100


def test_a_model_for_each_level_and_tables():
    X = np.linspace(0, 1, 60)[:, None]
    made = bench._representatives(0)
    made._features.set_params(n_components=5)
    f = made.fit(X, X[:, 0]).predict(X)
    assert f.shape == (60, 5)
    head = {"table": "made", "split": 0}
    records = [
        {"contender": c, **head, **bench.judged(f, X[:, 0]), "seconds": 1.0}
        for c in ("kaucus", "LightGBM")
    ]
    found = bench.tables({"records": records})
    assert [t.headers for t in found] == [["table", "kaucus", "LightGBM"]] * 4
    assert found[0].rows[-1] == ["mean rank", "1.50", "1.50"]
