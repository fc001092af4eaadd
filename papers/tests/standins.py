"""Small papers and classifiers with which the runner can be watched.

Run as a program, it runs a paper of four cells; see ``main``.
"""

import sys
import time
from pathlib import Path

from sklearn.dummy import DummyClassifier

from papers import run_paper
from papers._spec import Cell, Paper


def make_cell(**changes):
    values = {
        "dataset": "digits",
        "method": "stand-in",
        "metric": "error_percent",
        "source": "nowhere",
        **changes,
    }
    return Cell(**values)


def make_paper(*cells, figures=()):
    return Paper(
        name="tiny",
        title="A tiny paper",
        reference="Nobody, Nowhere, 1900",
        cells=cells,
        figures=figures,
    )


def four_cells():
    """Four cells whose results differ, so that a mix-up would show."""
    return make_paper(
        *[make_cell(params={"constant": digit}, seeds=(0, 1)) for digit in (1, 8)]
    )


class Constant(DummyClassifier):
    """Predict one digit; write down each fit; hang at one, if asked to."""

    log: Path
    hang_at: int | None = None

    def __init__(self, *, constant=None, random_state=None):
        super().__init__(
            strategy="constant", constant=constant, random_state=random_state
        )

    def fit(self, X, y):
        with self.log.open("a") as stream:
            stream.write(f"{self.constant} {self.random_state}\n")
        if len(self.log.read_text().splitlines()) == self.hang_at:
            time.sleep(600)
        return super().fit(X, y)


def main():
    """Arguments: output folder, log of fits, number of the fit that hangs (or 0)."""
    output, log, hang_at = sys.argv[1:]
    Constant.log, Constant.hang_at = Path(log), int(hang_at)
    run_paper(four_cells(), output, methods={"stand-in": Constant})


if __name__ == "__main__":
    main()
