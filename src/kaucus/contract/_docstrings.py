"""Docstrings of estimators, each part written once, and links to their reference.

Who checks a parameter, or stores an attribute, describes it: a base class or a mixin.
An estimator's own docstring has what is its own, and is completed when the class is
made, with the defaults of its signature. So ``help`` and the reference show all of it.
"""

import inspect
import re
import sys

# A title with a line of dashes below it, and all that follows up to the next one.
_SECTION = r"(?P<head>^{title}\n-+\n)(?P<body>.*?)(?=^[A-Z][^\n]*\n-+\n|\Z)"
# A name, and perhaps its type, at the margin, and the lines set in below it.
_ENTRY = re.compile(r"^(?P<name>\w+)\b[^\n]*(?:\n[ \t]+\S[^\n]*)*", re.MULTILINE)


def complete_docstring(cls: type) -> None:
    """Add what the bases of a class say of its parameters and attributes."""
    if "__init__" not in vars(cls) or not cls.__doc__:
        return
    docs = [inspect.cleandoc(vars(base).get("__doc__") or "") for base in cls.__mro__]
    parameters = dict(inspect.signature(cls.__init__).parameters)
    del parameters["self"]
    known = _described(docs, "Parameters")
    doc = _replaced(
        docs[0],
        "Parameters",
        [_with_default(known[n], p) for n, p in parameters.items() if n in known],
    )
    attributes = _described(docs, "Attributes").values()
    cls.__doc__ = _replaced(doc, "Attributes", list(attributes))


def _described(docs: list[str], title: str) -> dict[str, str]:
    """Return the entries of a section by name, each of the first that has it."""
    entries: dict[str, str] = {}
    for doc in docs:
        found = _section(title).search(doc)
        for entry in _ENTRY.finditer(found["body"] if found else ""):
            entries.setdefault(entry["name"], entry[0])
    return entries


def _section(title: str) -> re.Pattern[str]:
    text = _SECTION.replace("{title}", title)
    return re.compile(text, re.MULTILINE | re.DOTALL)


def _with_default(entry: str, parameter: inspect.Parameter) -> str:
    """Return an entry with the default of the signature, unless it names one."""
    head, _, text = entry.partition("\n")
    if parameter.default is parameter.empty or "default=" in entry:
        return entry
    value = parameter.default
    written = f'"{value}"' if isinstance(value, str) else repr(value)
    return f"{head}, default={written}\n{text}"


def _replaced(doc: str, title: str, entries: list[str]) -> str:
    """Return a docstring with these entries in a section, where it has the section."""
    body = "\n".join(entries) + "\n\n"
    return _section(title).sub(lambda found: found["head"] + body, doc)


# ---- links to the reference ----------------------------------------------------------


SITE = "https://kaucus.github.io/kaucus"


class LinksToDocs:
    """Mixin: scikit-learn's HTML picture of an estimator links to our reference."""

    _doc_link_module = "kaucus"
    _doc_link_template = SITE + "/{version}/reference/{module}.{name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return the public name of the class, which is not where it is written.

        Each minor version of the site has a folder of its own, such as ``0.1``.
        """
        package, folder = type(self).__module__.split(".")[:2]
        module = package if folder == "estimators" else f"{package}.{folder}"
        # The package itself is above all layers, and is imported when this runs.
        version = ".".join(sys.modules[package].__version__.split(".")[:2])
        return {"version": version, "module": module, "name": type(self).__name__}
