"""Arguments in, calls of experiments and estimators out; no logic."""

from kaucus.cli._main import main

__all__ = ["main"]
