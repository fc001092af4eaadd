"""The built site as files: no link is dead, and nothing of the machine is in it."""

from functools import cache
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from tests.site.built import ROOT, built_site, page_names

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """Anchors of a page, and where its links, pictures and scripts lead."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self.links += [values[name] for name in ("href", "src") if values.get(name)]


@cache
def read(path):
    return Page(path.read_text(encoding="utf-8"))


def why_dead(page, link):
    """Return what a link of a page lacks, or None if it leads somewhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = page if not parts.path else page.parent / unquote(parts.path)
    target = target.resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and target.suffix == ".html" and anchor not in read(target).anchors:
        return "no such anchor"
    return None


def test_no_link_is_dead():
    site, names = built_site().resolve(), page_names()
    assert len(names) > 50
    dead = [
        f"{name}: {link}: {why}"
        for name in names
        for link in read(site / name).links
        if (why := why_dead(site / name, link))
    ]
    assert dead == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("index.html", None),
        ("no-such-page.html", "no such file"),
        ("index.html#no-such-anchor", "no such anchor"),
        ("https://example.org/elsewhere", None),
    ],
)
def test_a_dead_link_is_seen(link, why):
    assert why_dead((built_site() / "index.html").resolve(), link) == why


def test_nothing_of_the_machine_is_in_it():
    site = built_site()
    assert not (site / ".doctrees").exists()
    texts = [file for file in site.rglob("*") if file.suffix in (".html", ".js")]
    own = [file.name for file in texts if str(ROOT) in file.read_text(encoding="utf-8")]
    assert own == []
