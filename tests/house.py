"""The numbers of the house: the size of the package and the walk of a fit through it.

    python -m tests.house        prints the numbers beside their ceilings

``house.toml`` has the ceilings, each with its reason; ``test_house.py`` compares.
Documentation and tests are not counted: nobody should want to cut those.
"""

import ast
import inspect
import io
import json
import os
import subprocess
import sys
import threading
import tokenize
import tomllib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import kaucus

PACKAGE = Path(kaucus.__file__).parent
CEILINGS = tomllib.loads((Path(__file__).parent / "house.toml").read_text("utf-8"))
KINDS_OF_ROWS = {"AnyRows", "BatchRows", "DaskRows", "HostRows", "RowSource", "Rows"}

DIGITS = "import sklearn.datasets as sets; X, y = sets.load_digits(return_X_y=True); "
WALKS = {
    "default fit": (
        DIGITS + "from kaucus import KMeansKernelClassifier as Model",
        "Model(random_state=0).fit(X, y)",
    ),
    "LSSVM fit": (
        DIGITS + "from kaucus import LSSVMClassifier as Model",
        "Model(random_state=0).fit(X, y)",
    ),
    "Dask fit": (
        DIGITS + "import dask, dask.array as da; dask.config.set(scheduler='sync'); "
        "X = da.from_array(X, chunks=(900, 64)); y = da.from_array(y, chunks=900); "
        "from kaucus import KMeansKernelClassifier as Model",
        "Model(random_state=0).fit(X, y)",
    ),
}


def code_lines(source):
    """Return the number of lines that hold code: no blanks, comments or docstrings."""
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT)
    layout += (tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER)
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in layout:
            lines.update(range(token.start[0], token.end[0] + 1))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            text = node.body[0]
            lines.difference_update(range(text.lineno, text.end_lineno + 1))
    return len(lines)


def sources():
    """Return the text of every module of the package."""
    return [path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))]


def import_lines(nodes):
    """Return the number of lines of import statements."""
    return sum(
        node.end_lineno - node.lineno + 1
        for node in nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
    )


def named_tuples(nodes):
    """Return the number of fields of each named tuple."""
    return [
        sum(isinstance(line, ast.AnnAssign) for line in node.body)
        for node in nodes
        if isinstance(node, ast.ClassDef)
        and any("NamedTuple" in ast.unparse(base) for base in node.bases)
    ]


def asks_for_kinds_of_rows(nodes):
    """Return the number of calls that ask for a kind of rows, `isinstance` or not."""
    asked = sum(
        isinstance(node, ast.Call) and getattr(node.func, "id", "") == "are_rows"
        for node in nodes
    )
    calls = (
        {word.id for word in ast.walk(node.args[1]) if isinstance(word, ast.Name)}
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
    )
    return asked + sum(bool(names & KINDS_OF_ROWS) for names in calls)


def longest_mro():
    """Return the largest number of classes of the package in an estimator's MRO."""
    classes = [getattr(kaucus, name) for name in kaucus.__all__]
    return max(
        sum(base.__module__.startswith("kaucus") for base in cls.__mro__)
        for cls in classes
        if inspect.isclass(cls)
    )


def walk(prepare, run):
    """Return the modules, frames and calls of the package in a run, in all threads."""
    scope = {}
    exec(prepare, scope)
    modules, depths, calls, deepest = set(), Counter(), 0, 0

    def trace(frame, event, _):
        nonlocal calls, deepest
        if event not in ("call", "return"):
            return
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("kaucus"):
            return
        thread = threading.get_ident()
        depths[thread] += 1 if event == "call" else -1
        if event == "call":
            modules.add(name)
            calls += 1
            deepest = max(deepest, depths[thread])

    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        exec(compile(run, "walk", "exec"), scope)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len(modules), deepest, calls


def walks():
    """Return {walk: (modules, frames, calls)}, from a process with one thread."""
    names = [name for name in WALKS if name != "Dask fit" or find_spec("dask")]
    code = (
        "import json; from tests.house import WALKS, walk; "
        f"print(json.dumps({{name: walk(*WALKS[name]) for name in {names}}}))"
    )
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, **threads, "PYTHONPATH": str(PACKAGE.parent)},
    )
    return json.loads(done.stdout)


def sizes():
    """Return the numbers that are read from the source."""
    texts = sources()
    modules = [list(ast.walk(ast.parse(text))) for text in texts]
    tuples = [fields for nodes in modules for fields in named_tuples(nodes)]
    return {
        "code lines": sum(map(code_lines, texts)),
        "modules": len(texts),
        "import lines": sum(map(import_lines, modules)),
        "named tuples": len(tuples),
        "fields of named tuples": sum(tuples),
        "isinstance on rows": sum(map(asks_for_kinds_of_rows, modules)),
        "own classes in an MRO": longest_mro(),
    }


def lengths():
    """Return the lengths of the walks, from a process of its own."""
    return {
        f"{name}: {what}": number
        for name, numbers in walks().items()
        for what, number in zip(("modules", "frames", "calls"), numbers, strict=True)
    }


if __name__ == "__main__":
    for name, number in (sizes() | lengths()).items():
        ceiling = CEILINGS[name]
        mark = "" if number <= ceiling["at_most"] else "   <- above its ceiling"
        print(f"{name:26}{number:8,}{ceiling['at_most']:8,}{mark}")
