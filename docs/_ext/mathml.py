"""Formulas as MathML, converted while the site is built.

Browsers draw MathML by themselves, so the site needs no script and no font from
elsewhere. docutils, which Sphinx needs anyway, has the converter.
"""

from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def to_mathml(node, *, as_block: bool) -> str:
    """Return the MathML of a formula; one that cannot be read is a build warning."""
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("formula not understood: %s", error, location=node)
        return f"<code>{node.astext()}</code>"


def visit_math(self, node) -> None:
    """Write a formula within a line."""
    self.body.append(to_mathml(node, as_block=False))


def visit_displaymath(self, node) -> None:
    """Write a formula that stands alone; a long one can be scrolled on a phone."""
    self.body.append(f'<div class="formula">{to_mathml(node, as_block=True)}</div>')


def skip(self, node) -> None:
    """Depart from a node whose text has been written."""


def visit_and_stop(visit):
    """Return a visitor that does not write the LaTeX source as well."""
    from docutils import nodes

    def stop(self, node) -> None:
        visit(self, node)
        raise nodes.SkipNode

    return stop


def setup(app):
    """Register the renderer ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer(
        "mathml",
        (visit_and_stop(visit_math), skip),
        (visit_and_stop(visit_displaymath), skip),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
