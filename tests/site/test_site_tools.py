"""The small programs that build and publish the site."""

import importlib.util
import json
from pathlib import Path

import pytest

from kaucus import KMeansKernelClassifier
from kaucus._base import SITE
from kaucus.preprocessing import UnitNormalizer

DOCS = Path(__file__).parents[2] / "docs"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(folder):
    folder.mkdir()
    (folder / "index.html").write_text("built")
    return folder


def test_every_version_has_a_folder_and_the_top_leads_to_the_newest(tmp_path):
    publish = load(DOCS / "publish.py").publish
    site, pages = built(tmp_path / "html"), tmp_path / "pages"
    for version in ("dev", "0.9", "0.10"):
        publish(site, pages, version)
        assert (pages / version / "index.html").read_text() == "built"
    entries = json.loads((pages / "versions.json").read_text())
    assert [entry["version"] for entry in entries] == ["dev", "0.10", "0.9"]
    assert [entry["preferred"] for entry in entries] == [False, True, False]
    assert "url=0.10/index.html" in (pages / "index.html").read_text()


def test_before_a_release_the_top_leads_to_dev_and_old_files_go(tmp_path):
    publish = load(DOCS / "publish.py").publish
    site, pages = built(tmp_path / "html"), tmp_path / "pages"
    (pages / "dev").mkdir(parents=True)
    (pages / "dev" / "old.html").touch()
    publish(site, pages, "dev")
    assert not (pages / "dev" / "old.html").exists()
    assert "url=dev/index.html" in (pages / "index.html").read_text()


def test_the_publisher_knows_the_address_of_the_site():
    assert load(DOCS / "publish.py").SITE == SITE


@pytest.mark.parametrize("model", [KMeansKernelClassifier(), UnitNormalizer()])
def test_pictures_of_estimators_link_to_a_page_of_the_reference(model):
    site, page = model._get_doc_link().rsplit("/reference/", 1)
    assert site == f"{SITE}/0.1"
    module, name = page.removesuffix(".html").rsplit(".", 1)
    listed = [path.read_text("utf-8") for path in DOCS.glob("reference/[a-z]*.rst")]
    assert any(
        f".. module:: {module}\n" in text and f"   {name}\n" in text for text in listed
    )


def test_formulas_of_docstrings_are_shown_as_typed():
    mark = load(DOCS / "_ext" / "formulas.py").mark_formulas
    text = ["With", "", "    f = a b", "", "    g = c", "", "Parameters", "-" * 10]
    text += ["x : int", "    A number.", "", "    More of it."]
    marked = mark(text)
    assert marked[:5] == ["With", "", ".. code-block:: text", "", "    f = a b"]
    assert marked.count(".. code-block:: text") == 1


def test_formulas_of_pages_become_mathml():
    pytest.importorskip("sphinx")
    nodes = pytest.importorskip("docutils.nodes")
    mathml = load(DOCS / "_ext" / "mathml.py")
    made = mathml.to_mathml(nodes.math("", r"\sum_i a_i"), as_block=True)
    assert made.startswith("<math")
    assert "∑" in made


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("KernelKMeans", "KernelKMeans"),
        ('KMeansKernelClassifier(fit_on="all")', "KMeansKernelClassifier"),
        ("kernels.ClusterRBF(partition, covariances, gamma)", "ClusterRBF"),
        ("kaucus.report", "report"),
        ("compare_kernels", "compare_kernels"),
        ("report", None),  # a word, or a command
        ("a + b", None),
    ],
)
def test_code_in_a_text_is_known_as_a_public_name(text, name):
    pytest.importorskip("docutils")
    assert load(DOCS / "_ext" / "name_links.py").public_name(text) == name


def test_links_out_of_the_site_lead_to_the_repository():
    pytest.importorskip("sphinx")
    target = load(DOCS / "_ext" / "repository_links.py").target
    page = DOCS / "guide" / "tables.md"
    github = "https://example.org/x"
    root = DOCS.parent
    assert target(root / "LICENSE", page, DOCS, github) == f"{github}/blob/main/LICENSE"
    assert target(root / "tests", page, DOCS, github) == f"{github}/tree/main/tests"
    assert target(root / "CHANGELOG.md", page, DOCS, github) == "../project/changes.md"
    assert target(DOCS / "guide" / "gpu.md", page, DOCS, github) == "gpu.md"
