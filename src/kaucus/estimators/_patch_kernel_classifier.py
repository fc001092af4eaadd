"""Classify pictures by a kernel of their patches."""

from kaucus.backend import to_numpy
from kaucus.estimators._patch_kernel_base import PatchKernelBase
from kaucus.estimators._predictions import ClassifierPredictions
from kaucus.machines import ClassTargets, all_classes
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
    n_filters : int or "auto", default="auto"
        How many filters, shared out evenly among the sizes of patches. ``"auto"``:
        2,048 on a GPU, 512 elsewhere. More are better, and take longer.
    patch_sizes : int or sequence of int, default=6
        Side of a patch in pixels, or several of them, such as ``(4, 6, 9)``.
    image_shape : tuple of int or None, default=None
        ``(height, width)`` or ``(channels, height, width)``, in the order of the
        flattened row. None: guessed from 784, 1,024 or 3,072 columns; ``image_shape_``
        and ``verbose=1`` tell.
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
        With several sizes of patches or grids of cells: the Gaussian of the summed
        distances, or the mean of the Gaussians of each.
    dictionary : {"random", "kmeans"}, default="random"
        As in :class:`~kaucus.preprocessing.PatchDictionary`.
    whitening : float or None, default=0.1
        As in :class:`~kaucus.preprocessing.PatchDictionary`.
    n_representatives : int or None, default=None
        Pictures whose kernel columns all pictures are fitted on: a half of them drawn
        at random, then the hardest. None: all pictures, and the exact solution, where
        their matrix fits ``memory_budget``; as many as fit, elsewhere.
    device : str, default=None
        None computes where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes there and
        gives results back as the kind of ``X``. Needs torch.
    precision : {"auto", "float64", "float32", "float16"}, default="auto"
        Of the responses to filters. ``"auto"``: float16 on a GPU, with tf32 products,
        and float32 elsewhere. Pictures stay in their own type; systems of equations are
        solved in float64.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
    random_state : int, RandomState or Generator, default=None
        Draws the patches, the pictures of the search and the representatives.
    verbose : int, default=0
        1 tells a guessed shape and what was chosen, and shows progress on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
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
        What was tried, a row for each, and its leave-one-out log-loss. For
        ``pandas.DataFrame(model.search_results_)``.
    loo_score_ : float
        Leave-one-out accuracy of the model on 2,000 of its pictures (10,000 on a GPU).
    kernel_ : PatchKernel
        The kernel, with its filters and the moments of the features.
    X_fit_ : array of shape (n_representatives, n_features)
        The pictures whose kernel columns the model is made of.
    dual_coef_ : ndarray of shape (n_representatives, n_targets)
        Their coefficients; n_targets is 1 for two classes, else n_classes.
    intercept_ : ndarray of shape (n_targets,)
        b.
    temperature_ : float
        By which decision values are divided before the softmax.
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
            Each row is a flattened picture, of numbers of any type; uint8 is best.
        y : array-like of shape (n_samples,)
            Labels of any one type.

        Returns
        -------
        self : PatchKernelClassifier
        """
        self._check_parameters()
        X, indices = self._validate_labels(X, y)
        targets = ClassTargets(indices, len(self.classes_), lambda weight, _: weight)
        model = self._learn(X, targets)
        loo, unseen = model.solution.loo_decision, indices[model.unseen_rows]
        self._calibrate(loo, unseen, None)
        values = all_classes(to_numpy(loo))
        self.loo_score_ = classification_score(values, unseen, "accuracy").value
        return self
