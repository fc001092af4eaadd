"""The report in Chromium: no errors, every section to be seen, narrow and wide."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import kaucus
from kaucus import KMeansKernelClassifier
from tests.browser import chromium, in_a_browser, page_width, save_screenshot, show

pytest.importorskip("matplotlib")
pytestmark = in_a_browser
WIDTHS = {"phone": 390, "desktop": 1100}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    X, y = load_iris(return_X_y=True)
    options = {"kernel": "rbf", "C": 10.0, "learn_metric": True}  # a short search
    model = KMeansKernelClassifier(4, **options, random_state=0).fit(X[::2], y[::2])
    folder = tmp_path_factory.mktemp("page")
    return kaucus.report(model, X[1::2], y[1::2]).write_html(folder / "report.html")


@pytest.fixture(scope="module")
def browser():
    with chromium(javascript=False) as driver:
        yield driver


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_every_section_is_seen(browser, page, width, scheme):
    show(browser, page.as_uri(), width, scheme)
    assert browser.get_log("browser") == []
    sections = browser.find_elements("css selector", "main > section")
    assert len(sections) == 10
    for section in sections:
        assert section.is_displayed()
        assert section.find_element("css selector", "h2").text
        assert section.rect["height"] > 60
    figures = browser.find_elements("css selector", "figure svg")
    assert len(figures) >= 4
    for figure in figures:
        assert figure.rect["width"] > 200
        assert figure.rect["height"] > 80
        # Nothing sticks out at the right.
        assert figure.rect["x"] + figure.rect["width"] <= width + 1


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_the_page_is_not_wider_than_the_window(browser, page, width):
    show(browser, page.as_uri(), width, "light")
    assert page_width(browser) <= width


def brightness(browser, page, scheme):
    """Return the mean brightness of a picture of the page, 0 to 255."""
    image = pytest.importorskip("PIL.Image")
    show(browser, page.as_uri(), 1100, scheme)
    file = page.parent / f"{scheme}.png"
    save_screenshot(browser, file)
    return float(np.mean(np.asarray(image.open(file).convert("L"))))


def test_light_is_light_and_dark_is_dark(browser, page):
    assert brightness(browser, page, "light") > 200
    assert brightness(browser, page, "dark") < 80


def test_texts_of_figures_have_the_colour_of_the_page(browser, page):
    for scheme in ("light", "dark"):
        show(browser, page.as_uri(), 1100, scheme)
        text = browser.find_element("css selector", "figure svg text")
        heading = browser.find_element("css selector", "h2")
        drawn = text.value_of_css_property("fill")
        assert drawn == heading.value_of_css_property("color").replace(
            "rgba", "rgb"
        ).replace(", 1)", ")")


def test_it_prints(browser, page):
    show(browser, page.as_uri(), 1100, "light")
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert len(printed["data"]) > 20_000
