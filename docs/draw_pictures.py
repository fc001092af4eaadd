"""Draw the site's pictures into docs/_static: logo, icon, front page, social card.

    python docs/draw_pictures.py

All show the same thing: many rows, and a few representatives, each as large as the
number of rows that it speaks for. A picture is discs, lines and words in pixels; it is
written as SVG by hand, which is small and the same in every run, or as PNG by
matplotlib.
"""

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
from contourpy import contour_generator
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from kaucus import KMeansKernelClassifier

STATIC = Path(__file__).parent / "_static"
FONTS = "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
TAGLINE = (
    "Kernel machines in which",
    "a few representatives",
    "speak for all the data",
)


class Colours(NamedTuple):
    """Colours of the two classes, of what is written, and of the ground."""

    classes: tuple[str, str]
    text: str
    quiet: str
    ground: str


LIGHT = Colours(("#2563a8", "#d96b1c"), "#1d2733", "#5b6776", "#ffffff")
DARK = Colours(("#6aa9e9", "#f2a25c"), "#e8edf3", "#a3afbd", "#14181e")


def main() -> None:
    """Draw every picture."""
    scene = Scene()
    for colours, ending in ((LIGHT, ""), (DARK, "-dark")):
        overview(scene, colours).write_svg(STATIC / f"overview{ending}.svg")
        logo(colours).write_svg(STATIC / f"logo{ending}.svg")
    icon(LIGHT).write_svg(STATIC / "favicon.svg")
    logo(LIGHT).write_png(STATIC / "logo.png", scale=4)
    card(scene, DARK).write_png(STATIC / "social-card.png", ground=DARK.ground)


class Discs(NamedTuple):
    """Discs of one colour: centres (n, 2) and radii (n,) in pixels, y downwards."""

    centres: np.ndarray
    radii: np.ndarray
    colour: str
    opacity: float = 1.0
    rim: str | None = None


class Line(NamedTuple):
    """A line through points (n, 2)."""

    points: np.ndarray
    colour: str
    width: float


class Words(NamedTuple):
    """A line of text that begins at, or is centred on, a point."""

    text: str
    x: float
    y: float
    size: float
    colour: str
    bold: bool = False
    centred: bool = False


@dataclass
class Picture:
    """Discs, lines and words, one over the other, of a size in pixels."""

    width: int
    height: int
    title: str
    parts: list[Discs | Line | Words] = field(default_factory=list)

    def write_svg(self, path: Path) -> None:
        """Write the picture with fonts of the reader's."""
        body = "\n".join(_as_svg(part) for part in self.parts)
        path.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" font-family="{FONTS}">\n'
            f"<title>{escape(self.title)}</title>\n{body}\n</svg>\n",
            encoding="utf-8",
        )

    def write_png(self, path: Path, *, scale: int = 1, ground: str = "none") -> None:
        """Write the picture by matplotlib, ``scale`` times as large."""
        canvas = Figure((self.width / 100, self.height / 100), facecolor=ground)
        ax = canvas.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, self.width), ylim=(self.height, 0))
        ax.set_axis_off()
        for part in self.parts:
            _draw(part, ax)
        canvas.savefig(path, dpi=100 * scale, metadata={"Software": None})


_MANY = 100  # discs


def _as_svg(part: Discs | Line | Words) -> str:
    """Return a part of a picture as elements of SVG."""
    if isinstance(part, Words):
        anchor = ' text-anchor="middle"' if part.centred else ""
        weight = ' font-weight="bold"' if part.bold else ""
        return (
            f'<text x="{part.x:g}" y="{part.y:g}" font-size="{part.size:g}" '
            f'fill="{part.colour}"{anchor}{weight}>{escape(part.text)}</text>'
        )
    if isinstance(part, Line):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in part.points)
        return (
            f'<polyline points="{points}" fill="none" stroke="{part.colour}" '
            f'stroke-width="{part.width:g}" stroke-linecap="round"/>'
        )
    if len(part.radii) > _MANY and part.rim is None and np.ptp(part.radii) == 0:
        # Many equal discs are the ends of lines without length: half the bytes.
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in part.centres)
        return (
            f'<path d="{dots}" stroke="{part.colour}" opacity="{part.opacity:g}" '
            f'stroke-width="{2 * part.radii[0]:.2g}" stroke-linecap="round"/>'
        )
    rim = f' stroke="{part.rim}" stroke-width="2"' if part.rim else ""
    discs = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.2g}"/>'
        for (x, y), r in zip(part.centres, part.radii, strict=True)
    )
    return f'<g fill="{part.colour}" opacity="{part.opacity:g}"{rim}>{discs}</g>'


def _draw(part: Discs | Line | Words, ax) -> None:
    """Draw a part of a picture by matplotlib, with 100 pixels to the inch."""
    point = 0.72  # of a pixel
    if isinstance(part, Words):
        style = {"fontsize": part.size * point, "color": part.colour}
        style |= {"fontweight": "bold"} if part.bold else {}
        ax.text(
            part.x, part.y, part.text, ha="center" if part.centred else "left", **style
        )
    elif isinstance(part, Line):
        ax.plot(*part.points.T, color=part.colour, linewidth=part.width * point)
    else:
        style = {"facecolor": part.colour, "alpha": part.opacity}
        style |= {"edgecolor": part.rim or "none", "linewidth": 2 * point}
        for centre, radius in zip(part.centres, part.radii, strict=True):
            ax.add_patch(Circle(tuple(centre), radius, zorder=2, **style))


class Scene:
    """Two moons, dense at one end, and the model of their representatives."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        turn = np.pi * rng.beta(1.1, 1.7, size=(400, 2))
        upper = np.c_[np.cos(np.pi - turn[:, 0]), np.sin(turn[:, 0])]
        lower = np.c_[1 - np.cos(np.pi - turn[:, 1]), 0.5 - np.sin(turn[:, 1])]
        self.rows = np.r_[upper, lower] + 0.15 * rng.normal(size=(800, 2))
        self.labels = np.repeat([0, 1], 400)
        self.model = KMeansKernelClassifier(
            7, kernel="rbf", gamma=0.8, C=1.0, random_state=0
        ).fit(self.rows, self.labels)

    def pixels(self, points: np.ndarray, corner, width: float) -> np.ndarray:
        """Return points of the plane in pixels, in a box of a width at a corner."""
        scale = width / 4.2
        x = corner[0] + scale * (points[:, 0] + 1.6)
        return np.c_[x, corner[1] + scale * (1.6 - points[:, 1])]

    def draw_rows(self, colours, corner, width, *, opacity) -> list[Discs]:
        """Return the rows as small discs."""
        places = self.pixels(self.rows, corner, width)
        radii = np.full(len(places), width / 190)
        by_class = [self.labels == k for k in (0, 1)]
        return [
            Discs(places[own], radii[own], colour, opacity)
            for own, colour in zip(by_class, colours.classes, strict=True)
        ]

    def draw_model(self, colours, corner, width) -> list[Discs | Line]:
        """Return the decision line, and representatives as large as their weight."""
        across, up = np.linspace(-1.6, 2.6, 161), np.linspace(-1.1, 1.6, 109)
        grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
        values = self.model.decision_function(grid).reshape(len(up), len(across))
        lines = contour_generator(across, up, values).lines(0.0)
        parts: list[Discs | Line] = [
            Line(self.pixels(line, corner, width)[::2], colours.text, width / 180)
            for line in lines
        ]
        model = self.model
        places = self.pixels(model.representatives_, corner, width)
        radii = width / 240 * np.sqrt(model.representative_weights_)
        for k in (0, 1):
            own = model.representative_labels_ == k
            look = (colours.classes[k], 1.0, colours.ground)
            parts.append(Discs(places[own], radii[own], *look))
        return parts


def overview(scene: Scene, colours: Colours) -> Picture:
    """Return the picture of the front page: rows, and who speaks for them."""
    n_rows, n_chosen = len(scene.rows), len(scene.model.representatives_)
    said = (f"{n_rows} rows", f"{n_chosen} representatives")
    picture = Picture(900, 330, f"{said[0]} of two classes, and {said[1]} for them")
    left, right, width = (15, 50), (465, 50), 420
    picture.parts += scene.draw_rows(colours, left, width, opacity=0.65)
    picture.parts += scene.draw_rows(colours, right, width, opacity=0.28)
    picture.parts += scene.draw_model(colours, right, width)
    for words, (x, _) in zip(said, (left, right), strict=True):
        where = {"x": x + width / 2, "y": 32, "size": 26, "centred": True}
        picture.parts.append(Words(words, colour=colours.text, **where))
    return picture


def logo(colours: Colours) -> Picture:
    """Return a ring of five large discs among small ones: a meeting."""
    picture = Picture(64, 64, "kaucus")
    turns = 2 * np.pi * (np.arange(5) / 5 - 0.25)
    chosen = 32 + 18.5 * np.c_[np.cos(turns), np.sin(turns)]
    between = turns + np.pi / 5
    small = np.r_[
        32 + 28.2 * np.c_[np.cos(between), np.sin(between)],
        32 + 9.5 * np.c_[np.cos(between), np.sin(between)],
    ]
    nearest = np.argmin(((small[:, None] - chosen) ** 2).sum(axis=2), axis=1)
    second = np.isin(np.arange(5), (1, 2))
    for k in (False, True):
        colour = colours.classes[int(k)]
        own = second[nearest] == k
        picture.parts.append(Discs(small[own], np.full(own.sum(), 2.9), colour, 0.6))
        radii = np.array([9.5, 8.0, 9.5, 8.0, 8.7])[second == k]
        picture.parts.append(Discs(chosen[second == k], radii, colour))
    return picture


def icon(colours: Colours) -> Picture:
    """Return the large discs of the logo alone, for the tab of a browser."""
    whole = logo(colours)
    large = [part for part in whole.parts if part.opacity == 1]
    parts = [part._replace(radii=1.25 * part.radii) for part in large]
    return Picture(whole.width, whole.height, whole.title, parts)


def card(scene: Scene, colours: Colours) -> Picture:
    """Return the card that is shown beside links."""
    picture = Picture(1200, 630, "kaucus")
    corner, width = (480, 90), 710
    picture.parts += scene.draw_rows(colours, corner, width, opacity=0.3)
    picture.parts += scene.draw_model(colours, corner, width)
    picture.parts.append(Words("kaucus", 70, 240, 104, colours.text, bold=True))
    for k, line in enumerate(TAGLINE):
        picture.parts.append(Words(line, 74, 318 + 48 * k, 33, colours.text))
    said = "scikit-learn's API, on NumPy or a GPU"
    picture.parts.append(Words(said, 74, 490, 23, colours.quiet))
    return picture


if __name__ == "__main__":
    main()
