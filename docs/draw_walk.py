"""Draw the walk of one fit through the package into docs/theory/architecture.md.

    python docs/draw_walk.py           prints it
    python docs/draw_walk.py --write   puts it between the two marks of the document

A default ``KMeansKernelClassifier().fit`` of 13,000 rows is followed in the main
thread. Shown are the functions of the package that take at least five percent of the
time, under the one that called them first, with their share of the time.
"""

import sys
import time
from pathlib import Path

import numpy as np

from kaucus import KMeansKernelClassifier

DOCUMENT = Path(__file__).parent / "theory" / "architecture.md"
BEGIN, END = "<!-- walk: begin -->\n", "<!-- walk: end -->\n"
LEAST_SHARE = 0.05


class Walk:
    """Time and calls of each path of functions of the package, from outside in."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, ...], float] = {}
        self.modules: set[str] = set()
        self.depth = 0
        self._path: list[str] = []
        self._starts: list[float] = []

    def __call__(self, frame, event: str, _) -> None:
        """Take part in ``sys.setprofile``."""
        module = frame.f_globals.get("__name__", "")
        name = frame.f_code.co_qualname
        if not module.startswith("kaucus") or name.endswith("comp>"):
            return
        if event == "call":
            self._path.append(f"{module.removeprefix('kaucus.')}.{name}")
            self._starts.append(time.perf_counter())
            self.modules.add(module)
            self.depth = max(self.depth, len(self._path))
        elif event == "return" and self._path:
            path = tuple(self._path)
            spent = time.perf_counter() - self._starts.pop()
            self.seconds[path] = self.seconds.get(path, 0.0) + spent
            self._path.pop()

    def tree(self) -> list[str]:
        """Return a line for each function that takes its share, indented by depth."""
        whole = max(self.seconds.values())
        shown = {p: s for p, s in self.seconds.items() if s >= LEAST_SHARE * whole}
        lines = []

        def draw(path: tuple[str, ...], depth: int) -> None:
            module, function = _readable(path[-1])
            text = f"{'  ' * depth}{function}"
            lines.append(f"{shown[path] / whole:5.0%}  {text:58} {module}")
            for child in shown:
                if child[:-1] == path:
                    draw(child, depth + 1)

        for path in shown:
            if len(path) == 1:
                draw(path, 0)
        return lines


def _readable(step: str) -> tuple[str, str]:
    """Split a step into module and function, without Python's marks."""
    layer, module, function = step.split(".", 2)
    function = function.replace("<locals>.", "").replace("<lambda>", "λ")
    return f"{layer}/{module}.py", function


def follow() -> Walk:
    """Return the walk of one default fit, after one that imports everything."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(13_000, 10))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    KMeansKernelClassifier(random_state=0).fit(X[:500], y[:500])
    walk = Walk()
    sys.setprofile(walk)
    try:
        KMeansKernelClassifier(random_state=0).fit(X, y)
    finally:
        sys.setprofile(None)
    return walk


def main() -> None:
    """Print the walk, or write it into the document."""
    walk = follow()
    drawing = "\n".join(
        [
            "```text",
            *walk.tree(),
            "```",
            "",
            f"{len(walk.modules)} modules, {walk.depth} calls deep at most "
            "(`python docs/draw_walk.py --write`).",
            "",
        ]
    )
    if "--write" not in sys.argv:
        print(drawing)
        return
    text = DOCUMENT.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    DOCUMENT.write_text(before + BEGIN + drawing + END + after)


if __name__ == "__main__":
    main()
