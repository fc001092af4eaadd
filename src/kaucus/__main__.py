"""``python -m kaucus``: the same as the command ``kaucus``."""

import sys

from kaucus.cli import main

if __name__ == "__main__":
    sys.exit(main())
