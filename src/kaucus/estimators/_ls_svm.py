"""Least-squares support vector machines: classifier and regressor."""

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import row_blocks, to_numpy
from kaucus.estimators._base import LSSVMBase
from kaucus.estimators._validation import (
    check_choice,
    check_positive,
    check_weights,
    encode_labels,
    left_out_shares,
    one_vs_rest_targets,
    weights_with_classes,
)
from kaucus.solvers import (
    fit_temperature,
    softmax,
    sum_of_exponentials,
    two_columns,
)

PROBABILITIES = ("softmax", "sum_exp", False)


def _has_probabilities(estimator) -> bool:
    if estimator.probability is False:
        raise AttributeError(
            "predict_proba is off: probability=False. Use probability='softmax'."
        )
    return True


class ClassifierPredictions(ClassifierMixin):
    """From decision values to classes and probabilities."""

    def decision_function(self, X):
        """Return the decision values.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one value, positive for ``classes_[1]``.
        """
        values = self._decision_values(X)
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X):
        """Return the class of largest decision value.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        values = self._decision_values(X)
        if len(self.classes_) == 2:
            return self.classes_[(values[:, 0] > 0).astype(np.intp)]
        return self.classes_[np.argmax(values, axis=1)]

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``. With ``probability="softmax"`` the largest is
            that of the class that ``predict`` gives.
        """
        if self.probability == "sum_exp":
            return self._sum_of_exponentials(X)
        values = self._decision_values(X)
        return softmax(_all_classes(values), self.temperature_)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X):
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):  # log 0 = -inf is what is meant
            return np.log(self.predict_proba(X))

    def _sum_of_exponentials(self, X):
        check_is_fitted(self, "dual_coef_")
        X = self._validate(X, reset=False)
        # Targets of 0 and 1, as the paper has them, in place of ±1.
        signs = np.array([[-1.0, 1.0]]) if self.dual_coef_.shape[1] == 1 else 1.0
        coef, intercept = self.dual_coef_ * signs / 2, (self.intercept_ * signs + 1) / 2
        parts = []
        for rows in row_blocks(X.shape[0], 8 * coef.shape[0], 2**26):
            block = X[rows]
            K = block if self._precomputed else self.kernel_(block, self.X_fit_)
            parts.append(sum_of_exponentials(K, coef, np.ravel(intercept)))
        return np.concatenate(parts).astype(X.dtype, copy=False)

    def _calibrate(self, loo_decision, indices, weight) -> None:
        """Fit the temperature of the probabilities on leave-one-out values."""
        decision = _all_classes(to_numpy(loo_decision))
        self.temperature_ = fit_temperature(decision, indices, weight)


def _all_classes(values):
    return two_columns(values) if values.shape[1] == 1 else values


class LSSVMClassifier(ClassifierPredictions, LSSVMBase):
    """Least-squares support vector classifier.

    Fits f_j(x) = Σᵢ a_ij k(x, xᵢ) + b_j to targets ±1, one column for each class, by
    solving one linear system for all of them:

        [ 0   1ᵀ     ] [ b ]   [ 0 ]
        [ 1   K + I/C ] [ A ] = [ Y ]

    The class is the one of largest f_j. Unlike :class:`~sklearn.svm.SVC` every training
    row takes part in the model, and probabilities are there without another fit.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the regularisation, H = K + I/C. The papers' γ or 1/ε.
    kernel : str, kernel object or callable, default="rbf"
        ``"linear"``, ``"poly"``, ``"rbf"``, ``"exponential"``, ``"cauchy"``,
        ``"sigmoid"``, ``"cosine"``, ``"laplacian"``, ``"precomputed"``, an object from
        :mod:`kaucus.kernels`, or a function ``k(X, Y)`` that returns the matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernel; ``"scale"`` is 1 / (n_features X.var()), ``"auto"`` is
        1 / n_features.
    degree : int, default=3
        Degree of ``"poly"``.
    coef0 : float, default=0.0
        Constant of ``"poly"`` and ``"sigmoid"``.
    class_weight : dict or "balanced", default=None
        Weights of the classes; ``"balanced"`` makes them inversely proportional to
        their numbers of rows.
    probability : {"softmax", "sum_exp", False}, default="softmax"
        ``"softmax"``: softmax of the decision values, with a temperature fitted to
        leave-one-out values in closed form. ``"sum_exp"``: eq. (15) of Andrecut (2016)
        as printed. False: none.
    solver : {"auto", "cholesky", "cg"}, default="auto"
        ``"cholesky"`` factors the kernel matrix, ``"cg"`` needs only products with it;
        ``"auto"`` chooses by the number of rows and the memory budget, and ``solver_``
        tells.
    tol : float, default=1e-6
        Relative residual at which ``"cg"`` stops.
    max_iter : int, default=1000
        Most steps of ``"cg"``.
    device : str, default=None
        None computes where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes there and
        gives NumPy arrays back. Needs torch.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
        What does not fit is computed in blocks, again for every product.
    random_state : int, RandomState or Generator, default=None
        Draws the rows on which the temperature is fitted, where there are more than
        2,000, and the preconditioner of ``"cg"``.
    verbose : int, default=0
        1 tells which solver was chosen and shows progress on a terminal.

    Attributes
    ----------
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
        The solver that ran.
    n_iter_ : int
        Its steps; 1 for a factorisation without refinement.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where ``X`` had names that are all strings.

    See Also
    --------
    LSSVMClassifierCV : The same with C, and gamma if asked, chosen by leave-one-out.
    LSSVMRegressor : The same for numbers.

    References
    ----------
    J. A. K. Suykens, J. Vandewalle, "Least squares support vector machine classifiers",
    Neural Processing Letters 9, 293 (1999).

    M. Andrecut, "Randomized kernel methods for least-squares support vector machines"
    (2016), Sec. 2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVMClassifier(C=10).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.97
    >>> model.predict_proba(X[:1]).round(2)
    array([[0.99, 0.01, 0.  ]])
    """

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        class_weight=None,
        probability="softmax",
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        device=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.probability = probability
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Fit the model.

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
        self : LSSVMClassifier
        """
        self._check_parameters()
        C = check_positive("C", self.C, remedy="It is the inverse of the ridge.")
        check_choice("probability", self.probability, PROBABILITIES)
        X, y = self._validate(X, y, reset=True, ensure_min_samples=2)
        self.classes_, indices = encode_labels(y)
        sample_weight = check_weights(sample_weight, X)
        weight = weights_with_classes(
            sample_weight, self.class_weight, self.classes_, indices
        )
        fitted = self._fit_core(
            X,
            one_vs_rest_targets(indices, len(self.classes_)),
            C,
            weight,
            left_out_shares(sample_weight),
            leave_one_out=self.probability == "softmax",
        )
        self._store(X, fitted.solution)
        if self.probability == "softmax":
            rows = fitted.loo_rows
            self._calibrate(
                fitted.solution.loo_decision,
                indices[rows],
                None if weight is None else weight[rows],
            )
        return self


class LSSVMRegressor(MultiOutputMixin, RegressorMixin, LSSVMBase):
    """Least-squares support vector regressor: kernel ridge with an intercept.

    Fits f(x) = Σᵢ aᵢ k(x, xᵢ) + b by solving

        [ 0   1ᵀ     ] [ b ]   [ 0 ]
        [ 1   K + I/C ] [ a ] = [ y ]

    for all outputs at once. The intercept is not penalised, so that a constant added to
    ``y`` is added to the predictions and changes nothing else.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the regularisation, H = K + I/C.
    kernel : str, kernel object or callable, default="rbf"
        ``"linear"``, ``"poly"``, ``"rbf"``, ``"exponential"``, ``"cauchy"``,
        ``"sigmoid"``, ``"cosine"``, ``"laplacian"``, ``"precomputed"``, an object from
        :mod:`kaucus.kernels`, or a function ``k(X, Y)`` that returns the matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernel; ``"scale"`` is 1 / (n_features X.var()), ``"auto"`` is
        1 / n_features.
    degree : int, default=3
        Degree of ``"poly"``.
    coef0 : float, default=0.0
        Constant of ``"poly"`` and ``"sigmoid"``.
    solver : {"auto", "cholesky", "cg"}, default="auto"
        ``"cholesky"`` factors the kernel matrix, ``"cg"`` needs only products with it;
        ``"auto"`` chooses by the number of rows and the memory budget, and ``solver_``
        tells.
    tol : float, default=1e-6
        Relative residual at which ``"cg"`` stops.
    max_iter : int, default=1000
        Most steps of ``"cg"``.
    device : str, default=None
        None computes where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes there and
        gives NumPy arrays back. Needs torch.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
        What does not fit is computed in blocks, again for every product.
    random_state : int, RandomState or Generator, default=None
        Draws the preconditioner of ``"cg"``.
    verbose : int, default=0
        1 tells which solver was chosen and shows progress on a terminal.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        a.
    intercept_ : ndarray of shape (n_targets,)
        b.
    X_fit_ : array or CSR matrix of shape (n_samples, n_features)
        The training rows; absent with a precomputed kernel.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed.
    solver_ : str
        The solver that ran.
    n_iter_ : int
        Its steps; 1 for a factorisation without refinement.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where ``X`` had names that are all strings.

    See Also
    --------
    LSSVMRegressorCV : The same with C, and gamma if asked, chosen by leave-one-out.
    sklearn.kernel_ridge.KernelRidge : The same without an intercept.

    References
    ----------
    J. A. K. Suykens et al., "Least Squares Support Vector Machines", World Scientific
    (2002).

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LSSVMRegressor
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = LSSVMRegressor(C=100, gamma=1.0).fit(X, np.sin(X[:, 0]) + 10)
    >>> model.predict([[1.5]]).round(2)
    array([11.])
    """

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        device=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Fit the model.

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
        self : LSSVMRegressor
        """
        self._check_parameters()
        C = check_positive("C", self.C, remedy="It is the inverse of the ridge.")
        X, y = self._validate(
            X, y, reset=True, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        weight = check_weights(sample_weight, X)
        self._single_output = y.ndim == 1
        Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        fitted = self._fit_core(X, Y, C, weight, None, leave_one_out=False)
        self._store(X, fitted.solution)
        return self

    def predict(self, X):
        """Return f(x).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        values = self._decision_values(X)
        return values[:, 0] if self._single_output else values
