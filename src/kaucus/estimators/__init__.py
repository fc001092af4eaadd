"""The scikit-learn classes: validate, call the core, store."""

from kaucus.estimators._ls_svm import LSSVMClassifier, LSSVMRegressor

__all__ = ["LSSVMClassifier", "LSSVMRegressor"]
