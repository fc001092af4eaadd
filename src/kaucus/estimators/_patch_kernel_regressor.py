"""Predict numbers from pictures by a kernel of their patches."""

import numpy as np

from kaucus.backend import to_numpy
from kaucus.estimators._patch_kernel_base import PatchKernelBase
from kaucus.estimators._predictions import RegressorPredictions
from kaucus.machines import NumberTargets


class PatchKernelRegressor(RegressorPredictions, PatchKernelBase):
    """Regressor of pictures: a Gaussian kernel of patches, and a least-squares SVM.

    As :class:`PatchKernelClassifier`, for one or several numbers of each picture: an
    angle, an age, a position. What is left open is chosen by the leave-one-out squared
    error.

    Parameters
    ----------
    n_filters : int or "auto", default="auto"
        As in :class:`PatchKernelClassifier`, as all others.
    patch_sizes : int or sequence of int, default=6
        Side of a patch in pixels, or several of them, such as ``(4, 6, 9)``.
    image_shape : tuple of int or None, default=None
        ``(height, width)`` or ``(channels, height, width)``; None: guessed from 784,
        1,024 or 3,072 columns.
    gamma : float or "auto", default="auto"
        Width of the kernel, for features whose mean squared norm is one.
    C : float or "auto", default="auto"
        Inverse strength of the regularisation, H = K + I/C.
    mirror : bool, "rows" or "auto", default="auto"
        True pools a picture and its mirror image together; ``"rows"`` fits mirror
        images as rows of their own, at the price of two kernel matrices, with half of
        the filters mirror images of the others; ``"auto"`` chooses True or False.
    threshold : float or "auto", default=1.0
        Responses of a smaller size count as zero.
    pooling : int, tuple of int or "auto", default=3
        Cells along each side; of a tuple, all these grids together.
    power : float or "auto", default=0.5
        What pooled responses are raised to.
    combine : {"sum", "mean"}, default="sum"
        The Gaussian of summed distances, or the mean of Gaussians.
    dictionary : {"random", "kmeans"}, default="random"
        As in :class:`~kaucus.preprocessing.PatchDictionary`.
    whitening : float or None, default=0.1
        As in :class:`~kaucus.preprocessing.PatchDictionary`.
    n_representatives : int or None, default=None
        As in :class:`PatchKernelClassifier`.
    device : str, default=None
        As in :class:`PatchKernelClassifier`.
    precision : {"auto", "float64", "float32", "float16"}, default="auto"
        As in :class:`PatchKernelClassifier`.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
    random_state : int, RandomState or Generator, default=None
        Draws the patches, the pictures of the search and the representatives.
    verbose : int, default=0
        1 tells a guessed shape and what was chosen, and shows progress on a terminal.

    Attributes
    ----------
    image_shape_ : tuple of int
        (channels, height, width).
    gamma_ : float
        The gamma in use.
    C_ : float
        The C in use.
    mirror_ : bool or "rows"
        How mirror images are used.
    threshold_ : float
        The threshold in use.
    pooling_ : int or tuple of int
        The cells along each side in use.
    power_ : float
        The power in use.
    search_results_ : dict of ndarrays
        What was tried, a row for each, and its leave-one-out squared error, for outputs
        of unit variance.
    loo_score_ : float
        Leave-one-out R² of the model on 2,000 of its pictures (10,000 on a GPU).
    kernel_ : PatchKernel
        The kernel, with its filters and the moments of the features.
    X_fit_ : array of shape (n_representatives, n_features)
        The pictures whose kernel columns the model is made of.
    dual_coef_ : ndarray of shape (n_representatives, n_outputs)
        Their coefficients.
    intercept_ : ndarray of shape (n_outputs,)
        b.
    solver_ : str
        ``"cholesky"``: exact, of all pictures; ``"normal_equations"``: least squares on
        representatives.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where ``X`` had names that are all strings.

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

    def fit(self, X, y):
        """Make the filters, choose what is open, and fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each row is a flattened picture, of numbers of any type.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.

        Returns
        -------
        self : PatchKernelRegressor
        """
        self._check_parameters()
        X, Y = self._validate_outputs(X, y)
        model = self._learn(X, NumberTargets(Y, 1))
        unseen = Y[model.unseen_rows]
        squares = (to_numpy(model.solution.loo_decision) - unseen) ** 2
        spread = np.maximum(unseen.var(axis=0), 1e-300)
        self.loo_score_ = float(np.mean(1 - squares.mean(axis=0) / spread))
        return self
