"""Links of the pages to files of the repository that are no pages of the site.

The pages are read on GitHub too, where ``[table](../../benchmarks/results/lssvm.md)``
works. On the site such a link leads to GitHub, or to the page that shows the file. A
link to a file that does not exist is a warning, which ends the build.
"""

import os
import re
from pathlib import Path

from sphinx.util import logging

logger = logging.getLogger(__name__)

LINK = re.compile(r"\]\((?!\w+:|#|<)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
# Files at the top of the repository that a page of the site includes.
SHOWN_BY = {
    "CHANGELOG.md": "project/changes.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "README.md": "index.md",
}


def target(file: Path, page: Path, docs: Path, github: str) -> str:
    """Return the link on a page of the site to a file of the repository."""
    name = file.relative_to(docs.parent).as_posix()
    if name in SHOWN_BY:
        file = docs / SHOWN_BY[name]
    elif file.is_dir():
        return f"{github}/tree/main/{name}"
    elif not file.is_relative_to(docs):
        return f"{github}/blob/main/{name}"
    return Path(os.path.relpath(file, page.parent)).as_posix()


def rewrite(app, text: str, *, written_in: Path, page: Path) -> str:
    """Return Markdown with relative links that work on a page of the site."""
    docs = Path(app.srcdir)

    def replace(match: re.Match) -> str:
        file = Path(os.path.normpath(written_in.parent / match["path"]))
        if not file.exists():
            place = str(written_in)
            logger.warning("%s does not exist", match["path"], location=place)
            return match[0]
        link = target(file, page, docs, app.config.github_url)
        return f"]({link}{match['anchor'] or ''})"

    return LINK.sub(replace, text)


def on_source(app, docname: str, content: list[str]) -> None:
    """Rewrite the links of a Markdown page before it is parsed."""
    page = Path(app.env.doc2path(docname))
    if page.suffix == ".md":
        content[0] = rewrite(app, content[0], written_in=page, page=page)


def on_include(app, path: Path, _parent: str, content: list[str]) -> None:
    """Rewrite the links of a file that a page includes."""
    file = Path(os.path.normpath(Path(app.srcdir) / path))
    page = Path(app.env.doc2path(app.env.docname))
    content[0] = rewrite(app, content[0], written_in=file, page=page)


def setup(app):
    """Register the rewriting and the address of the repository."""
    app.add_config_value("github_url", "", "env")
    app.connect("source-read", on_source)
    app.connect("include-read", on_include)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
