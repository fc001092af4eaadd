"""A linear system, or its action, in; coefficients out.

Knows matrices, kernels and right-hand sides; not data sets, classes or models.
"""
