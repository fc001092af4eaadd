"""The command line: parses arguments and calls the library."""

from kaucus.cli._main import main

__all__ = ["main"]
