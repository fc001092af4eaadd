"""The built site in Chromium: front page, gallery, reference and search.

On a phone and on a desk, light and dark: no errors, nothing wider than the window,
every picture with a text, and no request that leaves the folder.
"""

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.browser import chromium, in_a_browser, page_width, save_screenshot, show
from tests.site.built import built_site, page_names

pytestmark = in_a_browser

WIDTHS = {"phone": 390, "desktop": 1280}
PAGES = {
    "front": "index.html",
    "gallery": "gallery/index.html",
    "example": "gallery/plot_two_moons.html",
    "reference": "reference/kaucus.KMeansKernelClassifier.html",
}
# Of the ground: darker than this is dark, brighter than 255 less this is light.
DARK = 60
# Scripts of an image: has it a text (a thumbnail of the gallery stands beside its
# title), and is it there?
TOLD = "return arguments[0].alt || arguments[0].closest('.sphx-glr-thumbcontainer')"
DRAWN = "return arguments[0].complete && arguments[0].naturalWidth > 0"
# Texts of the page that are cut off at the right, though the page does not scroll.
CUT = """
return [...document.querySelectorAll("main :is(h1, h2, h3, p, dt, li)")]
  .filter(one => one.checkVisibility())
  .filter(one => !one.closest("table, pre, math, nav, dialog, .bd-sidebar-secondary"))
  .filter(one => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return range.getBoundingClientRect().right > innerWidth + 1;
  })
  .map(one => one.textContent.slice(0, 60));
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serve files, and say nothing."""

    def log_message(self, *_):
        """Write no line for a request."""


@pytest.fixture(scope="module")
def address():
    """The site's address on this machine."""
    handler = partial(Quiet, directory=str(built_site()))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser():
    with chromium(javascript=True) as driver:
        yield driver


@pytest.fixture(params=WIDTHS.values(), ids=WIDTHS)
def width(request):
    return request.param


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


def requests_since_last(browser):
    """Return the addresses that the browser has asked for since the last call."""
    messages = [
        json.loads(entry["message"])["message"]
        for entry in browser.get_log("performance")
    ]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def elsewhere(asked, address):
    """Return the addresses that are not in the folder that is served."""
    return [one for one in asked if not one.startswith((address, "data:"))]


def is_bad(entry):
    """Tell whether an entry of the console's log is a warning or an error."""
    return entry["level"] in ("WARNING", "SEVERE")


def check_page(browser, address, width):
    """Check what holds for every page of the site."""
    assert [one for one in browser.get_log("browser") if is_bad(one)] == []
    asked = requests_since_last(browser)
    assert asked
    assert elsewhere(asked, address) == []
    assert page_width(browser) <= width
    assert browser.execute_script(CUT) == []
    heading = browser.find_element("css selector", "main h1")
    assert heading.is_displayed()
    assert heading.text
    for image in browser.find_elements("css selector", "img"):
        assert browser.execute_script(TOLD, image), image.get_attribute("src")
        # Pictures below the window's edge are loaded when they are scrolled to.
        lazy = image.get_attribute("loading") == "lazy"
        assert lazy or browser.execute_script(DRAWN, image), image.get_attribute("src")


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_is_whole(browser, address, page, width, scheme, tmp_path):
    requests_since_last(browser)
    show(browser, address + page, width, scheme)
    save_screenshot(browser, tmp_path / "page.png")  # for those who want to look
    check_page(browser, address, width)
    colour = browser.execute_script(
        "return getComputedStyle(document.body).backgroundColor"
    )
    channels = [int(part) for part in colour.strip("rgba()").split(",")[:3]]
    if scheme == "dark":
        assert max(channels) < DARK
    else:
        assert min(channels) > 255 - DARK


def test_every_page_keeps_to_the_folder_and_to_a_phones_screen(browser, address):
    requests_since_last(browser)
    browser.get_log("browser")
    wrong = []
    for page in page_names():
        show(browser, address + page, WIDTHS["phone"], "light")
        said = [one["message"] for one in browser.get_log("browser") if is_bad(one)]
        away = elsewhere(requests_since_last(browser), address)
        cut = browser.execute_script(CUT)
        if said or away or cut or page_width(browser) > WIDTHS["phone"]:
            wrong.append((page, page_width(browser), said, away, cut))
    assert wrong == []


def first_shown(browser, selector):
    """Return the first element that is displayed, of those that a selector finds."""
    found = browser.find_elements("css selector", selector)
    return next(element for element in found if element.is_displayed())


def test_a_word_is_found_by_search(browser, address, width, scheme, tmp_path):
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
    requests_since_last(browser)
    show(browser, address, width, scheme)
    first_shown(browser, "button.search-button__button").click()
    field = wait(browser, 10).until(
        lambda _: first_shown(browser, "dialog input[type=search]")
    )
    field.send_keys("representatives\n")
    wait(browser, 30).until(
        lambda _: len(browser.find_elements("css selector", "#search-results li")) > 5
    )
    save_screenshot(browser, tmp_path / "search.png")
    links = browser.find_elements("css selector", "#search-results li a")
    assert any("kmeans-kernel" in link.get_attribute("href") for link in links)
    check_page(browser, address, width)
