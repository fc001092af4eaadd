"""The k-means kernel classifier: a few representatives of each class, and an LS-SVM."""

import functools
from typing import ClassVar

import numpy as np

from kaucus.backend import as_like, label_array, take_rows, to_numpy
from kaucus.estimators._kmeans_kernel_base import SIZE_WORDS, RepresentativesBase
from kaucus.estimators._parameters import count, instance_of, one_of
from kaucus.estimators._predictions import SetPredictions
from kaucus.estimators._validation import (
    check_known_labels,
    check_one_label_type,
    check_weights,
    weights_with_classes,
)
from kaucus.machines import ClassTargets, Model

FIT_ON = ("all", "boundary", "representatives")


class KMeansKernelClassifier(SetPredictions, RepresentativesBase):
    """Kernel classifier in which a few representatives speak for each class.

    Each class is clustered by k-means; its centres z_q, ``n_representatives`` of them,
    become the kernel's columns:

        f_j(x) = Σ_q a_qj k(x, z_q) + b_j,

    fitted to targets ±1 by regularised least squares, either of all training rows or,
    as in the paper, of the representatives alone. The model has the size you choose,
    whatever the number of rows, and it is fitted in one pass over them.

    Parameters
    ----------
    n_representatives : int, dict or {"fast", "balanced", "best"}, default="balanced"
        Representatives of each class, or ``{class: number}``. A class with fewer rows
        gives all of them. A word says how much to spend: at most 1,000, 6,000 or 12,000
        representatives in all, less where memory is short. Where there are no more rows
        than 1.7 times that (once, with ``sample_weight``), all of them, which takes no
        longer; else 250, 750 or 1,500, shared out among the classes by leave-one-out,
        and doubled with rows chosen as ``refine="auto"`` does, while that lessens the
        log-loss of rows held out by more than 2, 1 or 0 %; a doubling that raises it is
        taken back. With ``fit_on="representatives"`` a word means 100 of each class.
    fit_on : {"all", "boundary", "representatives"}, default="all"
        ``"all"``: least squares of every training row on the representatives' kernel
        columns; more accurate. ``"representatives"``: the LS-SVM of the representatives
        alone, as in the paper; faster. ``"boundary"``: least squares of five rows for
        each representative but at least 10,000, a third of them those that a rough fit
        is least sure about, the others at random. For many rows: several times faster
        than ``"all"``, and as accurate where hard rows are added by ``refine``. Where
        there are no more rows than that, and in ``partial_fit``, it is ``"all"``.
    refine : int, "auto" or None, default=None
        So many training rows that the fit so far finds hardest, those of the smallest
        margin, become representatives too, in two rounds with a fit after each (in one
        with ``fit_on="boundary"``). Better where classes hardly overlap, worse where
        they do. ``"auto"``: twice as many rows as there are representatives, hard ones
        or any, whichever is better in the first round by rows held out, a tenth but at
        most 5,000, which join the others in the end. Rows that repeat a representative
        are passed over.
    C : "auto" or float, default="auto"
        Inverse strength of the regularisation, as in :class:`LSSVMClassifier`; the
        papers' γ or 1/ε. ``"auto"``: of 0.01 ... 10,000 the one with the least log-loss
        of leave-one-out values, on at most 5,000 of the rows; with ``fit_on="all"`` the
        intercept is then moved to where it is least, if by more than chance.
    random_state : int, RandomState or Generator, default=None
        Draws where k-means begins, and rows for the temperature of the probabilities.

    Attributes
    ----------
    representatives_ : ndarray of shape (n_representatives_total, n_features)
        The representatives, class by class, and after them the hard rows.
    representative_labels_ : ndarray of shape (n_representatives_total,)
        Their classes.
    representative_weights_ : ndarray of shape (n_representatives_total,)
        How many rows each stands for, with their weights.
    fit_rows_ : ndarray or None
        Numbers of the training rows that were fitted; None: all, or representatives.
    dual_coef_ : ndarray of shape (n_representatives_total, n_targets)
        A; n_targets is 1 for two classes, else n_classes.
    n_iter_ : int
        Most steps of k-means that a class needed.

    See Also
    --------
    LSSVMClassifier : The same with every training row as representative.
    PatchVotingClassifier : For pictures: a vote of patches.

    Notes
    -----
    For n rows, m representatives, d features and s steps of k-means on K classes of
    equal size: s n m d / K multiplications for the clustering, n m d + n m²/2 for the
    least squares of all rows (n m₀ d + 5 m² d + 5 m³/2 for those near the boundary,
    with m₀ representatives before ``refine``), m² d + m³/6 for those of the
    representatives; m d for the prediction of a row.

    The model refers to the training rows as long as it is in memory, for
    :meth:`predict_set`; a file of it has none.

    The papers' classifier of digits is ``make_pipeline(UnitNormalizer(),
    KMeansKernelClassifier(1000, clustering="spherical", fit_on="representatives",
    kernel="poly", degree=4, gamma=1, C=1e6))``.

    References
    ----------
    M. Andrecut, "K-means kernel classifier" (2020).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kaucus import KMeansKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KMeansKernelClassifier(30, learn_metric=False, random_state=0)
    >>> model = model.fit(X[:1000], y[:1000])
    >>> model.representatives_.shape
    (300, 64)
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.97
    """

    _takes_matrices = "LSSVMClassifier"

    _parameters: ClassVar = {
        "n_representatives": count()
        | SIZE_WORDS
        | instance_of(dict, "a dict {class: number}"),
        "fit_on": one_of(*FIT_ON),
    }

    def __init__(
        self,
        n_representatives="balanced",
        *,
        clustering="kmeans",
        fit_on="all",
        refine=None,
        C="auto",
        kernel="auto",
        gamma="tune",
        learn_metric="auto",
        degree=3,
        coef0=0.0,
        class_weight=None,
        probability="softmax",
        kmeans_params=None,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.n_representatives = n_representatives
        self.clustering = clustering
        self.fit_on = fit_on
        self.refine = refine
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.learn_metric = learn_metric
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.probability = probability
        self.kmeans_params = kmeans_params
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Choose representatives, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in k-means, and their precisions in the least squares: a
            weight multiplies the row's squared error. A factor of all weights is one of
            C, and changes nothing with ``C="auto"``.

        Returns
        -------
        self : KMeansKernelClassifier
        """
        self._check_parameters()
        X, indices = self._validate_labels(X, y)
        weight = check_weights(sample_weight, X)
        # Before any long work: are there two classes with weight?
        weights_with_classes(weight, self.class_weight, self.classes_, indices)
        return self._learn(X, self._targets(indices), weight)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Take in more rows.

        While there are no more than 10,000 rows, or ten for each representative that is
        asked for, all are kept, and the model is chosen from them anew whenever they
        have doubled: that is a ``fit`` of all rows so far. Between, and afterwards, the
        representatives stay, and the coefficients are those of the least squares of all
        rows seen on these: their normal equations are kept, m × m numbers for m
        representatives. A class that comes later than that gets its representatives
        from a random sample of the rows, which is kept as well.

        ``fit_on="boundary"`` is ``"all"`` here. With ``fit_on="representatives"`` new
        rows are clustered together with the representatives, which count as the rows
        they stand for, and move. After a ``fit``, whose model has no rows, its
        representatives count as the rows of it.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            More rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed at the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : KMeansKernelClassifier
        """
        self._check_parameters()
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs the numbers of all rows, "
                "which partial_fit does not know; pass a dict, for example from "
                "sklearn.utils.class_weight.compute_class_weight, or sample_weight."
            )
        first = not hasattr(self, "representatives_")
        check_one_label_type(y)
        X, y = self._validate(X, y, reset=first)
        self.classes_, indices = check_known_labels(
            y, classes, None if first else self.classes_
        )
        weight = check_weights(sample_weight, X)
        return self._learn_part(X, self._targets(indices), weight)

    def _targets(self, indices: np.ndarray) -> ClassTargets:
        return ClassTargets(
            indices,
            len(self.classes_),
            functools.partial(_weigh, self.class_weight, self.classes_),
        )

    def _size(self):
        """Return the number of representatives of each class, or the word."""
        wanted, classes = self.n_representatives, self.classes_.tolist()
        if isinstance(wanted, str):
            return wanted
        if not isinstance(wanted, dict):
            return [int(wanted)] * len(classes)
        if set(wanted) != set(classes):
            raise ValueError(
                f"n_representatives has the keys {sorted(wanted, key=str)}; expected "
                f"one for each class of y, {classes}."
            )
        for c in classes:
            count().check(f"n_representatives[{c!r}]", wanted[c])
        return [int(wanted[c]) for c in classes]

    @property
    def _moves_intercept(self) -> bool:
        """Whether the intercept is chosen as C is."""
        return self._chooses_C and self.fit_on != "representatives"

    @property
    def _calibrates(self) -> bool:
        return self.probability == "softmax"

    def _store_model(self, X, model: Model) -> None:
        super()._store_model(X, model)
        labels = self.classes_[model.representatives.labels]
        self.representative_labels_ = label_array(labels, X)
        self.fit_rows_ = as_like(model.fit_rows, X)
        if self._calibrates:
            self._calibrate(*model.unseen)

    def _representative_groups(self) -> np.ndarray:
        labels = to_numpy(self.representative_labels_)
        return np.searchsorted(self.classes_, labels)

    def _keep(self, kept: np.ndarray) -> None:
        super()._keep(kept)
        self.representative_labels_ = take_rows(self.representative_labels_, kept)

    def _check_combinations(self) -> None:
        super()._check_combinations()
        if self.refine is not None and self.fit_on == "representatives":
            raise ValueError(
                f"refine={self.refine!r} adds the rows that a fit of rows finds hard; "
                f"fit_on={self.fit_on!r} is no such fit. Use fit_on='all'."
            )


def _weigh(class_weight, classes, weight, labels):
    return weights_with_classes(weight, class_weight, classes, labels, at_least=1)
