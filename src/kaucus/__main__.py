"""The command ``kaucus``, also as ``python -m kaucus``."""

import importlib.util
import sys


def main() -> int:
    """Run the command line, or name the package that it needs."""
    if importlib.util.find_spec("typer") is None:
        remedy = "typer is not installed; this needs it: pip install 'kaucus[cli]'"
        print(f"kaucus: {remedy}", file=sys.stderr)
        return 3
    from kaucus.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
