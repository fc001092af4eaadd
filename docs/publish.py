"""Put a built site into the folder of its version, beside those of other versions.

    python docs/publish.py docs/_build/html PAGES 0.1

PAGES is a checkout of the branch that GitHub Pages serves. Copies are PAGES/dev,
PAGES/0.1, PAGES/0.2, ...; the list of versions, which every copy shows, and the page
that leads from the top to the newest release are written anew.
"""

import json
import shutil
import sys
from pathlib import Path

SITE = "https://kaucus.github.io/kaucus"
REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>kaucus</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<link rel="canonical" href="{site}/{newest}/index.html">
<a href="{newest}/index.html">kaucus {newest}</a>
</html>
"""


def publish(built: Path, pages: Path, version: str) -> None:
    """Replace the copy of one version, and write what leads to the copies."""
    if not (built / "index.html").is_file():
        raise FileNotFoundError(f"{built} has no index.html; run `make docs` first.")
    shutil.rmtree(pages / version, ignore_errors=True)
    shutil.copytree(built, pages / version)
    versions = published_versions(pages)
    newest = next((v for v in versions if v != "dev"), "dev")
    (pages / "versions.json").write_text(json.dumps(listed(versions, newest), indent=2))
    (pages / "index.html").write_text(REDIRECT.format(newest=newest, site=SITE))
    (pages / ".nojekyll").touch()  # folders that begin with _ are part of the site


def published_versions(pages: Path) -> list[str]:
    """Return the versions that have a copy: dev, then the newest release first."""
    found = [page.parent.name for page in pages.glob("*/index.html")]
    releases = [version for version in found if version != "dev"]
    releases.sort(key=lambda v: [int(part) for part in v.split(".")], reverse=True)
    return [*(["dev"] if "dev" in found else []), *releases]


def listed(versions: list[str], newest: str) -> list[dict]:
    """Return the entries of the theme's list of versions."""
    return [
        {
            "version": version,
            "name": f"{version} (newest)" if version == newest else version,
            "url": f"{SITE}/{version}/",
            "preferred": version == newest,
        }
        for version in versions
    ]


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
