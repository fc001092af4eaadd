"""A linear system, or its action, in; coefficients out.

Knows matrices and right-hand sides, neither data nor models.
"""
