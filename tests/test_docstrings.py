"""What the documentation says is what the code does."""

import dataclasses
import inspect
import re
import textwrap

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.datasets import load_iris

from kaucus._base import FollowsX
from tests.discovery import PUBLIC_MODULES, estimators, name_of, public_objects

OBJECTS = public_objects()
each_object = pytest.mark.parametrize(
    "value", [value for *_, value in OBJECTS], ids=[f"{m}.{n}" for m, n, _ in OBJECTS]
)
SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
ENTRY = re.compile(r"^(?P<names>\*{0,2}\w+(?:, \w+)*)(?: : (?P<type>.+))?$")


def sections(value):
    """Return {title: text} of a numpydoc docstring."""
    text = inspect.getdoc(value) or ""
    found = list(SECTION.finditer(text))
    ends = [*(match.start() for match in found), len(text)][1:]
    return {
        match["title"]: text[match.end() : end].strip("\n")
        for match, end in zip(found, ends, strict=bool(found))
    }


def entries(section):
    """Return [(name, type)] of a section of parameters or attributes."""
    found = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            match = ENTRY.match(line)
            assert match, f"not a numpydoc entry: {line!r}"
            names = match["names"].split(", ")
            found += [(name.lstrip("*"), match["type"] or "") for name in names]
    return found


def signature_of(value):
    """Return {name: Parameter}, without self."""
    parameters = inspect.signature(value).parameters.values()
    return {p.name: p for p in parameters if p.name not in ("self", "cls")}


def documented_default(kind):
    match = re.search(r"default=(.+)$", kind)
    return None if match is None else match[1].strip().strip("`")


def same_default(documented, true):
    if true is None:
        return documented == "None"
    try:
        value = eval(documented, {"__builtins__": {}})
    except (NameError, SyntaxError):
        return False
    return type(value) is type(true) and value == true


def described_by_fields(value):
    """Tell whether a class is a record, whose fields carry their own docstrings."""
    return inspect.isclass(value) and (
        hasattr(value, "_fields") or issubclass(value, BaseException)
    )


@each_object
def test_every_public_name_is_described(value):
    assert inspect.getdoc(value)
    summary = inspect.getdoc(value).splitlines()[0]
    assert summary.endswith((".", ":")), f"one sentence, please: {summary!r}"


@each_object
def test_documented_parameters_are_those_of_the_signature(value):
    if described_by_fields(value) or inspect.isabstract(value):
        return
    expected = list(signature_of(value))
    documented = [name for name, _ in entries(sections(value).get("Parameters", ""))]
    if not documented and dataclasses.is_dataclass(value):  # a result
        documented = [
            name for name, _ in entries(sections(value).get("Attributes", ""))
        ]
    if not documented and not inspect.isclass(value) and len(expected) <= 1:
        return  # a function of one argument may be described in its sentence
    assert documented == expected


@each_object
def test_documented_defaults_are_the_true_ones(value):
    if described_by_fields(value):
        return
    parameters = signature_of(value)
    for name, kind in entries(sections(value).get("Parameters", "")):
        if name not in parameters:
            continue  # the test above tells
        true = parameters[name].default
        documented = documented_default(kind)
        if true is inspect.Parameter.empty:
            assert documented is None, f"{name} has no default"
        elif dataclasses.is_dataclass(value) or documented or inspect.isclass(value):
            assert documented, f"the default of {name}, {true!r}, is not documented"
            assert same_default(documented, true), f"{name}: {documented} is {true!r}"


def public_methods(cls):
    for name in dir(cls):
        if name.startswith("_"):
            continue
        method = inspect.getattr_static(cls, name)
        method = getattr(method, "fn", method)  # behind available_if
        if inspect.isfunction(method) and method.__module__.startswith("kaucus"):
            yield name, method


METHODS = [
    (f"{cls.__name__}.{name}", method)
    for _, _, cls in OBJECTS
    if inspect.isclass(cls) and issubclass(cls, BaseEstimator)
    for name, method in public_methods(cls)
]


@pytest.mark.parametrize("method", [m for _, m in METHODS], ids=[n for n, _ in METHODS])
def test_methods_document_parameters_and_result(method):
    found = sections(method)
    documented = [name for name, _ in entries(found.get("Parameters", ""))]
    assert documented == list(signature_of(method))
    assert "Returns" in found
    for name, kind in entries(found.get("Parameters", "")):
        true = signature_of(method)[name].default
        documented = documented_default(kind)
        if documented is not None:
            assert same_default(documented, true), f"{name}: {documented} is {true!r}"


@pytest.mark.parametrize(
    "value",
    [value for *_, value in OBJECTS] + [method for _, method in METHODS],
    ids=[f"{m}.{n}" for m, n, _ in OBJECTS] + [name for name, _ in METHODS],
)
def test_a_parameter_begins_with_one_line(value):
    """Who looks a parameter up reads one line; all else comes after its end."""
    body = textwrap.dedent(sections(value).get("Parameters", ""))
    text = re.compile(r"^\w[^\n]*\n((?:[ \t]+[^\n]*\n?)+)", re.MULTILINE)
    heads = re.compile(r"^(.*\\\n)+", re.MULTILINE)  # types over two lines
    for found in text.finditer(heads.sub("", body)):
        first = found[1].strip().splitlines()[0].strip()
        if first.startswith("default="):
            first = found[1].strip().splitlines()[1].strip()
        assert re.search(r"[.:;](\s|$)", first), first


# What numpydoc asks for beyond our rules.
NUMPYDOC_EXCUSED = {
    "ES01": "a summary may say all",
    "EX01": "methods are shown in the example of their class",
    "GL02": "docstrings are completed by those of the bases",
    "PR01": "fields of records are attributes",
    "PR07": "X and y are described by their type",
    "RT02": "results have names, such as self",
    "RT03": "a type and its shape may say all",
    "SA01": "not every name has a like one",
    "SA02": "a question ends by its own sign",
    "SA03": "k-means",
    "SS02": "k-means and formulas begin with a small letter",
}


def test_numpydoc_finds_docstrings_whole():
    validate = pytest.importorskip("numpydoc.validate").validate
    names = [f"{module}.{name}" for module, name, _ in OBJECTS]
    names += [
        f"{module}.{name}.{method}"
        for module, name, value in OBJECTS
        if inspect.isclass(value) and issubclass(value, BaseEstimator)
        for method, _ in public_methods(value)
    ]
    found = [
        (name, code, message)
        for name in names
        for code, message in validate(name)["errors"]
        if code not in NUMPYDOC_EXCUSED
        and (name, code) != ("kaucus.preprocessing.iter_patches", "RT01")  # yields
    ]
    assert found == []


@pytest.mark.parametrize("probability", ["softmax", "sum_exp", False])
@pytest.mark.parametrize("estimator", estimators(), ids=name_of)
def test_fitted_attributes_are_those_documented(estimator, probability):
    X, y = load_iris(return_X_y=True, as_frame=True)
    fitted = clone(estimator)
    if is_classifier(fitted) and "probability" in fitted.get_params(deep=False):
        fitted.set_params(probability=probability)
    elif probability != "softmax":
        return
    fitted.fit(X, y)
    found = {name for name in vars(fitted) if name.endswith("_")}
    found -= {name for name in found if name.startswith("_")}
    documented = {name for name, _ in entries(sections(estimator)["Attributes"])}
    # Properties, such as importances in a learned metric, are computed when asked for.
    kind = type(fitted)
    documented -= {n for n in documented if isinstance(getattr(kind, n, 0), property)}
    if probability == "softmax":
        assert found == documented
    else:
        assert found <= documented


def test_every_public_name_has_an_example_that_runs():
    without = [
        f"{module}.{name}"
        for module, name, value in OBJECTS
        if ">>> " not in sections(value).get("Examples", "")
        or "+SKIP" in sections(value)["Examples"]
    ]
    assert without == []


@pytest.mark.parametrize("module_name", PUBLIC_MODULES)
def test_all_names_exist_and_are_listed_once(module_name):
    module = __import__(module_name, fromlist=["__all__"])
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)
    assert set(module.__all__) <= set(dir(module))


def test_a_docstring_is_completed_by_those_of_the_bases():
    """Own entries win, defaults are the signature's, unknown parameters stay out."""

    class Base(FollowsX):
        """Base.

        Parameters
        ----------
        a : int
            Of the base.
        b : str
            Of the base.
        c : float
            Not taken.
        """

    class Model(Base):
        """Model.

        Parameters
        ----------
        a : float, default=2.0
            Its own.

        Attributes
        ----------
        coef_ : float
            Its own.

        Notes
        -----
        These stay.
        """

        def __init__(self, b="x", *, a=2.0):
            self.a, self.b = a, b

    found = sections(Model)
    expected = [("b", 'str, default="x"'), ("a", "float, default=2.0")]
    assert entries(found["Parameters"]) == expected
    assert "Its own." in found["Parameters"]
    names = [name for name, _ in entries(found["Attributes"])]
    assert names == ["coef_", "n_features_in_", "feature_names_in_"]
    assert found["Notes"].strip() == "These stay."


def test_a_wrong_docstring_is_noticed():
    """The helpers above can fail."""

    def f(a, b=2):
        """Do.

        Parameters
        ----------
        a : int
        b : int, default=3
        """

    assert entries(sections(f)["Parameters"]) == [("a", "int"), ("b", "int, default=3")]
    assert not same_default(documented_default("int, default=3"), 2)
    assert not same_default("1", True)
    assert same_default('"rbf"', "rbf")
    assert not same_default("rbf", "rbf")
    assert same_default("1e-6", np.float64(1e-6).item())
