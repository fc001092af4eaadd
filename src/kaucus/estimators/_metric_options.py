"""What ``learn_metric`` means for an estimator with a kernel to choose."""

from collections.abc import Sequence

import numpy as np

from kaucus.backend import (
    Array,
    RowSource,
    array_namespace,
    as_like,
    is_sparse,
    warn_user,
)
from kaucus.estimators._parameters import one_of
from kaucus.kernels import (
    Kernel,
    MappedKernel,
    kernels_with_gamma,
    resolve_kernel,
)
from kaucus.machines import Family, MetricOptions

LEARN_METRIC = one_of("auto", True, False)
METRIC_CS = 10.0 ** np.arange(-1, 5.1, 0.5)
"""What ``C="auto"`` chooses from where a metric is learned."""
AUTO_FAMILIES = ("exponential", "rbf", "laplacian")
"""What ``kernel="auto"`` chooses from where a metric is learned."""
# Of more columns, Manhattan distances take too long: they are no matrix product.
_LAPLACIAN_COLUMNS = 64
# Of more columns, a full metric takes longer than it helps.
_FULL_COLUMNS = 1000
# Of all the variance, in one column.
_NEARLY_ALL = 0.999


def is_auto(kernel: object) -> bool:
    """Tell whether the kernel is left to be chosen."""
    return isinstance(kernel, str) and kernel == "auto"


def learns_metric(learn_metric: object, kernel: object, gamma: object) -> bool:
    """Tell whether a metric is learned: if asked, or if all else is left open."""
    if isinstance(learn_metric, str):
        return is_auto(kernel) and isinstance(gamma, str) and gamma == "tune"
    return bool(learn_metric)


def metric_options(
    X: Array,
    kernel: object,
    gamma: object,
    Cs: Sequence[float] | None,
    *,
    degree: int = 3,
    coef0: float = 0.0,
) -> MetricOptions:
    """Return what the search of a metric chooses from.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    kernel, gamma
        As the estimator has them; gamma ``"tune"`` is searched.
    Cs : sequence of float or None
        To choose from; None: 0.1 to 100,000, and beyond where that pays.
    degree, coef0
        Of a named kernel.
    """
    d = X.shape[1]
    X = X.longest if isinstance(X, RowSource) else X
    families = _families(X, kernel, gamma, {"degree": degree, "coef0": coef0})
    kinds = ("diagonal", "full")
    if is_sparse(X) or d > _FULL_COLUMNS:
        kinds = ("diagonal",)
    given = METRIC_CS if Cs is None else Cs
    return MetricOptions(families, given, beyond=Cs is None, kinds=kinds)


def _families(X: Array, kernel, gamma, params: dict) -> list[Family]:
    if is_auto(kernel):
        names = AUTO_FAMILIES
        if is_sparse(X) or X.shape[1] > _LAPLACIAN_COLUMNS:
            names = names[:2]
    elif isinstance(kernel, str) and kernel in kernels_with_gamma():
        names = (kernel,)
    else:
        return [_with_gradient(resolve_kernel(kernel, **params))]
    word, number = (gamma, 1.0) if isinstance(gamma, str) else (None, float(gamma))
    return [
        _with_gradient(resolve_kernel(name, gamma=number, **params), word)
        for name in names
    ]


def _with_gradient(kernel: Kernel, gamma: str | None = None) -> Family:
    """Check that a given kernel has a gradient before any work is done."""
    one = np.ones((1, 1))
    try:
        next(iter(kernel.gradients(one, one, one)))
    except NotImplementedError as error:
        raise ValueError(
            f"learn_metric=True needs a kernel with a gradient: {error} Or pass "
            "learn_metric=False."
        ) from error
    return Family(kernel, gamma)


def warn_of_one_column(X: Array, kernel: object, names=None) -> None:
    """Warn where one column carries nearly all the variance that distances see."""
    if is_sparse(X) or isinstance(X, RowSource) or min(X.shape) < 2:
        return
    if isinstance(kernel, str) and kernel in ("linear", "cosine", "precomputed"):
        return
    xp = array_namespace(X)
    variances = xp.var(X, axis=0)
    total = float(xp.sum(variances))
    c = int(xp.argmax(variances))
    if total > 0 and float(variances[c]) > _NEARLY_ALL * total:
        name = f"Column {c}" if names is None else f"Column {names[c]!r}"
        share = 100 * float(variances[c]) / total
        warn_user(
            f"{name} carries {share:.2f} % of the variance of X, so distances hardly "
            "see the other columns. Standardise them, for example with "
            "make_pipeline(StandardScaler(), ...), or pass learn_metric=True.",
            UserWarning,
        )


class LearnedImportances:
    """Mixin: what a learned metric tells about the columns.

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,)
        Share of each column in the learned metric: its diagonal, for columns of spread
        1. Absent where no metric was searched.
    """

    @property
    def feature_importances_(self):
        """Share of each column in the learned metric, (n_features,); they sum to 1."""
        kernel = getattr(self, "kernel_", None)
        if not isinstance(kernel, MappedKernel):
            raise AttributeError(
                f"{type(self).__name__} has no feature_importances_: no metric was "
                "learned. Fit with learn_metric=True, or with kernel and gamma left to "
                "be searched."
            )
        return as_like(kernel.row_map.importances(), self._support_rows())

    @property
    def _has_metric(self) -> bool:
        return isinstance(self.kernel_, MappedKernel)

    def _metric_text(self) -> str:
        """Say in a sentence what the learned metric makes of the columns."""
        if not self._has_metric:
            return ""
        shares = self.kernel_.row_map.importances()
        if np.ptp(shares) < 1e-9:
            return " No metric was better than none: all columns count alike."
        first = np.argsort(-shares, kind="stable")[:3]
        names = getattr(
            self, "feature_names_in_", [f"column {c}" for c in range(len(shares))]
        )
        most = ", ".join(f"{names[c]} ({100 * shares[c]:.0f} %)" for c in first)
        return f" Metric: {most} count most."
