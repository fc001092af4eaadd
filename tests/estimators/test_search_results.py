"""Searches for kernel, gamma and C: what they leave behind, and ends of their grids."""

from html import unescape

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from kaucus import (
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LearnedMetric,
    LSSVMClassifier,
    LSSVMRegressor,
)
from kaucus.fitting import _search as tuning
from kaucus.kernels import Gaussian
from tests.discovery import name_of

pytestmark = pytest.mark.filterwarnings("ignore:The best of")
SEARCHING = [
    KMeansKernelClassifier(learn_metric=False, random_state=0),
    KMeansKernelRegressor(learn_metric=False, random_state=0),
    LSSVMClassifier("auto", gamma="tune"),
    LSSVMRegressor("auto", gamma="tune"),
]
each_search = pytest.mark.parametrize("model", SEARCHING, ids=name_of)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    return X, (X[:, 0] + 0.3 * rng.normal(size=120) > 0).astype(int)


@each_search
def test_the_table_holds_the_choice(model, rows):
    model = clone(model).fit(*rows)
    table = pd.DataFrame(model.search_results_)
    assert list(table.columns)[:4] == ["kernel", "gamma", "C", "score"]
    # A step beyond the grid that hardly pays is not taken.
    best = table[table["score"] >= table["score"].max() * 1.01]
    best = table[table["score"] == table["score"].max()] if best.empty else best
    assert (model.C_, model.gamma_) in set(zip(best["C"], best["gamma"], strict=True))
    assert model.kernel_.name in set(best["kernel"])


@pytest.mark.parametrize(
    "model",
    [
        KMeansKernelClassifier(random_state=0),
        KMeansKernelRegressor(random_state=0),
        *SEARCHING[:2],
        LearnedMetric(random_state=0),
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [120, 400])
def test_one_row_of_the_table_is_that_of_the_model(model, n):
    """It has the kernel, gamma and C of the model, and explain() states its loss."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(n, 3))
    y = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 2]) + 0.3 * rng.normal(size=n)
    y = y > 0 if hasattr(model, "predict_proba") else y
    model = clone(model).fit(X, y)
    table = pd.DataFrame(model.search_results_)
    (row,) = table[table["chosen"].astype(bool)].to_dict("records")
    gamma = model.kernel_.gamma
    assert (row["kernel"], row["C"]) == (model.kernel_.name, model.C_)
    assert row["gamma"] == pytest.approx(gamma, rel=1e-12)
    if not hasattr(model, "explain"):
        return
    told = model.explain()
    assert f"(loss {-row['score']:.4g}, {row['n_columns']} kernel columns)" in told
    least = -table["score"].max()
    some_are_better = least < -row["score"]
    assert (
        f"smaller losses, down to {least:.4g}, were not chosen" in told
    ) == some_are_better


@each_search
def test_the_choice_is_explained(model, rows):
    with pytest.raises(NotFittedError):
        clone(model).explain()
    told = clone(model).fit(*rows).explain()
    assert "C=" in told
    assert "gamma=" in told
    assert "solver=" in told
    shown = unescape(told._repr_html_())  # a notebook has the same, as a table
    assert all(f">{part}<" in shown for part in told.parts.values())
    assert all(part in told for part in told.parts.values())
    assert "&lt;b&gt;" in LSSVMClassifier._told({"a": "<b>"})._repr_html_()


@pytest.mark.parametrize("model", SEARCHING[:2], ids=name_of)
def test_what_is_given_is_not_searched(model, rows):
    given = clone(model).set_params(C=2.0, gamma=0.5, kernel="rbf").fit(*rows)
    assert len(given.search_results_["score"]) == 0
    assert (given.C_, given.gamma_) == (2.0, 0.5)
    assert "as given" in given.explain()


def test_a_search_goes_on_beyond_the_end_of_its_grid():
    """The loss is least at gamma = 100 and C = 1000, beyond both grids."""

    class Bowl(tuning.Judge):
        def work(self, job):
            kernel, (C,) = job
            return 1.0 + np.log(kernel.gamma / 100) ** 2 + np.log(C / 1000) ** 2

        def trial(self, job, found):
            kernel, (C,) = job
            return tuning.Trial(kernel, C, found)

    path, judge = [Gaussian(g) for g in (1.0, 5.0, 25.0)], Bowl()
    at_end, inside = judge.tried([(path[-1], [10.0]), (path[1], [1.5])])
    found = tuning._beyond(judge, at_end, [path], [1.0, 10.0])
    assert found.candidate.gamma == pytest.approx(125.0)
    assert pytest.approx(1000.0) == found.C
    assert tuning._beyond(judge, inside, [path], [1.0, 1.5, 10.0]) == inside


@pytest.mark.parametrize(
    "model",
    [
        KMeansKernelRegressor(random_state=0),
        KMeansKernelRegressor(learn_metric=False, random_state=0),
        KMeansKernelClassifier(learn_metric=False, random_state=0),
        LSSVMRegressor("auto", gamma="tune"),
        LSSVMClassifier("auto", gamma="tune"),
    ],
    ids=str,
)
def test_copies_of_rows_are_not_learned_by_heart(model):
    """Four of each, a millionth apart: one of them would tell the others' targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + rng.normal(size=800)
    y = y > 0 if hasattr(model, "predict_proba") else y
    copies = np.repeat(X[:200], 4, axis=0) + 1e-6 * rng.normal(size=(800, 4))
    alone = clone(model).fit(X[:200], y[:200])
    many = clone(model).fit(copies, np.repeat(y[:200], 4))
    assert many.score(X[200:], y[200:]) > alone.score(X[200:], y[200:]) - 0.05
