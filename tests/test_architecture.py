"""The shape of the package, read from its source: layers, doors, sizes, habits.

import-linter checks the layers as well; this file needs nothing but pytest.
"""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import kaucus

PACKAGE = Path(kaucus.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Data flows down this list: a layer imports only from those above it.
LAYERS = [
    "_array",
    "kernels",
    "clustering",
    "solvers",
    "distributed",
    "_base",
    "preprocessing",
    "fitting",
    "estimators",
    "evaluation",
    "export",
    "_demo",
    "cli",
]
MAX_BODY_LINES = 60


def relative(path):
    return path.relative_to(PACKAGE).as_posix()


def each_module(rule):
    """Turn a rule about one module into one test of all; every breach is told."""

    def test():
        breaches = []
        for path in MODULES:
            try:
                rule(path)
            except AssertionError as breach:
                breaches.append(f"{relative(path)}: {breach}")
        assert not breaches, "\n".join(breaches)

    test.__name__, test.__doc__ = rule.__name__, rule.__doc__
    return test


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def layer_of(path):
    """Return the layer a module belongs to; None for other modules at the top."""
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return name if name in LAYERS else None


@functools.cache
def nodes_of(path):
    return list(ast.walk(tree_of(path)))


@functools.cache
def imports_in(path):
    """Return (line, full module name) of every import, wherever it stands."""
    return list(_imports(nodes_of(path)))


def _imports(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield node.lineno, node.module
            # `from kaucus import kernels` names a module after the import.
            yield from ((node.lineno, f"{node.module}.{a.name}") for a in node.names)


def importers_of(library, path):
    names = imports_in(path)
    return [line for line, name in names if name.split(".")[0] == library]


# ---- layers ----------------------------------------------------------------------


def test_every_folder_is_a_layer():
    folders = {
        path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()
    }
    assert folders <= set(LAYERS), "name the new layer in LAYERS and in pyproject.toml"


@each_module
def test_a_layer_imports_only_from_layers_above_it(path):
    layer = layer_of(path)
    if layer is None:
        return
    for line, name in imports_in(path):
        parts = name.split(".")
        if parts[0] == "kaucus" and len(parts) > 1 and parts[1] in LAYERS:
            assert LAYERS.index(parts[1]) <= LAYERS.index(layer), (
                f"line {line}: {layer} imports {name}, which comes after it"
            )


@each_module
def test_torch_stays_behind_its_door(path):
    if layer_of(path) != "_array":
        assert not importers_of("torch", path)


@each_module
def test_dask_stays_behind_its_door(path):
    if layer_of(path) != "distributed":
        assert not importers_of("dask", path)
        assert not importers_of("distributed", path)


@each_module
def test_the_core_knows_no_scikit_learn(path):
    if layer_of(path) in ("_array", "kernels", "clustering", "solvers", "fitting"):
        assert not importers_of("sklearn", path)


@each_module
def test_no_private_scikit_learn_module_is_imported(path):
    for line, name in imports_in(path):
        parts = name.split(".")
        private = parts[0] == "sklearn" and any(p.startswith("_") for p in parts[1:])
        assert not private, f"line {line}: {name}"


# ---- sizes and habits ------------------------------------------------------------


def body_lines(function):
    """Return the number of lines of a body, without its docstring."""
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


@each_module
def test_functions_are_short(path):
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in nodes_of(path):
        if isinstance(node, functions):
            length = body_lines(node)
            assert length <= MAX_BODY_LINES, f"{node.name} has {length} lines"


@each_module
def test_every_folder_and_module_says_what_it_does(path):
    assert ast.get_docstring(tree_of(path))


@each_module
def test_no_bare_todo(path):
    words = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"])
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        bare = re.search(rf"\b({words})\b(?!.*#\d+)", line)
        assert not bare, f"line {number}: give the number of an issue"


@each_module
def test_no_global_generator_is_seeded_or_drawn_from(path):
    """`np.random.default_rng` and the classes of `np.random` are all that is used."""
    allowed = {"default_rng", "Generator", "RandomState", "SeedSequence"}
    for node in nodes_of(path):
        if not isinstance(node, ast.Attribute):
            continue
        text = ast.unparse(node)
        if re.match(r"(np|numpy)\.random\.\w+", text):
            assert text.split(".")[2] in allowed, f"line {node.lineno}: {text}"
        assert not text.endswith(("manual_seed", "manual_seed_all", "random.seed")), (
            f"line {node.lineno}: {text}"
        )


@each_module
def test_no_environment_variable_steers_the_numbers(path):
    assert "os.environ" not in ast.unparse(tree_of(path))


# ---- what an import costs --------------------------------------------------------

PUBLIC = ["preprocessing", "persistence", "onnx", "model", "cli"]
OPTIONAL = ["torch", "matplotlib", "rich", "pooch", "dask", "skops", "onnx"]
IMPORT = """
import importlib, sys
import sklearn.impute, sklearn.metrics  # which import rich by themselves
theirs = {{name.partition(".")[0] for name in sys.modules}}
for name in {modules}:
    module = importlib.import_module(name)
    for public in module.__all__:
        getattr(module, public)
    ours = {{name.partition(".")[0] for name in sys.modules}} - theirs
    heavy = sorted({heavy} & ours)
    assert not heavy, (name, heavy)
"""


def test_import_brings_no_optional_library():
    modules = ["kaucus", *(f"kaucus.{name}" for name in PUBLIC)]
    run_python(IMPORT.format(modules=modules, heavy=set(OPTIONAL)))


def test_a_bare_import_is_cheap():
    """Only what is used is paid for: not even scikit-learn is imported."""
    run_python("import kaucus, sys; assert 'sklearn' not in sys.modules")


def run_python(code):
    # The same package as this process has, installed or not.
    path = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", path + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
