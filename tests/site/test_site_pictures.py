"""The pictures of the site: small, readable alone, and what the script draws."""

import importlib.util
import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SVGS = ("overview", "overview-dark", "logo", "logo-dark", "favicon")
KIB = 1024
pytestmark = pytest.mark.skipif(
    not DOCS.is_dir(), reason="a source distribution has no pages"
)


@pytest.mark.parametrize("name", SVGS)
def test_an_svg_is_small_has_a_title_and_needs_nothing_else(name):
    file = DOCS / "_static" / f"{name}.svg"
    assert file.stat().st_size < 150 * KIB
    root = ElementTree.parse(file).getroot()
    assert root.find("{http://www.w3.org/2000/svg}title").text
    text = file.read_text(encoding="utf-8")
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"href|<image|<script|<metadata|20\d\d-", text)


@pytest.mark.parametrize("name", ["overview", "logo"])
def test_the_dark_picture_differs_in_colours_alone(name):
    colour = re.compile(r"#[0-9a-f]{6}")
    light, dark = (
        (DOCS / "_static" / f"{name}{ending}.svg").read_text(encoding="utf-8")
        for ending in ("", "-dark")
    )
    assert colour.sub("", light) == colour.sub("", dark)
    assert not set(colour.findall(light)) & set(colour.findall(dark))


def test_the_social_card_has_the_size_that_is_asked_for():
    card = (DOCS / "_static" / "social-card.png").read_bytes()
    assert len(card) < 200 * KIB
    assert struct.unpack(">II", card[16:24]) == (1200, 630)


def test_the_logo_is_what_the_script_draws(tmp_path):
    pytest.importorskip("matplotlib")
    path = DOCS / "draw_pictures.py"
    spec = importlib.util.spec_from_file_location("draw_pictures", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for colours, name in ((script.LIGHT, "logo"), (script.DARK, "logo-dark")):
        script.logo(colours).write_svg(tmp_path / f"{name}.svg")
        drawn = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        assert drawn == (DOCS / "_static" / f"{name}.svg").read_text(encoding="utf-8")
