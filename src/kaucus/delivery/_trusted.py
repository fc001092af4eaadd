"""The types that a model file may hold: ours, and those of skrub's TableVectorizer.

skops makes nothing of a type that is not on such a list, and it has a list of
scikit-learn's and NumPy's own. A type gets on ours only if making one runs nothing but
the setting of its attributes. Functions are never on it, beside the few predicates by
which a TableVectorizer chooses columns.
"""

import inspect

from sklearn.base import BaseEstimator

import kaucus.estimators as estimators
import kaucus.kernels as kernels
import kaucus.preprocessing as preprocessing
from kaucus.kernels import Kernel

# Records that models and kernels are made of, private where they are.
_RECORDS = (
    "kaucus.contract._fitted_arrays.Packed",
    "kaucus.estimators._left_out.Training",
    "kaucus.estimators._partitions.KnownCells",
    "kaucus.estimators._partitions.ModelCells",
    "kaucus.kernels._mahalanobis.Factor",
    "kaucus.kernels._mapped.RowMap",
    "kaucus.kernels._partition.NearestCenter",
    "kaucus.kernels._patch_features.FilterGroup",
    "kaucus.kernels._patch_features.KeptFeatures",
    "kaucus.kernels._patch_features.Moments",
    "kaucus.machines._stream.KeptRows",
    "kaucus.machines._stream.Stream",
    "kaucus.machines._targets.TargetUnit",
    "kaucus.pictures._filters.FilterBank",
    "kaucus.pictures._filters.PixelRange",
    "kaucus.pictures._responses.PictureFeatures",
    "kaucus.solvers._equations.NormalEquations",
    "kaucus.solvers._low_rank.RunningSums",
    "kaucus.solvers._result.SolveInfo",
)

# By name, since skrub may not be here. Not all of skrub: its data operations can call
# anything.
_OF_SKRUB = (
    "numpy.dtype",
    "skrub._apply_to_each_col.ApplyToEachCol",
    "skrub._check_input.CheckInputDataFrame",
    "skrub._clean_categories.CleanCategories",
    "skrub._clean_null_strings.CleanNullStrings",
    "skrub._dataframe._common.is_any_date",
    "skrub._dataframe._common.is_categorical",
    "skrub._dataframe._common.is_numeric",
    "skrub._datetime_encoder.DatetimeEncoder",
    "skrub._drop_uninformative.DropUninformative",
    "skrub._duration_to_float.DurationToFloat",
    "skrub._string_encoder.StringEncoder",
    "skrub._table_vectorizer.PassThrough",
    "skrub._table_vectorizer.ShortReprDict",
    "skrub._table_vectorizer.TableVectorizer",
    "skrub._table_vectorizer._created_by_predicate",
    "skrub._to_datetime.ToDatetime",
    "skrub._to_float.ToFloat",
    "skrub._to_str.ToStr",
    "skrub.selectors._base.All",
    "skrub.selectors._base.And",
    "skrub.selectors._base.Cols",
    "skrub.selectors._base.Filter",
    "skrub.selectors._base.Sub",
    "skrub.selectors._selectors._cardinality_below",
)


def trusted_types() -> list[str]:
    """Return the names of the types that a file with a model of ours may hold.

    Enough for every estimator, transformer and kernel of this package, and for
    pipelines of them with scikit-learn's and with skrub's ``TableVectorizer``:
    ``skops.io.load(file, trusted=trusted_types())`` loads what :func:`save` has
    written. A kernel that is a function of the user's own is not among them, nor is a
    tree (``partition="tree"``), whose numbers scikit-learn does not check.

    Returns
    -------
    list of str
        Sorted.

    Examples
    --------
    >>> "kaucus.estimators._ls_svm_classifier.LSSVMClassifier" in trusted_types()
    True
    """
    found = _public(BaseEstimator, estimators, preprocessing)
    found += _public(Kernel, kernels)
    names = {f"{c.__module__}.{c.__qualname__}" for c in found}
    return sorted(names.union(_RECORDS, _OF_SKRUB))


def _public(kind: type, *modules) -> list[type]:
    """Return the classes of a kind that the modules offer."""
    values = [value for module in modules for value in vars(module).values()]
    return [v for v in values if inspect.isclass(v) and issubclass(v, kind)]
