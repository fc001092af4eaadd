"""The page of a report: one file without scripts or links to elsewhere."""

import html
from collections.abc import Sequence
from typing import NamedTuple

_CSS = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #5b6570;
  --line: #d7dce1; --fill: #f4f6f8; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --paper: #14171a;
  --soft: #9aa4ae; --line: #363c43; --fill: #1e2227; --accent: #56b4e9; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main, header, footer { max-width: 60rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-top: .9rem;
  border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 46rem; }
.soft { color: var(--soft); font-size: .92rem; }
.big { font-size: 2.1rem; font-weight: 650; line-height: 1.15; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: 1rem 0 0; }
nav a { color: var(--accent); text-decoration: none; font-size: .92rem; }
nav a:hover { text-decoration: underline; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: .6rem 0; flex: 1 1 17rem; max-width: 38rem; }
figure svg { width: 100%; height: auto; display: block; color: var(--ink); }
figure image { image-rendering: pixelated; }
figcaption { color: var(--soft); font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; margin: .6rem 0;
  font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.cell { text-align: right; background: color-mix(in srgb, var(--accent)
  calc(var(--share) * 1%), transparent); }
footer { padding: 2rem 1.25rem 3rem; }
@media print { nav { display: none; } body { font-size: 11pt; }
  h2, figure, tr { break-inside: avoid; } h2 { break-after: avoid; } }
"""


class Section(NamedTuple):
    """A part of the page."""

    name: str
    """In links."""
    title: str
    body: str
    """HTML."""


def page(title: str, subtitle: str, sections: Sequence[Section], foot: str) -> str:
    """Return the whole page.

    Parameters
    ----------
    title, subtitle, foot : str
        Texts.
    sections : sequence of Section
    """
    links = "".join(
        f'<a href="#{part.name}">{escape(part.title)}</a>' for part in sections
    )
    parts = "".join(
        f'<section id="{part.name}"><h2>{escape(part.title)}</h2>{part.body}</section>'
        for part in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{_CSS}</style></head>\n<body><header><h1>{escape(title)}</h1>"
        f'<p class="soft">{escape(subtitle)}</p><nav>{links}</nav></header>\n'
        f'<main>{parts}</main>\n<footer class="soft">{escape(foot)}</footer>'
        "</body></html>\n"
    )


def escape(value: object) -> str:
    """Return a text in which nothing is HTML."""
    return html.escape(str(value))


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{escape(text)}</p>"


def figures(*svgs: str, captions: Sequence[str] = ()) -> str:
    """Return figures side by side, where there is room."""
    captions = [*captions, *[""] * (len(svgs) - len(captions))]
    cells = "".join(
        f"<figure>{svg}"
        + (f"<figcaption>{escape(caption)}</figcaption>" if caption else "")
        + "</figure>"
        for svg, caption in zip(svgs, captions, strict=True)
    )
    return f'<div class="figures">{cells}</div>'


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; numbers are set to the right, and a long one can be scrolled."""
    right = [not isinstance(value, str) for value in rows[0]] if rows else []
    kinds = [' class="number"' if is_number else "" for is_number in right]
    heads = "".join(
        f"<th{kind}>{escape(h)}</th>" for kind, h in zip(kinds, headers, strict=False)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    head = f"<thead><tr>{heads}</tr></thead>" if any(headers) else ""
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


def _cell(value: object) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    if isinstance(value, float):
        return f'<td class="number">{value:.4g}</td>'
    return f'<td class="number">{escape(value)}</td>'


def matrix(labels: Sequence[object], counts) -> str:
    """Return a table of counts, shaded by the share of their row."""
    heads = "".join(f'<th class="number">{escape(label)}</th>' for label in labels)
    rows = []
    for label, row in zip(labels, counts, strict=True):
        total = max(int(sum(row)), 1)
        cells = "".join(
            f'<td class="cell" style="--share:{60 * int(n) / total:.0f}">{int(n)}</td>'
            for n in row
        )
        rows.append(f"<tr><th>{escape(label)}</th>{cells}</tr>")
    return (
        '<div class="scroll"><table><thead><tr><th>true \\ predicted</th>'
        f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
