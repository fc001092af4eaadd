"""Kernel machines as pure functions: a problem and a plan in, a model out.

Knows rows, classes and numbers; not estimators, their parameters or their warnings.
"""
