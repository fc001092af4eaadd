"""Indented formulas of docstrings, shown as they are typed.

Docstrings write formulas as indented lines, which a terminal shows well. Without a mark
reStructuredText would join those lines into a paragraph; the mark is added here.
"""

import re

LIST_ITEM = re.compile(r"([-*]|\d+\.|\.\.) ")
PLAIN_SECTIONS = ("", "Notes")  # others describe their entries by indented text


def mark_formulas(lines: list[str]) -> list[str]:
    """Return the lines of a docstring with a mark before each indented formula."""
    marked: list[str] = []
    section, before = "", ""  # where we are; the last line that is not indented
    for i, line in enumerate(lines):
        if set(line) == {"-"} and i:
            section = lines[i - 1]
        begins = line.startswith("    ") and (i == 0 or not lines[i - 1].strip())
        if begins and section in PLAIN_SECTIONS and not LIST_ITEM.match(before):
            marked += [".. code-block:: text", ""]
            before = "- "  # until a line that is not indented: one mark is enough
        elif line and not line.startswith(" "):
            before = line
        marked.append(line)
    return marked


def on_docstring(app, what, name, obj, options, lines: list[str]) -> None:
    """Change the docstring of an object of this package in place, as Sphinx asks."""
    if (getattr(obj, "__module__", None) or "kaucus").startswith("kaucus"):
        lines[:] = mark_formulas(lines)


def setup(app):
    """Register the change before numpydoc's."""
    app.connect("autodoc-process-docstring", on_docstring, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
