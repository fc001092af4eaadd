"""Names in the text of a page lead to the reference.

The pages write ``KMeansKernelClassifier(30)`` as code, which GitHub shows well. On the
site the first such name of each section becomes a link to its page in the reference.
"""

import re

from docutils import nodes

# A name, as it is or called; words such as ``report`` only with the module before them.
NAME = re.compile(r"(?:kaucus\.)?(?:\w+\.)?(?P<name>\w+)(?:\(.*\))?", re.DOTALL)


def public_name(text: str) -> str | None:
    """Return the name that code in a text stands for; None if it may be another."""
    match = NAME.fullmatch(text)
    if match is None:
        return None
    is_marked = text.startswith("kaucus.") or "_" in match["name"].strip("_")
    return match["name"] if is_marked or match["name"][0].isupper() else None


def pages_of_names(app) -> dict[str, tuple[str, str]]:
    """Return page and anchor of each class and function of the reference."""
    objects = app.env.domains["py"].get_objects()
    kinds = ("class", "function", "exception")
    return {
        full.rpartition(".")[2]: (page, anchor)
        for full, _, kind, page, anchor, _ in objects
        if kind in kinds and full.startswith("kaucus.")
    }


def on_resolved(app, doctree, docname: str) -> None:
    """Wrap names of a page in links, the first of each section."""
    if docname.startswith(("reference/", "gallery/", "project/changes")):
        return
    pages, seen = pages_of_names(app), set()
    for node in list(doctree.findall(nodes.literal)):
        name = public_name(node.astext())
        section = id(next_section(node))
        inside = (nodes.reference, nodes.title)
        if name not in pages or (section, name) in seen or has_parent(node, inside):
            continue
        seen.add((section, name))
        page, anchor = pages[name]
        uri = app.builder.get_relative_uri(docname, page)
        link = nodes.reference("", "", internal=True, refuri=f"{uri}#{anchor}")
        node.replace_self(link)
        link += node


def next_section(node):
    """Return the section that a node stands in."""
    while node is not None and not isinstance(node, nodes.section):
        node = node.parent
    return node


def has_parent(node, kinds) -> bool:
    """Tell whether a node is within one of these kinds of nodes."""
    while (node := node.parent) is not None:
        if isinstance(node, kinds):
            return True
    return False


def setup(app):
    """Register the change, which is made when all pages are known."""
    app.connect("doctree-resolved", on_resolved)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
