"""The command line: arguments to calls of the library, and no logic."""

from kaucus.cli._main import main

__all__ = ["main"]
