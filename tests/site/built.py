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


def page_names() -> list[str]:
    """Return the pages of the site; the theme's template among its files is none."""
    site = built_site()
    pages = set(site.rglob("*.html")) - set(site.glob("_static/*.html"))
    return sorted(page.relative_to(site).as_posix() for page in pages)
