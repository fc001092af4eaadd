"""``python -m kaucus.cli``."""

import sys

from kaucus.cli._main import main

if __name__ == "__main__":
    sys.exit(main())
