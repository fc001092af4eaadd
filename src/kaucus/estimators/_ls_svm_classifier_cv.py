"""A least-squares SVM classifier that chooses its kernel, width and C by itself."""

import functools
from typing import ClassVar

import numpy as np

from kaucus.estimators._leave_one_out import LeaveOneOutSearch, picked
from kaucus.estimators._parameters import one_of
from kaucus.estimators._sets import SetPredictions
from kaucus.estimators._validation import check_weights, weights_with_classes
from kaucus.machines import (
    ClassTargets,
    Problem,
    all_classes,
    enough_rows,
    left_out_shares,
    one_vs_rest_targets,
)
from kaucus.solvers import classification_score

CLASSIFIER_SCORES = ("accuracy", "neg_log_loss", "neg_mean_squared_error")


class LSSVMClassifierCV(SetPredictions, LeaveOneOutSearch):
    """Least-squares support vector classifier that chooses C by leave-one-out.

    By default, kernel, width, C and a metric of the columns are chosen by rows held
    out; the leave-one-out score of the model of all rows is then in closed form. For a
    named kernel, one eigendecomposition of its matrix gives the model for every C, and
    with it the decision value of each row by the model fitted without that row: exact
    leave-one-out over all C, one decomposition for each width.

    Parameters
    ----------
    Cs : array-like of float, default=None
        Values of C to choose from; None: 1e-5, 1e-4, ..., 1e9.
    gammas : "auto", array-like of float or None, default="auto"
        Values of gamma to choose from. None: ``gamma`` alone. ``"auto"``: with
        ``kernel="auto"`` as wide and as narrow as rows held out say; else ``gamma``
        times 4⁻³, 4⁻², ..., 4³.
    kernel : str, kernel object or callable, default="auto"
        ``"auto"``: ``"exponential"``, ``"rbf"`` or, up to 64 columns, ``"laplacian"``,
        chosen by rows held out, many times faster than all pairs by leave-one-out.
        Else as in :class:`LSSVMClassifier`, and C and gamma are those of the best
        leave-one-out score. ``"auto"`` does that too below 50 rows.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        As in :class:`LSSVMClassifier`; not used with ``kernel="auto"``.
    learn_metric : "auto" or bool, default="auto"
        Whether columns are scaled, weighed and mixed by a metric learned from ``y``, as
        in :class:`KMeansKernelClassifier`. ``"auto"``: with ``kernel="auto"``.
    degree : int, default=3
        Degree of ``"poly"``.
    coef0 : float, default=0.0
        Constant of ``"poly"`` and ``"sigmoid"``.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    scoring : {"accuracy", "neg_log_loss", "neg_mean_squared_error"}, \
default="accuracy"
        What leave-one-out decision values are judged by, with the weights of rows and
        classes; equal accuracies are decided by the mean squared error.
    max_samples : int or None, default=5000
        With more rows than this, C and gamma are chosen on a random part of them, by
        class, and the model is then fitted on all rows. None: always all rows.
    probability : {"softmax", "sum_exp", False}, default="softmax"
        As in :class:`LSSVMClassifier`.
    solver : {"auto", "cholesky", "cg"}, default="auto"
        Of the last fit, where there are more than ``max_samples`` rows.
    tol : float, default=1e-3
        Relative residual at which ``"cg"`` stops.
    max_iter : int, default=1000
        Most steps of ``"cg"``.
    device : str, default=None
        As in :class:`LSSVMClassifier`.
    precision : {None, "float64", "float32", "tf32"}, default=None
        As in :class:`LSSVMClassifier`.
    memory_budget : int or str, default=None
        As in :class:`LSSVMClassifier`.
    random_state : int, RandomState or Generator, default=None
        Draws the rows on which C is chosen, and what the solver draws.
    verbose : int, default=0
        As in :class:`LSSVMClassifier`.

    Attributes
    ----------
    C_ : float
        The C that was chosen.
    gamma_ : float or None
        The gamma that was chosen; None for a kernel without one.
    best_score_ : float
        Leave-one-out score of that choice.
    search_results_ : dict of ndarrays
        What was tried, a row for each pair: ``kernel``, ``gamma``, ``C`` and ``score``,
        the larger the better; NaN where Ctrl-C came before. Where rows held out judged,
        the score is minus their loss, and more columns tell of the metric, as in
        :class:`LearnedMetric`. For ``pandas.DataFrame(model.search_results_)``.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        A; n_targets is 1 for two classes, else n_classes.
    intercept_ : ndarray of shape (n_targets,)
        b.
    X_fit_ : array or CSR matrix of shape (n_samples, n_features)
        The training rows; absent with a precomputed kernel.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed. In a learned
        metric, that of rows which ``kernel_.row_map`` maps.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each column in the learned metric; absent where there is none.
    temperature_ : float
        By which decision values are divided before the softmax.
    solver_ : str
        ``"eigh"``, or the solver of the last fit.
    n_iter_ : int
        Its steps.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where ``X`` had names that are all strings.

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
            A weight of 2 counts as two equal rows.

        Returns
        -------
        self : LSSVMClassifierCV
        """
        self._check_parameters()
        Cs = self._grid_of_C()
        X, indices = self._validate_labels(X, y)
        repeats = check_weights(sample_weight, X)
        weight = weights_with_classes(
            repeats, self.class_weight, self.classes_, indices
        )
        data = {
            "Y": one_vs_rest_targets(indices, len(self.classes_)),
            "sample_weight": weight,
            "left_out": left_out_shares(repeats),
        }

        def score(loo_decision, rows):
            labels, judged = picked(indices, rows), picked(weight, rows)
            values = all_classes(loo_decision)
            return classification_score(values, labels, self.scoring, judged)

        if self._is_open and enough_rows(X.shape[0], weight):
            targets = ClassTargets(indices, len(self.classes_), lambda w, labels: w)
            problem = Problem(self._placed(X), targets, repeats, weight)
            losses = functools.partial(_class_losses, targets, weight, self.scoring)
            loo, loo_rows = self._search_openly(X, problem, data, losses, score)
        else:
            rows = self._rows_for_search(X.shape[0], indices)
            wanted = self.probability == "softmax"
            loo, loo_rows = self._search_and_fit(
                X, data, Cs, score, rows, leave_one_out=wanted
            )
        self._remember_fit(X, indices, self.C_, weight, repeats)
        if self.probability == "softmax":
            self._calibrate(loo, indices[loo_rows], picked(weight, loo_rows))
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
