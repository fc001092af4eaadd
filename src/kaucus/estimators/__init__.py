"""The scikit-learn classes: validate, call the core, store."""
