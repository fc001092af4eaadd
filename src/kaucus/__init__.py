"""Kernel machines in which a few representatives speak for all the data."""

__version__ = "0.1.0"
