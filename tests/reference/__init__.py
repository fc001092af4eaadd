"""Slow, obvious NumPy versions, used as oracle by the tests."""
