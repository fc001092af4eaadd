"""The report: every section, nothing from elsewhere, nothing that could run."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

import kaucus
from kaucus import (
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LocalSVC,
    LSSVMRegressor,
    TableClassifier,
    TableRegressor,
)
from kaucus.export.report import model_card
from kaucus.preprocessing import UnitNormalizer

pytest.importorskip("matplotlib")

ALL = ["model", "error", "confusion", "reliability", "search", "importances"]
ALL += ["representatives", "hardest", "intervals", "fit"]


@pytest.fixture(scope="module")
def found():
    X, y = load_iris(return_X_y=True)
    options = {"kernel": "rbf", "C": 10.0, "learn_metric": True}  # a short search
    model = KMeansKernelClassifier(4, **options, random_state=0).fit(X[::2], y[::2])
    about = {"rows": 75, "target": "kind", "fit_seconds": 1.5, "memory": 2**20}
    return kaucus.report(model, X[1::2], y[1::2], about=about)


class Checker(HTMLParser):
    """Collects tags, links and texts; every tag must be closed."""

    VOID = ("meta", "link", "br", "img", "use", "path", "rect", "image", "circle")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        names = ("href", "src", "xlink:href")
        self.links += [value for name, value in attrs if name in names]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def checked(page):
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    return checker


def test_every_section_is_there(found):
    assert [section.name for section in found.sections] == ALL
    page = checked(found.to_html())
    text = " ".join(page.text)
    for title in ("KMeansKernelClassifier of kind", "75 rows", "1.50 s", "1.0 MiB"):
        assert title in text


def test_the_page_needs_nothing_from_elsewhere(found, tmp_path):
    path = found.write_html(tmp_path / "report.html")
    page = path.read_text("utf-8")
    assert path.stat().st_size < 2e6
    checker = checked(page)
    assert "script" not in checker.tags
    assert all(link.startswith(("#", "data:")) for link in checker.links)
    assert "url(http" not in page
    assert "@import" not in page
    # Names of the language, not addresses that are fetched.
    names = set(re.findall(r"https?://[\w./#-]+", page))
    assert all(name.startswith("http://www.w3.org/") for name in names)


def test_a_notebook_shows_the_page_in_a_frame_without_scripts(found):
    seen = []

    class Frame(HTMLParser):
        def handle_starttag(self, tag, attrs):
            seen.append((tag, dict(attrs)))

    Frame().feed(found._repr_html_())
    [(tag, attributes)] = seen
    assert tag == "iframe"
    assert attributes["sandbox"] is None
    assert attributes["srcdoc"][:1000] == found.to_html()[:1000]


def test_no_two_things_on_the_page_have_one_name(found):
    names = re.findall(r'\bid="([^"]+)"', found.to_html())
    assert len(names) == len(set(names)) > 20


def test_light_dark_and_print_are_in_the_style(found):
    page = found.to_html()
    assert "@media (prefers-color-scheme: dark)" in page
    assert "@media print" in page
    assert "currentColor" in page
    assert "#010203" not in page


def test_names_of_columns_and_classes_are_no_html():
    pandas = pytest.importorskip("pandas")
    evil = "<script>alert(1)</script>"
    X = pandas.DataFrame({evil: np.arange(30.0), "b": np.arange(30.0)[::-1]})
    y = np.where(np.arange(30) % 3 == 0, evil, "good & bad")
    model = KMeansKernelClassifier(3, kernel="rbf", gamma=1.0, C=1.0).fit(X, y)
    page = kaucus.report(model, X, y, title=evil).to_html()
    assert "<script" not in page
    assert "good &amp; bad" in page
    checked(page)


def test_pictures_are_pictures():
    X, y = load_digits(return_X_y=True)
    model = KMeansKernelClassifier(2, kernel="rbf", gamma=1e-3, C=1.0, random_state=0)
    model.fit(X[:200], y[:200])
    found = kaucus.report(model, X[200:400], y[200:400], image_shape=(8, 8))
    bodies = {section.name: section.body for section in found.sections}
    assert "<image" in bodies["representatives"]
    assert "<image" in bodies["hardest"]
    assert "importances" not in bodies


def test_a_regressor_has_its_own_sections():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=80)
    model = KMeansKernelRegressor(10, learn_metric=False, random_state=0)
    found = kaucus.report(model.fit(X[:60], y[:60]), X[60:], y[60:])
    names = [section.name for section in found.sections]
    assert "truth" in names
    assert "confusion" not in names
    assert found.score.low < found.score.value < found.score.high
    assert re.search(r"R²</td><td class=\"number\">0\.\d+", found.to_html())


def test_several_outputs_have_no_figure_of_the_truth():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = LSSVMRegressor(gamma=1.0).fit(X, np.sin(X))
    found = kaucus.report(model, X, np.sin(X))
    assert "truth" not in [section.name for section in found.sections]
    assert repr(found).startswith("Report('")
    assert "model, error" in repr(found)


def test_what_was_added_to_the_diagonal_is_told():
    X = np.arange(20.0)[:, None]
    model = LSSVMRegressor(gamma=1.0).fit(X, np.sin(X[:, 0]))
    label = "added to the diagonal"
    assert label not in kaucus.report(model, X, np.sin(X[:, 0])).to_html()
    model.solve_info_ = model.solve_info_._replace(jitter=2.5e-9)
    found = kaucus.report(model, X, np.sin(X[:, 0])).to_html()
    assert f"{label}</td><td>2.5e-09" in found


def test_intervals_of_a_regressor():
    X, y = np.arange(80.0)[:, None] / 10, np.sin(np.arange(80.0) / 10)
    model = LSSVMRegressor(gamma=1.0).fit(X[:40], y[:40])
    found = kaucus.report(model, X, y)
    [body] = [s.body for s in found.sections if s.name == "intervals"]
    assert re.search(r"90 %, holds \d+\.\d %", body)
    assert model._calibration is None


def test_sizes_of_the_sets_of_a_classifier(found):
    [section] = [s for s in found.sections if s.name == "intervals"]
    assert section.title == "Sizes of prediction sets"


@pytest.mark.parametrize(
    "model", [LocalSVC(random_state=0), LSSVMRegressor()], ids=["cells", "two outputs"]
)
def test_other_models_have_what_they_can(model):
    X, y = load_iris(return_X_y=True)
    y = y if isinstance(model, LocalSVC) else X[:, :2]
    found = kaucus.report(model.fit(X, y), X, y)
    assert {"model", "error", "hardest", "fit"} <= {s.name for s in found.sections}
    checked(found.to_html())


@pytest.mark.parametrize("kind", [TableClassifier, TableRegressor])
def test_a_committee_of_tables_tells_who_votes(kind):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"a": rng.normal(size=120), "b": rng.choice(["u", "v"], 120)})
    y = X["a"] + (X["b"] == "u")
    y = np.where(y > 0.5, "up", "down") if kind is TableClassifier else y.to_numpy()
    model = kind(effort="fast", random_state=0).fit(X[:80], y[:80])
    found = kaucus.report(model, X[80:], y[80:])
    bodies = {section.name: section.body for section in found.sections}
    assert {"model", "error", "committee", "importances", "intervals"} <= bodies.keys()
    for name in ("kernel", "trees"):
        assert (
            f"<td>{name}</td><td>{100 * model.weights_[name]:.0f} %"
            in (bodies["committee"])
        )
    checked(found.to_html())


def test_an_unknown_class_in_the_truth_is_an_error_not_a_crash(found):
    X, y = load_iris(return_X_y=True)
    model = KMeansKernelClassifier(2, kernel="rbf", gamma=1.0, C=1.0, random_state=0)
    model.fit(X[:100], y[:100])
    found = kaucus.report(model, X, y)
    assert found.score.value > 30


def test_what_does_not_predict_is_refused():
    X, _ = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="does not predict"):
        kaucus.report(UnitNormalizer().fit(X), X, X[:, 0])


def test_a_model_card(found):
    pytest.importorskip("skops")
    X, y = load_iris(return_X_y=True)
    model = KMeansKernelClassifier(2, kernel="rbf", gamma=1.0, C=1.0).fit(X, y)
    card = model_card(model, found)
    assert "# Model description" in card
    assert f"error {found.score}, on 75 rows" in card
    assert "n_representatives" in card


def test_far_rows_are_counted_in_the_report_and_in_one_warning(rng):
    X = rng.normal(size=(120, 3))
    model = KMeansKernelClassifier(random_state=0).fit(X[:80], X[:80, 0] > 0)
    new = X[80:].copy()
    new[:2, 1] = 1e3, -1e3
    with pytest.warns(UserWarning, match="2 of 40 rows") as told:
        page = kaucus.report(model, new, X[80:, 0] > 0).to_html()
    assert len([one for one in told if "of 40 rows" in str(one.message)]) == 1
    assert "2 of 40 rows have a value beyond every training row" in page
    assert "beyond every" not in kaucus.report(model, X[80:], X[80:, 0] > 0).to_html()
