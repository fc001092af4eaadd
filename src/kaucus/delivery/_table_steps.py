"""Steps of the pipeline for tables that work in float64, where skrub has float32."""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer

from kaucus.contract import require
from kaucus.delivery._table_rows import Remarks, as_kinds


class DateParts(TransformerMixin, BaseEstimator):
    """Transformer: a column of dates as year, month, day, hour and seconds in float64.

    Parameters
    ----------
    kind : str, default="date"
        Kind of the column, for dates that come as texts.
    """

    def __init__(self, kind="date"):
        self.kind = kind

    def fit(self, X, y=None):
        """Learn whether the dates have a time of day."""
        [self.name_] = X.columns
        dates = self._dates(X).dropna()
        has_time = (dates != dates.dt.normalize()).any()
        self.parts_ = ["year", "month", "day", *(["hour"] if has_time else [])]
        return self

    def transform(self, X):
        """Return a frame with a column for each part; NaN in gaps."""
        pandas, dates = require("pandas", "tables"), self._dates(X)
        parts = [getattr(dates.dt, part) for part in self.parts_]
        parts.append((dates - pandas.Timestamp(0)) / pandas.Timedelta(seconds=1))
        columns = dict(zip(self.get_feature_names_out(), parts, strict=True))
        return pandas.DataFrame(columns, dtype=np.float64)

    def _dates(self, X):
        return as_kinds(X, {self.name_: self.kind}, Remarks("X"))[self.name_]

    def get_feature_names_out(self, input_features=None):
        """Return the names of the parts."""
        parts = [*self.parts_, "total_seconds"]
        return np.array([f"{self.name_}_{part}" for part in parts], dtype=object)


class GapFiller(SimpleImputer):
    """``SimpleImputer`` in float64; skrub makes texts columns of float32."""

    def fit(self, X, y=None):
        """Learn the value that fills the gaps of each column."""
        return super().fit(X.astype(np.float64), y)

    def transform(self, X):
        """Fill gaps."""
        return super().transform(X.astype(np.float64))
