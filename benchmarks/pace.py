"""Error over seconds: what more time buys kaucus, and what it buys boosting.

All training rows of four tables of ``tables/develop``, and 20,000 made rows of 20
columns; each contender with several settings of the one parameter that sets its time.
Part ``small``: fits of 5,000 rows beside xRFM and a tuned SVC. Part ``growth``: seconds
over rows and over columns. Part ``whole``: all rows of the two largest tables. Part
``words``: is a larger word for ``n_representatives`` ever worse than a smaller one?
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import tables as of_tables
from benchmarks._runner import Content, Settings, Step, Table
from kaucus.evaluation.clustering import format_seconds
from papers import timed

TITLE = "Error over seconds"
ABOUT = (
    "`python -m benchmarks pace`: error in percent of test rows, or 100 RMSE / "
    "standard deviation, and seconds of the fit, one at a time, with the threads that "
    "the machine has. kaucus by n_representatives; boosting by its number of trees; "
    "the rest default. 'made' has 20,000 training rows of 20 normal columns of which "
    "five matter, smoothly, and noise of a quarter of the signal's spread. Part "
    "'small': 5,000 rows, defaults; tuned SVC is a grid of 25 in three folds. Part "
    "'growth': rows made in the same way, of more or fewer rows or columns. Part "
    "'whole': three quarters of all rows of a table to learn from, defaults. Part "
    "'words': up to 12,500 rows of each table of 'develop'; CPU seconds of the fit; "
    "'change' is the mean difference of the losses of test rows (wrong or not, squared "
    "error over the variance) to the word before, in standard errors: above 2 more "
    "representatives are worse. 'best' where it is not the same fit as 'balanced'."
)
PARTS = ("curves", "small", "growth", "whole", "words")
WORDS_TABLES = (
    *("pol", "magic", "houses", "house_8l", "adult", "puma8nh", "cpu_act", "ring"),
    *("wind", "phoneme", "churn", "waveform_21", "spambase", "abalone", "splice"),
    *("segmentation", "credit_g"),
)
WORDS, WORDS_ROWS = ("fast", "balanced", "best"), 12_500
TABLES = ("houses", "magic", "house_8l", "adult")
MADE, MADE_ROWS, MADE_TEST = "made", 20_000, 10_000
SMALL_TABLES = ("houses", "magic", "spambase", "phoneme", "wind", "puma8nh")
SMALL_ROWS = 5000
SMALL = ("kaucus", "kaucus, no metric", "xRFM", "CatBoost", "tuned SVC")
GROWTH_ROWS = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
GROWTH_COLUMNS = (5, 20, 80, 320)
GROWTH = ("kaucus", "kaucus, no metric", "HistGradientBoosting")
# On 'protein' nothing was chosen: it is a table that judges.
WHOLE_TABLES = {"adult": "develop", "protein": "judge"}
WHOLE = ("kaucus", "HistGradientBoosting", "LightGBM", "CatBoost", "RandomForest")
_TREES = (30, 100, 300, 1000)
_SECONDS = (0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
_LOOKS = (("o-", "#1f6f8b"), ("s--", "#c8553d"), ("^:", "#588157"))
SETTINGS = {
    "kaucus": ("fast", "balanced"),
    "HistGradientBoosting": _TREES,
    "LightGBM": _TREES,
}


def steps(settings: Settings) -> list[Step]:
    """List every setting of every contender."""
    parts = settings.parts or PARTS
    if unknown := sorted(set(parts) - set(PARTS)):
        raise FileNotFoundError(f"--parts {unknown}: there are {list(PARTS)}")
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
    if "words" in parts and not settings.quick:
        found += [
            Step(
                "words",
                f"sizes on {name}",
                measure_words,
                (name, WORDS_ROWS, settings.data_home),
                {"table": name},
            )
            for name in WORDS_TABLES
        ]
    if "growth" in parts:
        found += _growth_steps(settings)
    if "whole" in parts and not settings.quick:
        found += [
            Step(
                "whole",
                f"{contender} on all of {name}",
                of_tables.measure,
                (contender, group, name, 0, 10**9, settings.data_home),
                {"contender": contender, "table": name},
            )
            for name, group in WHOLE_TABLES.items()
            for contender in WHOLE
        ]
    return found


def _growth_steps(settings: Settings) -> list[Step]:
    """List fits of made rows: of 20 columns, then 5,000 of more or fewer columns."""
    n_rows = settings.sizes or (GROWTH_ROWS[:2] if settings.quick else GROWTH_ROWS)
    columns = () if settings.quick else GROWTH_COLUMNS
    shapes = [("rows", n, 20) for n in n_rows]
    shapes += [("columns", SMALL_ROWS, d) for d in columns]
    return [
        Step(
            "growth",
            f"{contender}, {n:,} x {d}",
            measure_growth,
            (contender, n, d),
            {"contender": contender, "over": over},
        )
        for over, n, d in shapes
        for contender in GROWTH
    ]


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


def made_rows(n: int = MADE_ROWS, n_columns: int = 20) -> of_tables.Split:
    """Return rows of normal columns, the first five of which matter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + MADE_TEST, n_columns))
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
        made_rows(min(n_train, MADE_ROWS))
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


def measure_words(name: str, n_train: int, data_home: Any) -> list[dict[str, Any]]:
    """Fit a table with every word for a size, and compare it with the word before."""
    import time
    import warnings

    from kaucus.fitting._represented import most_rows

    regression = name in of_tables.REGRESSION
    data = of_tables.load_split(data_home, "develop", name, 0, n_train)
    all_rows = len(data.y) <= most_rows("balanced", 2**40, factored=True)
    found, before = [], None
    for word in WORDS[:2] if all_rows else WORDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            model = make_model("kaucus", word, regression).fit(data.X, data.y)
            seconds = time.process_time() - start
            predicted = np.ravel(model.predict(data.X_test))
        losses = (predicted != data.y_test).astype(float)
        if regression:
            losses = (predicted - data.y_test) ** 2 / np.var(data.y_test)
        record = {
            "rows": len(data.y),
            "setting": word,
            "representatives": len(model.representatives_),
            "C": model.C_,
            "error": of_tables.error(predicted, data.y_test, regression),
            "cpu_seconds": seconds,
            "change": None if before is None else _in_errors(losses - before),
        }
        found.append(record)
        before = losses
    return found


def _in_errors(differences: np.ndarray) -> float:
    """Return the mean in standard errors; 0 where nothing differs."""
    error = float(differences.std()) / len(differences) ** 0.5
    return float(differences.mean()) / error if error else 0.0


def measure_growth(contender: str, n_rows: int, n_columns: int) -> dict[str, Any]:
    """Fit made rows of one shape with a contender's defaults."""
    data = made_rows(n_rows, n_columns)
    model = of_tables.CONTENDERS[contender](True, 0)
    _, seconds = timed(model.fit, data.X, data.y)
    error = of_tables.error(np.ravel(model.predict(data.X_test)), data.y_test, True)
    size = {"rows": n_rows, "columns": n_columns}
    return {**size, "fit_seconds": seconds, "error": error}


# ---- tables and figures -------------------------------------------------------------


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
        title = "5,000 rows: seconds of the fit, error"
        found.append(_by_contender(title, ("table",), small, SMALL))
    words = _done(content, "words")
    if words:
        found.append(_words_table(words))
    growth = _done(content, "growth")
    for over in dict.fromkeys(r["over"] for r in growth):
        some = [r for r in growth if r["over"] == over]
        title = f"Growth with the {over}: seconds of the fit, error"
        found.append(_by_contender(title, ("rows", "columns"), some, GROWTH))
    whole = _done(content, "whole")
    if whole:
        title = "All rows of two tables: seconds of the fit, error"
        found.append(_by_contender(title, ("table", "rows", "columns"), whole, WHOLE))
    return found


def _words_table(records: Sequence[dict]) -> Table:
    heads = ("table", "rows", "setting", "representatives", "C", "error", "CPU")
    rows = [
        [
            *(r["table"], f"{r['rows']:,}", r["setting"], f"{r['representatives']:,}"),
            *(f"{r['C']:.3g}", f"{r['error']:.2f}", format_seconds(r["cpu_seconds"])),
            "" if r["change"] is None else f"{r['change']:+.1f}",
        ]
        for r in records
    ]
    return Table("Words for the number of representatives", (*heads, "change"), rows)


def _by_contender(
    title: str, heads: Sequence[str], records: Sequence[dict], contenders: Sequence[str]
) -> Table:
    """Return seconds of the fit and errors: a row for each case, contenders beside."""
    by = {(*(r[h] for h in heads), r["contender"]): r for r in records}
    every = [c for c in contenders if any(c == key[-1] for key in by)]
    rows = []
    for case in dict.fromkeys(key[:-1] for key in by):
        found = [by.get((*case, c)) for c in every]
        texts = [
            "–"
            if r is None
            else f"{format_seconds(r['fit_seconds'])}, {r['error']:.2f}"
            for r in found
        ]
        rows.append([*(f"{c:,}" if isinstance(c, int) else c for c in case), *texts])
    return Table(title, (*heads, *every), rows)


def _done(content: Content, section: str) -> list[dict]:
    return [r for r in content.get(section, []) if "skipped" not in r]


def draw(content: Content, folder: Path) -> list[Path]:
    """Draw error over seconds, and seconds over rows and columns."""
    return [*_draw_curves(content, folder), *_draw_growth(content, folder)]


def _draw_growth(content: Content, folder: Path) -> list[Path]:
    """Draw seconds of a fit over rows and over columns."""
    from matplotlib import pyplot as plt

    records = _done(content, "growth")
    overs = list(dict.fromkeys(r["over"] for r in records))
    if not overs:
        return []
    figure, panels = plt.subplots(
        1, len(overs), figsize=(3.8 * len(overs), 3.2), squeeze=False, sharey=True
    )
    for axes, over in zip(panels[0], overs, strict=True):
        for contender, (style, colour) in zip(GROWTH, _LOOKS, strict=True):
            some = [
                r for r in records if (r["over"], r["contender"]) == (over, contender)
            ]
            sizes, times = [r[over] for r in some], [r["fit_seconds"] for r in some]
            axes.loglog(sizes, times, style, color=colour, label=contender, ms=5)
        axes.set_xlabel(over)
        axes.grid(alpha=0.25)
    panels[0][0].set_ylabel("seconds of the fit")
    panels[0][0].legend(fontsize=8)
    figure.tight_layout()
    file = folder / "table-growth.png"
    figure.savefig(file, dpi=150)
    plt.close(figure)
    return [file]


def _draw_curves(content: Content, folder: Path) -> list[Path]:
    """Draw error over seconds, one panel for each table."""
    from matplotlib import pyplot as plt

    records = _done(content, "curves")
    names = list(dict.fromkeys(r["table"] for r in records))
    if not names:
        return []
    figure, panels = plt.subplots(
        1, len(names), figsize=(2.6 * len(names) + 0.6, 3.2), squeeze=False
    )
    for axes, name in zip(panels[0], names, strict=True):
        for contender, (style, colour) in zip(SETTINGS, _LOOKS, strict=True):
            some = [
                r for r in records if (r["table"], r["contender"]) == (name, contender)
            ]
            times = [r["fit_seconds"] for r in some]
            errors = [r["error"] for r in some]
            axes.plot(times, errors, style, color=colour, label=contender, ms=5)
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        ticks = [s for s in _SECONDS if low <= s <= high]
        axes.set_xticks(ticks, [f"{s:g}" for s in ticks])
        axes.minorticks_off()
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
