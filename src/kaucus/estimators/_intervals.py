"""Predictions of regressors: values, standard deviations, intervals."""

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from kaucus.backend import array_namespace, as_like, to_numpy
from kaucus.contract import HostR2, rowwise
from kaucus.estimators._left_out import (
    KnowsLeftOut,
    check_calibrated,
    checked_predictions,
    levels_of,
    refuse_dask,
)
from kaucus.estimators._parameters import BOOLEAN, one_of
from kaucus.estimators._ranges import check_results
from kaucus.estimators._validation import numeric_targets
from kaucus.solvers import (
    check_enough_rows,
    left_out_intervals,
    symmetric_intervals,
)

INTERVAL_METHODS = ("plus", "naive", "minmax", "split")


# Rows may be float32. Of targets with a large offset, float32 would keep few digits.
_RESULTS = "float64"


class RegressorPredictions(HostR2, MultiOutputMixin, RegressorMixin):
    """From decision values to predictions of one or several outputs."""

    @rowwise
    def predict(self, X):
        """Return f(x).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            In float64, whatever the rows.
        """
        values = check_results(self._decision_values(X, _RESULTS))
        return values[:, 0] if self._single_output else values

    def _validate_outputs(self, X, y, *, reset: bool = True):
        """Return ``X`` and the outputs as columns, (n, t)."""
        X, y = self._validate(
            X,
            y,
            reset=reset,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2 if reset else 1,
        )
        if reset:
            self._single_output = y.ndim == 1
        return X, numeric_targets(y)


class IntervalPredictions(KnowsLeftOut, RegressorPredictions):
    """Predictions of one or several outputs, and how sure they are."""

    def predict(self, X, return_std=False):
        """Return f(x), and its standard deviation if asked.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).
        return_std : bool, default=False
            Whether to return the standard deviation of f(x) too, that of the Gaussian
            process with this kernel: its noise is 1/C of the kernel's scale, which is
            that of the largest likelihood. As in scikit-learn's
            ``GaussianProcessRegressor``, the noise of a new ``y`` is not in it.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            With ``return_std=True`` a pair of such arrays.
        """
        BOOLEAN.check("return_std", return_std)
        if not return_std:
            return super().predict(X)
        model = self._for_rows(X, "std")
        return super().predict(X), model._standard_deviations(X)

    def predict_interval(self, X, confidence_level=0.9, method="plus"):
        """Return intervals that hold the targets of new rows with a probability.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X_fit), (n_samples, n_samples_fit).
        confidence_level : float or sequence of float, default=0.9
            1 − α: the share of targets that the intervals shall hold.
        method : {"plus", "naive", "minmax", "split"}, default="plus"
            ``"plus"``: jackknife+, by the exact leave-one-out model of every training
            row. ``"naive"``: f(x) plus and minus a quantile of the leave-one-out
            residuals, the same width everywhere. ``"minmax"``: that quantile beyond the
            smallest and largest prediction of the leave-one-out models, the widest.
            ``"split"``: f(x) plus and minus a quantile of the residuals of rows that
            :meth:`conformalize` was given.

        Returns
        -------
        ndarray of shape (n_samples, 2, n_levels) or (n_samples, 2, n_levels, n_outputs)
            Lower and upper ends. Each output has its own level.

        Notes
        -----
        For rows drawn as the training rows were, ``"plus"`` holds at least 1 − 2α of
        the targets, in practice about 1 − α, if kernel, C, metric and representatives
        were chosen without looking at these rows; ``"minmax"`` holds 1 − α then;
        ``"naive"`` promises nothing; ``"split"`` holds 1 − α in any case.

        The first call solves the system of ``fit`` once more, where the leave-one-out
        models are needed, and keeps its factor; every row of X then costs n² products
        for n training rows, or n m with m representatives.
        """
        levels = levels_of(confidence_level)
        one_of(*INTERVAL_METHODS).check("method", method)
        model = self._for_rows(X, method)
        return model._intervals(X, levels=levels, method=method)

    def conformalize(self, X, y, predictions=None):
        """Take rows that were not fitted, for intervals with ``method="split"``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows held out. With ``kernel="precomputed"``: k(X, X_fit).
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        predictions : array-like of the shape of y, default=None
            f(x) of models that were not fitted to these rows, where this one was: those
            of ``sklearn.model_selection.cross_val_predict``, or of a model of fewer
            rows; what is promised then holds nearly. None: the predictions of this
            model.

        Returns
        -------
        self : object
            Only the residuals are kept; the next fit forgets them.
        """
        refuse_dask(X)
        if predictions is None:
            f = to_numpy(check_results(self._decision_values(X, _RESULTS)))
        else:
            f = checked_predictions(predictions)
        _, Y = self._validate_outputs(X, y, reset=False)
        if Y.shape != f.shape:
            raise ValueError(
                f"y has {Y.shape[0]} rows and {Y.shape[1]} outputs, and the "
                f"predictions {f.shape[0]} and {f.shape[1]}; pass as many."
            )
        self._calibration = np.abs(Y - f)
        return self

    @rowwise
    def _intervals(self, X, *, levels, method):
        """Return the intervals of a list of levels."""
        if method in ("plus", "minmax"):
            ends = self._jackknife(X, levels, method)
        else:
            f = check_results(self._decision_values(X, _RESULTS))
            residuals = self._unseen_residuals(method)
            check_enough_rows(residuals.shape[0], levels)
            ends = symmetric_intervals(f, as_like(residuals, f), levels)
        return ends[:, :, :, 0] if self._single_output else ends

    def _unseen_residuals(self, method):
        """Return residuals by models that have not seen the row."""
        if method == "split":
            check_calibrated(self._calibration)
            return self._calibration
        return self._left_out_models().left_out.residuals

    def _jackknife(self, X, levels, method):
        self._validate(X, reset=False)  # before the models are made
        check_enough_rows(self._unseen_residuals(method).shape[0], levels)

        def ends(f, models, x, K):
            check_results(f)
            influence, e = models.influence(K), models.left_out.residuals
            return left_out_intervals(f, influence, e, levels, method)

        return self._over_left_out(X, ends)

    @rowwise
    def _standard_deviations(self, X):
        """Return the standard deviation of f(x), (n,) or (n, t)."""
        if self._precomputed:
            raise ValueError(
                "return_std=True needs k(x, x) of each row, which kernel='precomputed' "
                "does not give; pass rows and a kernel."
            )

        def deviations(f, models, x, K):
            xp = array_namespace(K)
            factors = (models.variance(x, K)[:, None], models.scale[None, :])
            # Rounding may make a zero of either negative: of equal targets, the scale.
            root, scale = (xp.sqrt(xp.maximum(f, xp.zeros_like(f))) for f in factors)
            return root * scale

        found = self._over_left_out(X, deviations)
        return found[:, 0] if self._single_output else found
