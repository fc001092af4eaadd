"""Least-squares SVMs that choose C, and gamma if asked, by leave-one-out."""

from typing import ClassVar

from kaucus.estimators._leave_one_out import LeaveOneOutSearch, picked
from kaucus.estimators._parameters import one_of
from kaucus.estimators._predictions import (
    ClassifierPredictions,
    RegressorPredictions,
)
from kaucus.estimators._validation import (
    check_weights,
    weights_with_classes,
)
from kaucus.machines import all_classes, left_out_shares, one_vs_rest_targets
from kaucus.solvers import classification_score, regression_score

CLASSIFIER_SCORES = ("accuracy", "neg_log_loss", "neg_mean_squared_error")
REGRESSOR_SCORES = ("neg_mean_squared_error", "neg_mean_absolute_error")


class LSSVMClassifierCV(ClassifierPredictions, LeaveOneOutSearch):
    """Least-squares support vector classifier that chooses C by leave-one-out.

    One eigendecomposition of the kernel matrix gives the model for every C, and with it
    the decision value of each row by the model fitted without that row: exact
    leave-one-out over all C for the price of a few fits. With ``gammas`` the width of
    the kernel is chosen as well, one decomposition for each.

    Parameters
    ----------
    Cs : array-like of float, default=None
        Values of C to choose from; None: 1e-5, 1e-4, ..., 1e9.
    gammas : "auto" or array-like of float, default=None
        Values of gamma to choose from. None: ``gamma`` alone; ``"auto"``: ``gamma``
        times 4⁻³, 4⁻², ..., 4³.
    kernel : str, kernel object or callable, default="rbf"
        As in :class:`LSSVMClassifier`.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        As in :class:`LSSVMClassifier`.
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
        the larger the better; NaN where Ctrl-C came before. For
        ``pandas.DataFrame(model.search_results_)``.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        A; n_targets is 1 for two classes, else n_classes.
    intercept_ : ndarray of shape (n_targets,)
        b.
    X_fit_ : array or CSR matrix of shape (n_samples, n_features)
        The training rows; absent with a precomputed kernel.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed.
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
    >>> model = LSSVMClassifierCV(gammas="auto").fit(X, y)
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
        gammas=None,
        kernel="rbf",
        gamma="scale",
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
        rows = self._rows_for_search(X.shape[0], indices)

        def score(loo_decision):
            labels, judged = picked(indices, rows), picked(weight, rows)
            values = all_classes(loo_decision)
            return classification_score(values, labels, self.scoring, judged)

        loo, loo_rows = self._search_and_fit(
            X, data, Cs, score, rows, leave_one_out=self.probability == "softmax"
        )
        if self.probability == "softmax":
            self._calibrate(loo, indices[loo_rows], picked(weight, loo_rows))
        return self


class LSSVMRegressorCV(RegressorPredictions, LeaveOneOutSearch):
    """Least-squares support vector regressor that chooses C by leave-one-out.

    One eigendecomposition of the kernel matrix gives the model for every C, and with it
    the prediction for each row by the model fitted without that row. With ``gammas``
    the width of the kernel is chosen as well, one decomposition for each.

    Parameters
    ----------
    Cs : array-like of float, default=None
        Values of C to choose from; None: 1e-5, 1e-4, ..., 1e9.
    gammas : "auto" or array-like of float, default=None
        Values of gamma to choose from. None: ``gamma`` alone; ``"auto"``: ``gamma``
        times 4⁻³, 4⁻², ..., 4³.
    kernel : str, kernel object or callable, default="rbf"
        As in :class:`LSSVMRegressor`.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        As in :class:`LSSVMRegressor`.
    degree : int, default=3
        Degree of ``"poly"``.
    coef0 : float, default=0.0
        Constant of ``"poly"`` and ``"sigmoid"``.
    scoring : {"neg_mean_squared_error", "neg_mean_absolute_error"}, \
default="neg_mean_squared_error"
        What leave-one-out predictions are judged by, averaged over the outputs.
    max_samples : int or None, default=5000
        With more rows than this, C and gamma are chosen on a random part of them, and
        the model is then fitted on all rows. None: always all rows.
    solver : {"auto", "cholesky", "cg"}, default="auto"
        Of the last fit, where there are more than ``max_samples`` rows.
    tol : float, default=1e-3
        Relative residual at which ``"cg"`` stops.
    max_iter : int, default=1000
        Most steps of ``"cg"``.
    device : str, default=None
        As in :class:`LSSVMRegressor`.
    precision : {None, "float64", "float32", "tf32"}, default=None
        As in :class:`LSSVMRegressor`.
    memory_budget : int or str, default=None
        As in :class:`LSSVMRegressor`.
    random_state : int, RandomState or Generator, default=None
        Draws the rows on which C is chosen, and what the solver draws.
    verbose : int, default=0
        As in :class:`LSSVMRegressor`.

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
        the larger the better; NaN where Ctrl-C came before. For
        ``pandas.DataFrame(model.search_results_)``.
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        a.
    intercept_ : ndarray of shape (n_targets,)
        b.
    X_fit_ : array or CSR matrix of shape (n_samples, n_features)
        The training rows; absent with a precomputed kernel.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed.
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
    >>> model = LSSVMRegressorCV(gammas="auto").fit(X, y)
    >>> round((-model.best_score_) ** 0.5, 2)
    0.1
    """

    _parameters: ClassVar = {"scoring": one_of(*REGRESSOR_SCORES)}

    def __init__(
        self,
        Cs=None,
        *,
        gammas=None,
        kernel="rbf",
        gamma="scale",
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
            A weight of 2 counts as two equal rows.

        Returns
        -------
        self : LSSVMRegressorCV
        """
        self._check_parameters()
        Cs = self._grid_of_C()
        X, Y = self._validate_outputs(X, y)
        weight = check_weights(sample_weight, X)
        left_out = left_out_shares(weight)
        data = {"Y": Y, "sample_weight": weight, "left_out": left_out}
        rows = self._rows_for_search(X.shape[0])

        def score(loo_decision):
            targets, judged = picked(Y, rows), picked(weight, rows)
            return regression_score(loo_decision, targets, self.scoring, judged)

        self._search_and_fit(X, data, Cs, score, rows, leave_one_out=False)
        return self
