"""What every kernel estimator shares: rows in, kernel and device arrays out."""

import numpy as np

from kaucus._array_input import validate_data
from kaucus.backend import (
    PRECISIONS,
    array_namespace,
    as_like,
    astype,
    device_parts,
    dtype_name,
    generator_from,
    is_numpy,
    is_sparse,
    is_tensor,
    parse_bytes,
    rows_on_device,
    rows_seen_from,
    to_device,
    working_types,
)
from kaucus.estimators._given_matrix import check_precomputed
from kaucus.estimators._ranges import check_kernel_values, check_magnitude
from kaucus.estimators._validation import (
    check_choice,
    check_count,
    check_finite,
    check_positive,
)
from kaucus.kernels import Precomputed, kernel_class, resolve_gamma, resolve_kernel


class KernelInputMixin:
    """For estimators with kernel, gamma, degree, coef0, device and memory_budget."""

    # Words that the parameters take beside the kernels' names and numbers.
    _kernel_words = ("precomputed",)
    _gamma_words = ("scale", "auto", "median")

    def _check_kernel_parameters(self) -> None:
        """Check what can be wrong before the data is looked at."""
        if isinstance(self.kernel, str) and self.kernel not in self._kernel_words:
            kernel_class(self.kernel, also=self._kernel_words)
        if isinstance(self.gamma, str):
            words = " or a positive number"
            check_choice("gamma", self.gamma, self._gamma_words, words=words)
        else:
            remedy = f"Or pass one of {list(self._gamma_words)}."
            check_positive("gamma", self.gamma, remedy=remedy)
        check_count("degree", self.degree)
        check_finite("coef0", self.coef0)
        check_choice("precision", self.precision, PRECISIONS)
        if self.memory_budget is not None:
            parse_bytes(self.memory_budget)
        if not isinstance(self.random_state, np.random.RandomState):
            generator_from(self.random_state)  # advances nothing

    def _validate(self, X, y="no_validation", *, reset: bool, **options):
        """Return ``X`` as floats of its own kind (and ``y`` as a NumPy array)."""
        if self._precomputed and not reset:
            self._check_width(X)
        checked = validate_data(
            self,
            X,
            y,
            reset=reset,
            accept_sparse=False if self._precomputed else "csr",
            dtype=working_types(self.precision),
            **options,
        )
        if not self._precomputed:
            rows = checked[0] if isinstance(checked, tuple) else checked
            check_magnitude(rows, fitted=reset)
        return checked

    def _check_width(self, K) -> None:
        shape = tuple(getattr(K, "shape", None) or np.shape(K))
        width = shape[1:]
        if len(width) == 1 and width[0] != self.n_features_in_:
            raise ValueError(
                f"kernel='precomputed' needs k(X_new, X_fit), one column for each of "
                f"the {self.n_features_in_} training rows, got shape {shape}."
            )

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _resolve_kernel(self, X, sample_weight, gamma=None):
        """Return the kernel object, with gamma as a number; None if precomputed."""
        if self._precomputed:
            check_precomputed(X)
            return None
        gamma = self.gamma if gamma is None else gamma
        kernel = resolve_kernel(
            self.kernel,
            gamma=resolve_gamma(gamma, X, beside(X, sample_weight), self.kernel),
            also=self._kernel_words,
            degree=self.degree,
            coef0=self.coef0,
        )
        check_kernel_values(kernel, X)
        kernel(X[:2, :], X[:3, :])  # a function of the user's: does it return a matrix?
        return kernel

    def _kernel_and_rows(self, kernel, X):
        """Return kernel and rows on the device; row numbers for a given matrix.

        Rows that do not fit there stay, and are seen from there.
        """
        if kernel is not None:
            return kernel, kernel_rows(X, self.device, self.memory_budget)
        kernel = Precomputed(on_device(X, self.device))
        return kernel, kernel.row_numbers()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed
        tags.input_tags.pairwise = self._precomputed
        return tags


def on_device(X, device):
    """Return ``X`` on the device; CSR matrices stay on the host."""
    if is_sparse(X):
        if device not in (None, "cpu"):
            raise ValueError(
                f"device={device!r} takes dense data only; X is sparse. Use "
                "device=None, or X.toarray()."
            )
        return X
    return to_device(X, device)


def fitting_rows(X, device, memory_budget):
    """Return ``X`` on the device, or as it is where it does not fit there."""
    if is_sparse(X):
        return on_device(X, device)
    return rows_on_device(X, device, memory_budget)


def kernel_rows(X, device, memory_budget):
    """Return ``X`` on the device, or as ``HostRows`` where it does not fit there."""
    if is_sparse(X):
        return on_device(X, device)
    return rows_seen_from(X, device, memory_budget)


def are_left_behind(rows, device) -> bool:
    """Tell whether rows are on the host though the work is to be elsewhere."""
    return is_numpy(rows) and device not in (None, "cpu")


def map_rows(function, X, device, memory_budget):
    """Return a function of all rows, computed on the device, in the kind of ``X``.

    Rows that do not fit there travel in blocks.
    """
    if is_sparse(X):
        return function(on_device(X, device))
    parts = [as_like(function(r), X) for r in device_parts(X, device, memory_budget)]
    return parts[0] if len(parts) == 1 else array_namespace(parts[0]).concat(parts)


def beside(rows, values):
    """Return ``values`` in the library and on the device of ``rows``.

    CSR rows are of NumPy; CSR values become dense beside tensors, and stay elsewhere.
    """
    if values is None:
        return None
    if is_sparse(values):
        return as_like(values.toarray(), rows) if is_tensor(rows) else values
    return as_like(values, rows)


def in_precision_of(fitted, X):
    """Bring the training rows beside the rows to predict, in their precision."""
    return astype(beside(X, fitted), dtype_name(X))


def support_beside(fitted, rows, device, memory_budget):
    """Bring training rows beside the rows to predict, or let them be seen from there.

    They are as many as were fitted, and need not fit on the device. Their precision
    stays: what they lose by rounding, large coefficients multiply.
    """
    if are_left_behind(fitted, device) and is_tensor(rows):
        return rows_seen_from(fitted, device, memory_budget)
    return beside(rows, fitted)
