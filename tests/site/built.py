"""The built site: a folder, or a visible skip."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def built_site() -> Path:
    """Return the folder that ``make docs`` wrote, or the one in ``KAUCUS_SITE``."""
    folder = Path(os.environ.get("KAUCUS_SITE") or ROOT / "docs/_build/html")
    if not (folder / "index.html").is_file():
        pytest.skip(f"no site in {folder}: make docs, or set KAUCUS_SITE")
    return folder
