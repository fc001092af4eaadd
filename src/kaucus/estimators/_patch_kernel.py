"""Classifier and regressor of pictures by a kernel of their patches."""

import numpy as np

from kaucus.backend import to_numpy
from kaucus.estimators._intervals import RegressorPredictions
from kaucus.estimators._patch_kernel_base import PatchKernelBase, with_weight
from kaucus.estimators._predictions import ClassifierPredictions
from kaucus.estimators._validation import weights_with_classes
from kaucus.machines import (
    ClassTargets,
    NumberTargets,
    Problem,
    all_classes,
    of_rows,
)
from kaucus.solvers import classification_score


class PatchKernelClassifier(ClassifierPredictions, PatchKernelBase):
    """Classifier of pictures: a Gaussian kernel of patches, and a least-squares SVM.

    Features of a picture are its responses to a dictionary of random patches of the
    training pictures, pooled over a few cells
    (:class:`~kaucus.preprocessing.PatchDictionary`). A Gaussian kernel of these
    features is summed over blocks of filters, so that the features never exist at
    once, and the least-squares SVM is solved exactly where the matrix of all pictures
    fits ``memory_budget``. No network, no gradients, no iterations.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Inverse strength of the regularisation, H = K + I/C. ``"auto"``: that of the
        least leave-one-out log-loss.

    Attributes
    ----------
    search_results_ : dict of ndarrays
        What was tried, a row for each, and its leave-one-out log-loss. For
        ``pandas.DataFrame(model.search_results_)``.
    loo_score_ : float
        Leave-one-out accuracy of the model on 2,000 of its pictures (10,000 on a GPU).
    dual_coef_ : ndarray of shape (n_representatives, n_targets)
        Their coefficients; n_targets is 1 for two classes, else n_classes.
    intercept_ : ndarray of shape (n_targets,)
        b.

    See Also
    --------
    PatchKernelRegressor : The same for numbers.
    PatchVotingClassifier : Any classifier on patches, and a vote.
    kaucus.preprocessing.PatchDictionary : The features, for any other estimator.

    Notes
    -----
    What is ``"auto"`` is chosen by the leave-one-out log-loss of up to 2,500 training
    pictures (10,000 on a GPU), each parameter in its turn. Mirror images and other
    values of threshold, pooling and power are taken where they are better by twice the
    standard error of the difference.

    n pictures, m filters, q cells: n m H W c p² multiplications for the responses,
    n² m q for the inner products, n³/3 for the solution; n² numbers of float32, and
    copies that the solver makes. Features are kept for predictions where a quarter of
    the budget holds them, and are in no pickle.

    References
    ----------
    A. Coates, H. Lee, A. Y. Ng, "An analysis of single-layer networks in unsupervised
    feature learning", AISTATS (2011).

    M. Andrecut, "K-Means Kernel Classifier" (2020), whose patches and representatives
    this carries on.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kaucus import PatchKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PatchKernelClassifier(64, 3, image_shape=(8, 8), random_state=0)
    >>> model.fit(X[:600], y[:600]).score(X[600:], y[600:]) > 0.95
    True
    >>> model.mirror_
    False
    """

    probability = "softmax"

    def __init__(
        self,
        n_filters="auto",
        patch_sizes=6,
        *,
        image_shape=None,
        gamma="auto",
        C="auto",
        mirror="auto",
        threshold=1.0,
        pooling=3,
        power=0.5,
        combine="sum",
        dictionary="random",
        whitening=0.1,
        n_representatives=None,
        class_weight=None,
        device=None,
        precision="auto",
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.n_filters = n_filters
        self.patch_sizes = patch_sizes
        self.image_shape = image_shape
        self.gamma = gamma
        self.C = C
        self.mirror = mirror
        self.threshold = threshold
        self.pooling = pooling
        self.power = power
        self.combine = combine
        self.dictionary = dictionary
        self.whitening = whitening
        self.n_representatives = n_representatives
        self.class_weight = class_weight
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Make the filters, choose what is open, and fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each row is a flattened picture, of numbers of any type; uint8 is best.
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each picture: its weight multiplies its squared error. A factor
            of all weights is one of C, and changes nothing with ``C="auto"``. Of
            pictures of weight 0 no patch is drawn either; where there are some, the
            others are copied.

        Returns
        -------
        self : PatchKernelClassifier
        """
        self._check_parameters()
        X, indices = self._validate_labels(X, y)
        weight = self._checked_weights(sample_weight, X)
        targets = ClassTargets(indices, len(self.classes_), self._weights)
        problem = with_weight(Problem.of(X, targets, weight))
        model = self._learn(problem)
        loo, rows = model.solution.loo_decision, model.unseen_rows
        labels, judged = problem.targets.values[rows], of_rows(problem.fit_weight, rows)
        self._calibrate(loo, labels, judged)
        values = all_classes(to_numpy(loo))
        self.loo_score_ = classification_score(values, labels, "accuracy", judged).value
        return self

    def _weights(self, weight, indices):
        """Return the weights of pictures times those of their classes."""
        return weights_with_classes(weight, self.class_weight, self.classes_, indices)


class PatchKernelRegressor(RegressorPredictions, PatchKernelBase):
    """Regressor of pictures: a Gaussian kernel of patches, and a least-squares SVM.

    As :class:`PatchKernelClassifier`, for one or several numbers of each picture: an
    angle, an age, a position. What is left open is chosen by the leave-one-out squared
    error.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Inverse strength of the regularisation, H = K + I/C. ``"auto"``: that of the
        least leave-one-out squared error.

    Attributes
    ----------
    search_results_ : dict of ndarrays
        What was tried, a row for each, and its leave-one-out squared error, for outputs
        of unit variance.
    loo_score_ : float
        Leave-one-out R² of the model on 2,000 of its pictures (10,000 on a GPU).
    dual_coef_ : ndarray of shape (n_representatives, n_outputs)
        Their coefficients.
    intercept_ : ndarray of shape (n_outputs,)
        b.

    See Also
    --------
    PatchKernelClassifier : The same for classes.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kaucus import PatchKernelRegressor
    >>> X, _ = load_digits(return_X_y=True)
    >>> ink = X.mean(axis=1)
    >>> model = PatchKernelRegressor(32, 3, image_shape=(8, 8), random_state=0)
    >>> model.fit(X[:300], ink[:300]).score(X[300:], ink[300:]) > 0.5
    True
    """

    def __init__(
        self,
        n_filters="auto",
        patch_sizes=6,
        *,
        image_shape=None,
        gamma="auto",
        C="auto",
        mirror="auto",
        threshold=1.0,
        pooling=3,
        power=0.5,
        combine="sum",
        dictionary="random",
        whitening=0.1,
        n_representatives=None,
        device=None,
        precision="auto",
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.n_filters = n_filters
        self.patch_sizes = patch_sizes
        self.image_shape = image_shape
        self.gamma = gamma
        self.C = C
        self.mirror = mirror
        self.threshold = threshold
        self.pooling = pooling
        self.power = power
        self.combine = combine
        self.dictionary = dictionary
        self.whitening = whitening
        self.n_representatives = n_representatives
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Make the filters, choose what is open, and fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each row is a flattened picture, of numbers of any type.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each picture: its weight multiplies its squared error. A factor
            of all weights is one of C, and changes nothing with ``C="auto"``. Of
            pictures of weight 0 no patch is drawn either; where there are some, the
            others are copied.

        Returns
        -------
        self : PatchKernelRegressor
        """
        self._check_parameters()
        X, Y = self._validate_outputs(X, y)
        weight = self._checked_weights(sample_weight, X)
        targets = NumberTargets.of(Y, 1, weight)
        problem = with_weight(Problem.of(X, targets, weight))
        model = self._learn(problem)
        unseen = problem.targets.values[model.unseen_rows]
        judged = of_rows(problem.fit_weight, model.unseen_rows)
        squares = (to_numpy(model.solution.loo_decision) - unseen) ** 2
        spread = (unseen - np.average(unseen, axis=0, weights=judged)) ** 2
        lost = np.average(squares, axis=0, weights=judged)
        spread = np.maximum(np.average(spread, axis=0, weights=judged), 1e-300)
        self.loo_score_ = float(np.mean(1 - lost / spread))
        return self
