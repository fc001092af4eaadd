"""The gallery's examples: each has a text, and runs without a warning or a leftover."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
# Twenty seconds on two cores.
MOST_CPU_SECONDS = 40
# Distributions whose module has another name.
MODULES = {"scikit-learn": "sklearn"}


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.stem)
def example(request):
    return request.param


def test_there_are_twelve():
    assert len(EXAMPLES) >= 12


def test_it_begins_with_a_title_and_two_sentences(example):
    text = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))
    title, line, *rest = text.splitlines()
    assert set(line) == {"="}
    assert len(line) == len(title)
    sentences = re.split(r"\.\s", " ".join(rest).strip() + " ")
    assert len([one for one in sentences if one.strip()]) >= 2


def imported_modules(example):
    """Return the names of the packages that an example imports, without their parts."""
    names = set()
    for node in ast.walk(ast.parse(example.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    return names


def modules_of_extra(name):
    """Return the modules that ``pip install kaucus[name]`` brings by their name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found, waiting = {"kaucus"}, list(project["dependencies"])
    waiting += project["optional-dependencies"][name]
    while waiting:
        words = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", waiting.pop())
        if words[1] == "kaucus":
            for extra in words[2].split(","):
                waiting += project["optional-dependencies"][extra]
        found.add(MODULES.get(words[1], words[1].replace("-", "_")))
    return found


def test_it_imports_what_the_docs_extra_installs(example):
    known = modules_of_extra("docs") | set(sys.stdlib_module_names)
    assert imported_modules(example) <= known


def test_it_downloads_nothing(example):
    text = example.read_text(encoding="utf-8")
    assert "fetch_" not in text
    # Sets of this package that are loaded come from the network; made ones do not.
    assert not re.search(r"from kaucus\.datasets import .*\bload_", text)


@pytest.mark.slow
def test_it_runs_in_silence_and_leaves_nothing(example, tmp_path):
    for name in imported_modules(example) - set(sys.stdlib_module_names):
        pytest.importorskip(name)
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    # Where there is a screen, matplotlib says that Agg does not show figures on it.
    quiet = ["-W", "error", "-W", "ignore:FigureCanvasAgg is non-interactive"]
    before = os.times()
    ran = subprocess.run(
        [sys.executable, *quiet, example],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    after = os.times()
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert ran.stdout
    assert list(tmp_path.iterdir()) == []
    spent = (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )
    assert spent < MOST_CPU_SECONDS
