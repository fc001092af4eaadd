"""Error over seconds: what more time buys kaucus, and what it buys boosting.

All training rows of four tables of ``tables/develop``, and 20,000 made rows of 20
columns; each contender with several settings of the one parameter that sets its time.
Part ``small``: fits of 5,000 rows beside xRFM and a tuned SVC.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import tables as of_tables
from benchmarks._runner import Content, Settings, Step, Table
from kaucus.evaluation import format_seconds
from kaucus.experiments import timed

TITLE = "Error over seconds"
ABOUT = (
    "`python -m benchmarks pace`: error in percent of test rows, or 100 RMSE / "
    "standard deviation, and seconds of the fit, one at a time, with the threads that "
    "the machine has. kaucus by n_representatives; boosting by its number of trees; "
    "the rest default. 'made' has 20,000 training rows of 20 normal columns of which "
    "five matter, smoothly, and noise of a quarter of the signal's spread. Part "
    "'small': 5,000 rows, defaults; tuned SVC is a grid of 25 in three folds."
)
TABLES = ("houses", "magic", "house_8l", "adult")
MADE, MADE_ROWS, MADE_TEST = "made", 20_000, 10_000
SMALL_TABLES = ("houses", "magic", "spambase", "phoneme", "wind", "puma8nh")
SMALL_ROWS = 5000
SMALL = ("kaucus", "kaucus, no metric", "xRFM", "CatBoost", "tuned SVC")
_TREES = (30, 100, 300, 1000)
SETTINGS = {
    "kaucus": ("fast", "balanced"),
    "HistGradientBoosting": _TREES,
    "LightGBM": _TREES,
}


def steps(settings: Settings) -> list[Step]:
    """List every setting of every contender; ``--parts``: ``curves``, ``small``."""
    parts = settings.parts or ("curves", "small")
    found = []
    if "curves" in parts:
        names = (MADE,) if settings.quick else (*TABLES, MADE)
        n_train = settings.sizes[0] if settings.sizes else 10**9
        found += [
            Step(
                "curves",
                f"{contender}, {setting} on {name}",
                measure,
                (contender, setting, name, n_train, settings.data_home),
                {"contender": contender, "setting": setting, "table": name},
            )
            for name in names
            for contender, values in SETTINGS.items()
            for setting in (values[:1] if settings.quick else values)
        ]
    if "small" in parts and not settings.quick:
        found += [
            Step(
                "small",
                f"{contender} on {name}",
                of_tables.measure,
                (contender, "develop", name, 0, SMALL_ROWS, settings.data_home),
                {"contender": contender, "table": name},
            )
            for contender in SMALL
            for name in SMALL_TABLES
        ]
    return found


def make_model(contender: str, setting: Any, regression: bool) -> Any:
    """Return a model with one value of the parameter that determines its fit time."""
    if contender == "kaucus":
        import kaucus

        kind = "Regressor" if regression else "Classifier"
        model = getattr(kaucus, f"KMeansKernel{kind}")
        return model(setting, random_state=0)
    model = of_tables.CONTENDERS[contender](regression, 0)
    trees = "max_iter" if contender == "HistGradientBoosting" else "n_estimators"
    return model.set_params(**{trees: setting})


def made_rows(n_train: int = MADE_ROWS) -> of_tables.Split:
    """Return rows of 20 columns, five of which matter."""
    rng = np.random.default_rng(0)
    n = min(n_train, MADE_ROWS)
    X = rng.normal(size=(n + MADE_TEST, 20))
    f = made_signal(X)
    y = f + 0.25 * f.std() * rng.normal(size=len(f))
    return of_tables.Split(X[:n], y[:n], X[n:], y[n:])


def made_signal(X: np.ndarray) -> np.ndarray:
    """Return the made targets without their noise."""
    return np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + X[:, 4] ** 2 / 2


def measure(
    contender: str, setting: Any, name: str, n_train: int, data_home: Any
) -> dict[str, Any]:
    """Fit a contender to all rows of a table, and judge its predictions."""
    import warnings

    regression = name == MADE or name in of_tables.REGRESSION
    data = (
        made_rows(n_train)
        if name == MADE
        else of_tables.load_split(data_home, "develop", name, 0, n_train)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_model(contender, setting, regression)
        _, seconds = timed(model.fit, data.X, data.y)
        predicted = np.ravel(model.predict(data.X_test))
    return {
        "rows": len(data.y),
        "columns": data.X.shape[1],
        "error": of_tables.error(predicted, data.y_test, regression),
        "fit_seconds": seconds,
        "representatives": len(getattr(model, "representatives_", ())) or None,
    }


# ---- tables and figure ---------------------------------------------------------------


def tables(content: Content) -> list[Table]:
    """Return the curves as rows, and the fits of 5,000 rows."""
    headers = ("table", "rows", "columns", "contender", "setting", "fit", "error")
    rows = [
        [
            *(r["table"], f"{r['rows']:,}", r["columns"], r["contender"]),
            *(str(r["setting"]), format_seconds(r["fit_seconds"]), f"{r['error']:.2f}"),
        ]
        for r in _done(content, "curves")
    ]
    found = [Table("All rows", headers, rows)] if rows else []
    small = _done(content, "small")
    if small:
        found.append(_small_table(small))
    return found


def _small_table(records: Sequence[dict]) -> Table:
    """Return seconds of a fit of 5,000 rows, and errors, contender by contender."""
    by = {(r["table"], r["contender"]): r for r in records}
    every = [c for c in SMALL if any(c == other for _, other in by)]
    rows = []
    for name in dict.fromkeys(r["table"] for r in records):
        row = [name]
        for c in every:
            r = by.get((name, c))
            time = "–" if r is None else format_seconds(r["fit_seconds"])
            row.append("–" if r is None else f"{time}, {r['error']:.2f}")
        rows.append(row)
    return Table("5,000 rows: seconds of the fit, error", ("table", *every), rows)


def _done(content: Content, section: str) -> list[dict]:
    return [r for r in content.get(section, []) if "skipped" not in r]


def draw(content: Content, folder: Path) -> list[Path]:
    """Draw error over seconds, one panel for each table."""
    from matplotlib import pyplot as plt

    records = _done(content, "curves")
    names = list(dict.fromkeys(r["table"] for r in records))
    if not names:
        return []
    figure, panels = plt.subplots(
        1, len(names), figsize=(2.6 * len(names) + 0.6, 3.2), squeeze=False
    )
    looks = {"kaucus": ("o-", "#1f6f8b"), "HistGradientBoosting": ("s--", "#c8553d")}
    for axes, name in zip(panels[0], names, strict=True):
        for contender in SETTINGS:
            some = [
                r for r in records if (r["table"], r["contender"]) == (name, contender)
            ]
            style, colour = looks.get(contender, ("^:", "#588157"))
            times = [r["fit_seconds"] for r in some]
            errors = [r["error"] for r in some]
            axes.plot(times, errors, style, color=colour, label=contender, ms=5)
        axes.set_xscale("log")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("seconds of the fit")
        axes.grid(alpha=0.25)
    panels[0][0].set_ylabel("error of test rows, %")
    panels[0][-1].legend(fontsize=7, loc="best")
    figure.tight_layout()
    file = folder / "pace.png"
    figure.savefig(file, dpi=150)
    plt.close(figure)
    return [file]
