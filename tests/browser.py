"""A real Chromium for the tests of pages, where it is installed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
# Marks of a module whose tests need a browser.
in_a_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None, reason="Chromium and its driver are not here"
    ),
]


@contextmanager
def chromium(*, javascript: bool) -> Iterator:
    """Start Chromium without a window; it logs its console and its requests."""
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(word)
    if not javascript:
        options.add_experimental_option(
            "prefs", {"profile.managed_default_content_settings.javascript": 2}
        )
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def show(browser, address: str, width: int, scheme: str) -> None:
    """Open a page in a window of a width, in a light or a dark scheme."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1}
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", size | {"mobile": width < 600}
    )
    browser.get(address)


def save_screenshot(browser, file) -> None:
    """Write a picture of the page; again where Chromium's own navigation aborts it."""
    from selenium.common.exceptions import WebDriverException

    for left in (2, 1, 0):
        try:
            assert browser.save_screenshot(str(file))
            return
        except WebDriverException:
            if not left:
                raise


def page_width(browser) -> float:
    """Return the width of what the page holds, which may be more than the window's."""
    metrics = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})
    return metrics["cssContentSize"]["width"]
