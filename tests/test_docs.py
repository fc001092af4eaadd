"""Every Python block of every Markdown file runs as it is printed.

The blocks of a file run in order, in one namespace and in a folder of their own. A
block after ``<!-- needs a GPU -->`` runs on the host where there is no GPU, if torch is
there, and not at all if it is not; one after ``<!-- needs zarr -->`` runs where zarr is
installed.
"""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

import kaucus
from tests.discovery import PUBLIC_MODULES

ROOT = Path(kaucus.__file__).parents[2]
FOLDERS = ["start", "guide", "theory", "results", "project"]
FILES = [
    *ROOT.glob("[A-Z]*.md"),
    *ROOT.glob("docs/*.md"),
    *(page for name in FOLDERS for page in sorted(ROOT.glob(f"docs/{name}/**/*.md"))),
]
PAGES = [page for page in FILES if "```py" in page.read_text("utf-8")]
REFERENCE = sorted(
    set(ROOT.glob("docs/reference/[a-z]*.rst"))
    - {ROOT / "docs/reference/index.rst"}
    - set(ROOT.glob("docs/reference/kaucus*"))
)
GPU_MARK = "<!-- needs a GPU -->\n"

pytestmark = pytest.mark.skipif(not PAGES, reason="installed without its documents")


def has_torch():
    return importlib.util.find_spec("torch") is not None


def has_gpu():
    import torch

    return torch.cuda.is_available()


def without_missing_libraries(text):
    """Return the text with blocks that need a library only where it is installed."""
    parts = re.split(r"<!-- needs (\w+) -->\n", text)
    for i, library in enumerate(parts[1::2]):
        if importlib.util.find_spec(library) is None:
            block = parts[2 * i + 2]
            parts[2 * i + 2] = block.replace("```python", "```text", 1)
        parts[2 * i + 1] = "\n"  # the mark was a line
    return "".join(parts)


def for_this_machine(text):
    """Return the text of a page in which marked blocks can run here."""
    text = without_missing_libraries(text)
    parts = text.split(GPU_MARK)
    for i, part in enumerate(parts[1:], 1):
        block, _, rest = part.partition("\n```\n")
        if not has_torch():
            block = block.replace("```python", "```text")
        elif not has_gpu():
            block = block.replace('"cuda"', '"cpu"')
        parts[i] = f"{block}\n```\n{rest}"
    return "\n".join(parts)  # the mark was a line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = for_this_machine(page.read_text("utf-8"))
    copy = tmp_path / page.name
    copy.write_text(text, "utf-8")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    blocks = list(Sybil(parsers=[PythonCodeBlockParser()]).parse(copy).examples())
    assert len(blocks) == text.count("```py")
    for block in blocks:
        block.evaluate()


def test_no_page_is_in_a_folder_that_is_not_looked_at():
    found = {path.parts[0] for path in map(below_docs, ROOT.glob("docs/*/**/*.md"))}
    assert found - {"_build", "gallery"} <= set(FOLDERS)


def below_docs(path):
    return path.relative_to(ROOT / "docs")


def test_the_reference_lists_every_public_name():
    pages = {page.name: page.read_text("utf-8") for page in REFERENCE}
    found = [
        f"{module}.{name}"
        for text in pages.values()
        for module in re.findall(r"^\.\. module:: (\S+)", text, re.MULTILINE)
        for name in re.findall(r"^(?:   |\.\. data:: )(\w+)$", text, re.MULTILINE)
    ]
    public = [
        f"{module}.{name}"
        for module in PUBLIC_MODULES
        if module != "kaucus.cli"  # a command, with a page of its own
        for name in importlib.import_module(module).__all__
    ]
    assert sorted(found) == sorted(public)


def test_the_page_on_stability_names_the_public_modules():
    text = (ROOT / "docs/project/stability.md").read_text("utf-8")
    public = text.partition("**Public**")[2].partition("**Not public**")[0]
    found = set(re.findall(r"`(kaucus(?:\.\w+)?)`", public))
    assert found == set(PUBLIC_MODULES) - {"kaucus.cli"}


LINK = re.compile(r"\]\((?!\w+:|<)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page):
    """Return the anchors that GitHub and the site give to the headings of a page."""
    headings = HEADING.findall(page.read_text("utf-8"))
    words = [re.sub(r"[^\w\s-]", "", heading).lower() for heading in headings]
    return {text.strip().replace(" ", "-") for text in words}


@pytest.mark.skipif(
    not (ROOT / "benchmarks/README.md").is_file(), reason="not a whole checkout"
)
def test_relative_links_lead_to_files_and_headings():
    dead = []
    for page in [*FILES, *ROOT.glob("benchmarks/**/*.md")]:
        for path, anchor in LINK.findall(page.read_text("utf-8")):
            file = page.parent / path if path else page
            exists = file.exists() and (not anchor or anchor in anchors(file))
            dead += [] if exists else [f"{page.name}: {path}#{anchor}"]
    assert dead == []
