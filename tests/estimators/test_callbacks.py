"""scikit-learn's callbacks see the steps of the iterative solvers."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV

from kaucus import LSSVMClassifier, LSSVMRegressor

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
