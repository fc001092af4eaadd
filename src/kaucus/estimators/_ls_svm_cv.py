"""Least-squares SVMs that choose their kernel, width and C by themselves."""

import functools
from typing import ClassVar

import numpy as np

from kaucus.estimators._intervals import IntervalPredictions
from kaucus.estimators._leave_one_out import LeaveOneOutSearch, picked
from kaucus.estimators._parameters import one_of
from kaucus.estimators._predictions import SetPredictions
from kaucus.estimators._validation import (
    check_weights,
    relative_weights,
    weights_with_classes,
)
from kaucus.machines import (
    ClassTargets,
    NumberTargets,
    Problem,
    all_classes,
    enough_rows,
    one_vs_rest_targets,
)
from kaucus.solvers import classification_score, regression_score

CLASSIFIER_SCORES = ("accuracy", "neg_log_loss", "neg_mean_squared_error")
REGRESSOR_SCORES = ("neg_mean_squared_error", "neg_mean_absolute_error")
# Of the targets: rows are not clustered here.
_BINS = 1


class LSSVMClassifierCV(SetPredictions, LeaveOneOutSearch):
    """Least-squares support vector classifier that chooses C by leave-one-out.

    By default, kernel, width, C and a metric of the columns are chosen by rows held
    out; the leave-one-out score of the model of all rows is then in closed form. For a
    named kernel, the decision value of each row by the model fitted without that row
    is in closed form too: up to 1,000 rows for every C and width, from one
    eigendecomposition for each width; of more rows for the three pairs that models of
    few kernel columns find best, from one factorisation each.

    Parameters
    ----------
    scoring : {"accuracy", "neg_log_loss", "neg_mean_squared_error"}, \
default="accuracy"
        What leave-one-out decision values are judged by, with the weights of rows and
        classes; equal accuracies are decided by the mean squared error.
    max_samples : int or None, default=5000
        With more rows than this, C and gamma are chosen on a random part of them, by
        class, and the model is then fitted on all rows. None: always all rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        A; n_targets is 1 for two classes, else n_classes.

    See Also
    --------
    LSSVMClassifier : The same with a given C.

    References
    ----------
    G. C. Cawley, "Leave-one-out cross-validation based model selection criteria for
    weighted LS-SVMs", IJCNN (2006).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVMClassifierCV(kernel="rbf").fit(X, y)
    >>> round(model.best_score_, 2)
    0.98
    >>> len(model.search_results_["score"])  # 7 gammas, 15 Cs
    105
    """

    _parameters: ClassVar = {"scoring": one_of(*CLASSIFIER_SCORES)}

    def __init__(
        self,
        Cs=None,
        *,
        gammas="auto",
        kernel="auto",
        gamma="scale",
        learn_metric="auto",
        degree=3,
        coef0=0.0,
        class_weight=None,
        scoring="accuracy",
        max_samples=5000,
        probability="softmax",
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.Cs = Cs
        self.gammas = gammas
        self.kernel = kernel
        self.gamma = gamma
        self.learn_metric = learn_metric
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.scoring = scoring
        self.max_samples = max_samples
        self.probability = probability
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Choose C, and gamma if asked, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X), (n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row: its weight multiplies its squared error. Only ratios
            count, as C is chosen for weights of mean 1; a weight of 0 leaves the row
            out.

        Returns
        -------
        self : LSSVMClassifierCV
        """
        self._check_parameters()
        Cs = self._grid_of_C()
        X, indices = self._validate_labels(X, y)
        rows_weight = relative_weights(check_weights(sample_weight, X))
        weight = weights_with_classes(
            rows_weight, self.class_weight, self.classes_, indices
        )
        Y = one_vs_rest_targets(indices, len(self.classes_))
        data = {"Y": Y, "sample_weight": weight}

        def score(loo_decision, rows):
            labels, judged = picked(indices, rows), picked(weight, rows)
            values = all_classes(loo_decision)
            return classification_score(values, labels, self.scoring, judged)

        if self._is_open and enough_rows(X.shape[0], weight):
            targets = ClassTargets(indices, len(self.classes_), lambda w, labels: w)
            problem = Problem(self._placed(X), targets, rows_weight, weight)
            losses = functools.partial(_class_losses, targets, weight, self.scoring)
            solution, loo_rows = self._search_openly(X, problem, data, losses, score)
        else:
            rows = self._rows_for_search(X.shape[0], indices)
            wanted = self.probability == "softmax"
            solution, loo_rows = self._search_and_fit(
                X, data, Cs, score, rows, leave_one_out=wanted
            )
        self._store(X, solution)
        self._remember_fit(X, indices, self.C_, weight)
        if self.probability == "softmax":
            labels, judged = indices[loo_rows], picked(weight, loo_rows)
            self._calibrate(solution.loo_decision, labels, judged)
        return self


def _class_losses(targets: ClassTargets, weight, scoring: str, values, rows):
    """Return the loss of each row and model by a score of classes, (r, c).

    Of equal accuracies the one with less log-loss is better: it is added, tenfold less.
    """
    log_losses = targets.losses(values, weight, rows)
    if scoring == "neg_log_loss":
        return log_losses
    labels = targets.values[rows]
    right = one_vs_rest_targets(labels, targets.n_classes)[:, None, :]
    if scoring == "neg_mean_squared_error":
        return np.mean((values - right) ** 2, axis=2)
    one = values.shape[2] == 1
    guesses = values[:, :, 0] > 0 if one else np.argmax(values, axis=2)
    return (guesses != labels[:, None]) + 0.1 * log_losses


class LSSVMRegressorCV(IntervalPredictions, LeaveOneOutSearch):
    """Least-squares support vector regressor that chooses C by leave-one-out.

    By default, kernel, width, C and a metric of the columns are chosen by rows held
    out; the leave-one-out score of the model of all rows is then in closed form. For a
    named kernel, the prediction for each row by the model fitted without that row is
    in closed form too: up to 1,000 rows for every C and width, from one
    eigendecomposition for each width; of more rows for the three pairs that models of
    few kernel columns find best, from one factorisation each.

    Parameters
    ----------
    scoring : {"neg_mean_squared_error", "neg_mean_absolute_error"}, \
default="neg_mean_squared_error"
        What leave-one-out predictions are judged by, averaged over the outputs.
    max_samples : int or None, default=5000
        With more rows than this, C and gamma are chosen on a random part of them, and
        the model is then fitted on all rows. None: always all rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        a.

    See Also
    --------
    LSSVMRegressor : The same with a given C.

    References
    ----------
    G. C. Cawley, N. L. C. Talbot, "Fast exact leave-one-out cross-validation of sparse
    least-squares support vector machines", Neural Networks 17, 1467 (2004).

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LSSVMRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 6, 80)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=80)
    >>> model = LSSVMRegressorCV(random_state=0).fit(X, y)
    >>> round((-model.best_score_) ** 0.5, 2)
    0.1
    """

    _parameters: ClassVar = {"scoring": one_of(*REGRESSOR_SCORES)}

    def __init__(
        self,
        Cs=None,
        *,
        gammas="auto",
        kernel="auto",
        gamma="scale",
        learn_metric="auto",
        degree=3,
        coef0=0.0,
        scoring="neg_mean_squared_error",
        max_samples=5000,
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.Cs = Cs
        self.gammas = gammas
        self.kernel = kernel
        self.gamma = gamma
        self.learn_metric = learn_metric
        self.degree = degree
        self.coef0 = coef0
        self.scoring = scoring
        self.max_samples = max_samples
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Choose C, and gamma if asked, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X), (n_samples, n_samples).
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row: its weight multiplies its squared error. Only ratios
            count, as C is chosen for weights of mean 1; a weight of 0 leaves the row
            out.

        Returns
        -------
        self : LSSVMRegressorCV
        """
        self._check_parameters()
        Cs = self._grid_of_C()
        X, Y = self._validate_outputs(X, y)
        weight = relative_weights(check_weights(sample_weight, X))
        targets = NumberTargets.of(Y, _BINS, weight)
        Z, unit = targets.columns(), targets.unit
        data = {"Y": Z, "sample_weight": weight}

        def score(loo_decision, rows):  # in the unit of y, but for its offset
            values, judged = loo_decision * unit.scale, picked(weight, rows)
            right = picked(Z, rows) * unit.scale
            return regression_score(values, right, self.scoring, judged)

        if self._is_open and enough_rows(X.shape[0], weight):
            problem = Problem(self._placed(X), targets, weight, weight)
            losses = functools.partial(_number_losses, targets, weight, self.scoring)
            solution, _ = self._search_openly(X, problem, data, losses, score)
        else:
            rows = self._rows_for_search(X.shape[0])
            solution, _ = self._search_and_fit(
                X, data, Cs, score, rows, leave_one_out=False
            )
        self._store(X, unit.restored(solution))
        self._remember_fit(X, Z, self.C_, weight, unit)
        return self


def _number_losses(targets: NumberTargets, weight, scoring: str, values, rows):
    """Return the loss of each row and model by a score of numbers, (r, c)."""
    if scoring == "neg_mean_squared_error":
        return targets.losses(values, weight, rows)
    Y, _ = targets.search(weight)
    return np.mean(np.abs(values - Y[rows][:, None, :]), axis=2)
