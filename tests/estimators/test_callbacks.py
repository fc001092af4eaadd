"""scikit-learn's callbacks see the steps of iterative solvers and clusterers."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score, adjusted_rand_score, r2_score
from sklearn.model_selection import GridSearchCV

from kaucus import KernelKMeans, LSSVMClassifier, LSSVMRegressor, SphericalKMeans

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9")
X, Y = load_iris(return_X_y=True)
ITERATIVE = {"C": 10.0, "kernel": "rbf", "gamma": 0.5, "random_state": 0}


class Recorder:
    """Every call of a hook, with the score of the fitted estimator on the way."""

    def __init__(self, judge=None, most=None):
        self.calls, self.scores, self._judge, self._most = [], [], judge, most

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, fitted_estimator=None
    ):
        self.calls.append(f"end {context.task_name}")
        if fitted_estimator is not None and self._judge is not None:
            self.scores.append(self._judge(y, fitted_estimator.predict(X)))
        return self._most is not None and len(self.scores) >= self._most


@pytest.mark.parametrize("solver", ["cg", "kaczmarz", "block_descent"])
def test_scores_of_the_steps_end_at_that_of_the_model(solver):
    recorder = Recorder(accuracy_score)
    model = LSSVMClassifier(**ITERATIVE, solver=solver).set_callbacks(recorder)
    model.fit(X, Y)
    calls = recorder.calls
    assert calls[:3] == ["setup", "begin fit", "begin step"]
    assert calls[-2:] == ["end fit", "teardown"]
    assert calls.count("begin step") == calls.count("end step") > 1
    assert recorder.scores[-1] == model.score(X, Y)
    plain = LSSVMClassifier(**ITERATIVE, solver=solver).fit(X, Y)
    np.testing.assert_allclose(plain.dual_coef_, model.dual_coef_)


def test_targets_are_in_the_units_of_the_user():
    y = 1000 + 50 * X[:, 0]
    recorder = Recorder(r2_score)
    model = LSSVMRegressor(**ITERATIVE, solver="block_descent", block_size=50)
    model.set_callbacks(recorder).fit(X[:, 1:], y)
    assert recorder.scores[-1] == pytest.approx(model.score(X[:, 1:], y))
    assert recorder.scores[-2] == pytest.approx(recorder.scores[-1], abs=0.01)
    assert len(recorder.scores) > 2


def test_a_true_result_ends_the_fit():
    recorder = Recorder(accuracy_score, most=2)
    model = LSSVMClassifier(**ITERATIVE, solver="kaczmarz", block_size=30)
    model.set_callbacks(recorder).fit(X, Y)
    assert model.n_iter_ == 2
    assert model.solve_info_.stop == "callback"


def test_a_direct_solver_has_no_steps():
    recorder = Recorder(accuracy_score)
    LSSVMClassifier(**ITERATIVE, solver="cholesky").set_callbacks(recorder).fit(X, Y)
    assert set(recorder.calls) >= {"begin fit", "end fit", "teardown"}
    assert len(recorder.scores) == 1


def test_an_error_tears_callbacks_down():
    class Fails(Recorder):
        def on_fit_task_end(self, estimator, context):
            raise RuntimeError("no more")

    recorder = Fails()
    model = LSSVMClassifier(**ITERATIVE, solver="cg").set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="no more"):
        model.fit(X, Y)
    assert recorder.calls[-1] == "teardown"
    assert not hasattr(model, "dual_coef_")


def test_scoring_monitor_and_progress_bar():
    pytest.importorskip("rich")
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = LSSVMClassifier(**ITERATIVE, solver="kaczmarz")
    model.set_callbacks(monitor, callback.ProgressBar()).fit(X, Y)
    scores = monitor.get_logs().data_as_pandas["accuracy"]
    assert scores.iloc[-1] == model.score(X, Y)
    search = GridSearchCV(clone(model).set_callbacks(), {"C": [1.0, 10.0]}, cv=2)
    search.set_callbacks(callback.ProgressBar()).fit(X, Y)
    assert search.best_score_ > 0.9


CLUSTERERS = [
    SphericalKMeans(3, init="random", n_init=1, random_state=0),
    KernelKMeans(3, gamma=0.1, init="random", n_init=4, random_state=0),
    KernelKMeans(3, gamma=0.1, approximation="nystrom", init="random", random_state=0),
]


@pytest.mark.parametrize("model", CLUSTERERS, ids=repr)
def test_clusters_of_the_steps_end_at_those_of_the_model(model):
    recorder = Recorder(adjusted_rand_score)
    model = clone(model).set_callbacks(recorder).fit(X, Y)
    calls = recorder.calls
    assert calls[:3] == ["setup", "begin fit", "begin step"]
    assert calls[-2:] == ["end fit", "teardown"]
    assert calls.count("begin step") == calls.count("end step") > model.n_iter_
    assert len(recorder.scores) == calls.count("end step")
    assert len(set(recorder.scores)) > 1
    assert recorder.scores[-2:] == [adjusted_rand_score(Y, model.labels_)] * 2
    plain = clone(model).set_callbacks().fit(X)
    np.testing.assert_array_equal(plain.labels_, model.labels_)


@pytest.mark.parametrize("model", CLUSTERERS, ids=repr)
def test_a_true_result_ends_clustering_without_a_warning(model):
    recorder = Recorder(adjusted_rand_score, most=2)
    model = clone(model).set_callbacks(recorder).fit(X, Y)
    assert model.n_iter_ == 2
    assert recorder.calls[-1] == "teardown"


def test_a_monitor_scores_clusters_where_labels_are_given():
    pytest.importorskip("rich")
    monitor = callback.ScoringMonitor(scoring="adjusted_rand_score")
    model = KernelKMeans(3, kernel="linear", random_state=0)
    model.set_callbacks(monitor, callback.ProgressBar()).fit(X, Y)
    scores = monitor.get_logs().data_as_pandas["adjusted_rand_score"]
    assert scores.iloc[-1] == adjusted_rand_score(Y, model.labels_)
    spherical = SphericalKMeans(3).set_callbacks(monitor, callback.ProgressBar())
    spherical.fit(X)
    spherical.fit_batches(lambda: [(X[:70], Y[:70]), (X[70:], Y[70:])])  # not scored
