"""Part ``sets`` of ``python -m benchmarks tables``: no arguments against a tuned SVC.

``KMeansKernelClassifier()`` against ``SVC`` with C and gamma chosen on a grid of 25 by
cross-validation, on the same splits of 13 sets: with scaled columns, and without
scaling. Defaults were chosen on ``PICKED_ON`` and on other data; the other 8 sets judge
them. They are not quite unseen: :data:`SEEN` tells.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks._runner import Content, Settings, Step, Table
from kaucus.evaluation.clustering import format_seconds
from papers import Split, timed

SECTION = "sets"
PICKED_ON = ("australian", "banknote", "diabetes_pima", "heart_statlog", "pendigits")
SMALL = (
    "australian",
    "banknote",
    "breast_cancer_scale",
    "breast_cancer_wisconsin",
    "climate_crashes",
    "diabetes_pima",
    "fourclass_scale",
    "heart_statlog",
    "liver_disorders",
    "splice_scale",
)
LARGE = ("pendigits", "satimage", "covtype")
QUICK = ("heart_statlog", "liver_disorders")
N_FOLDS, QUICK_FOLDS = 5, 2
# Five folds once differ by a test row or two: ranks were as if drawn by lot.
N_REPEATS = 3
# SVC takes hours on all of covtype, on whose rows kaucus is measured elsewhere.
COVTYPE_ROWS = (5_000, 20_000)
GRID = {
    "C": [0.1, 1.0, 10.0, 100.0, 1000.0],
    "gamma": [4.0**k for k in (-2, -1, 0, 1, 2)],  # here times 1 / (d Var(X))
}
SEEN = (
    "an earlier version was run on all sets, and after a first look at splice and "
    "covtype more rows were made representatives and more columns tried. The search "
    "was rewritten since, on the sets for picking alone, and all sets were run (ranks "
    "of 1.81 against 1.19 on the judging sets, 1.62 against 1.38 on all; satimage "
    "90.42 %, covtype 74.91 %). Because few columns may do rough kernels no justice, "
    "labels of random trees were added to the sets for picking, and by these a "
    "handicap of the smoother kernel from 2,000 rows on; then all sets were "
    "run again, once. That run had five folds once, and ranks of 1.69 against 1.31 on "
    "the judging sets, 1.58 against 1.42 on all, by one to six test rows a set; since "
    "then splits are repeated. The learned metric came later, chosen on the tables of "
    "'develop', whose splice has the source of splice_scale"
)
ABOUT = (
    "Sets: KMeansKernelClassifier() without arguments, and SVC with C of 0.1 ... 1000 "
    "and gamma of 1/16 ... 16 times 1 / (d Var(X)), chosen by five folds, refitted. "
    f"UCI sets: the mean over {N_FOLDS} stratified folds, {N_REPEATS} times; "
    f"pendigits: its own split; satimage: 70 % for training, {N_REPEATS} times; "
    "covtype: 5,000 rows for training, 20,000 for the test. Seconds: of one fit, the "
    "mean over the splits, after a first fit of some other rows; with --jobs, beside "
    "other fits. Rank: 1 for the higher accuracy, 1.5 each where equal. "
    f"The defaults were picked on {', '.join(PICKED_ON)}, and on digits, "
    "iris, wine, glass, seeds, parts of a9a and synthetic sets, none of which is here; "
    f"{SEEN}."
)
HEADERS = ("set", "rows", "classes", "kaucus %", "SVC %", "kaucus", "SVC", "SVC time ×")
SUMMARY_HEADERS = (
    "sets",
    "columns",
    "rank, kaucus",
    "rank, SVC",
    "mean %",
    "SVC time ×",
)


def _kaucus(X: np.ndarray, seed: int) -> Any:
    from kaucus import KMeansKernelClassifier

    return KMeansKernelClassifier(random_state=seed)


def _tuned_svc(X: np.ndarray, seed: int) -> Any:
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.svm import SVC

    scale = 1.0 / (X.shape[1] * X.var())
    grid = {"C": GRID["C"], "gamma": [scale * g for g in GRID["gamma"]]}
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return GridSearchCV(SVC(), grid, cv=folds)


CONTENDERS: dict[str, Callable[[np.ndarray, int], Any]] = {
    "kaucus": _kaucus,
    "SVC": _tuned_svc,
}


def steps(settings: Settings) -> list[Step]:
    """List every set with both contenders, scaled and not; the longest first."""
    names = QUICK if settings.quick else (*reversed(LARGE), *SMALL)
    jobs = [(d, c, True) for d in names for c in reversed(CONTENDERS)]
    # Units matter where they differ, as in the UCI sets.
    jobs += [(d, c, False) for d in names if d in SMALL for c in reversed(CONTENDERS)]
    return [
        Step(
            SECTION,
            f"{contender} on {dataset}{'' if scaled else ', not scaled'}",
            measure_set,
            (contender, dataset, scaled, settings.quick, settings.data_home),
            {"set": dataset, "contender": contender, "scaled": scaled},
        )
        for dataset, contender, scaled in jobs
    ]


def measure_set(
    contender: str, dataset: str, scaled: bool, quick: bool, data_home: Any
) -> dict[str, Any]:
    """Fit and judge a contender on every split of a set."""
    splits = load_splits(dataset, quick=quick, data_home=data_home)
    # Imports and threads of a first fit are no part of the set's time.
    X = np.random.default_rng(0).standard_normal((100, 3))
    CONTENDERS[contender](X, 0).fit(X, (X[:, 0] > 0).astype(int))
    return measure(contender, splits, scaled=scaled)


def load_splits(
    dataset: str, *, quick: bool = False, data_home: Any = None
) -> list[Split]:
    """Return the training and test rows of a set, as they are."""
    from sklearn.model_selection import StratifiedKFold, train_test_split

    from papers import datasets

    if dataset == "pendigits":
        data = datasets.load_pendigits(data_home=data_home)
        return [Split(data.X_train, data.y_train, data.X_test, data.y_test)]
    if dataset in ("satimage", "covtype"):
        load = getattr(datasets, f"load_{dataset}")
        X, y = load(data_home=data_home, return_X_y=True)
        sizes, repeats = {"test_size": 0.3}, N_REPEATS
        if dataset == "covtype":
            sizes = dict(zip(("train_size", "test_size"), COVTYPE_ROWS, strict=True))
            repeats = 1  # SVC takes two minutes
        parts = [
            train_test_split(X, y, stratify=y, random_state=seed, **sizes)
            for seed in range(repeats)
        ]
        return [Split(a, c, b, d) for a, b, c, d in parts]
    X, y = datasets.load_uci(dataset, data_home=data_home, return_X_y=True)
    n_folds = QUICK_FOLDS if quick else N_FOLDS
    return [
        Split(X[i], y[i], X[j], y[j])
        for seed in range(1 if quick else N_REPEATS)
        for i, j in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(
            X, y
        )
    ]


def measure(contender: str, splits: Sequence[Split], *, scaled: bool) -> dict[str, Any]:
    """Fit and judge a contender on every split."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.preprocessing import StandardScaler

    accuracies, seconds = [], []
    for seed, split in enumerate(splits):
        X_train, X_test = split.X_train, split.X_test
        if scaled:
            scaler = StandardScaler().fit(X_train)
            X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
        model = CONTENDERS[contender](X_train, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of k-means
            _, elapsed = timed(model.fit, X_train, split.y_train)
        accuracies.append(float(np.mean(model.predict(X_test) == split.y_test)))
        seconds.append(elapsed)
    return {
        "rows": len(splits[0].y_train),
        "classes": len(np.unique(splits[0].y_train)),
        "accuracies": accuracies,
        "seconds": float(np.mean(seconds)),
    }


# ---- tables --------------------------------------------------------------------------


def tables(content: Content) -> list[Table]:
    """Return the tables of the records so far."""
    records = [r for r in content.get(SECTION, ()) if "skipped" not in r]
    if not records:
        return []
    return [
        Table("Sets, ranks", SUMMARY_HEADERS, summary_rows(records)),
        Table("Sets, scaled columns", HEADERS, set_rows(records, scaled=True)),
        Table("Sets, without scaling", HEADERS, set_rows(records, scaled=False)),
    ]


def _pairs(records: Sequence[dict], *, scaled: bool) -> list[tuple[dict, dict]]:
    """Return ours and theirs of every set that both have done."""
    found = {(r["set"], r["contender"]): r for r in records if r["scaled"] == scaled}
    return [
        (found[name, "kaucus"], found[name, "SVC"])
        for name in (*SMALL, *LARGE)
        if {(name, "kaucus"), (name, "SVC")} <= set(found)
    ]


def set_rows(records: Sequence[dict], *, scaled: bool) -> list[list[str]]:
    """Write the records for :data:`HEADERS`."""
    return [
        [
            ours["set"] + (" ¹" if ours["set"] in PICKED_ON else ""),
            f"{ours['rows']:,}",
            str(ours["classes"]),
            f"{100 * np.mean(ours['accuracies']):.2f}",
            f"{100 * np.mean(theirs['accuracies']):.2f}",
            format_seconds(ours["seconds"]),
            format_seconds(theirs["seconds"]),
            f"{theirs['seconds'] / ours['seconds']:.1f}",
        ]
        for ours, theirs in _pairs(records, scaled=scaled)
    ]


def summary_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write mean ranks, accuracies and ratios, for the sets that judge and for all."""
    rows = []
    for scaled in (True, False):
        pairs = _pairs(records, scaled=scaled)
        judging = [pair for pair in pairs if pair[0]["set"] not in PICKED_ON]
        for title, chosen in (("judging", judging), ("all", pairs)):
            if not chosen:
                continue
            rank = mean_rank(chosen)
            ours, theirs = (
                100 * np.mean([np.mean(pair[k]["accuracies"]) for pair in chosen])
                for k in (0, 1)
            )
            times = [b["seconds"] / a["seconds"] for a, b in chosen]
            rows.append(
                [
                    f"{title} ({len(chosen)})",
                    "scaled" if scaled else "not scaled",
                    f"{rank:.2f}",
                    f"{3 - rank:.2f}",
                    f"{ours:.2f} against {theirs:.2f}",
                    f"{np.exp(np.mean(np.log(times))):.1f} ({min(times):.1f} at least)",
                ]
            )
    return rows


def mean_rank(pairs: Sequence[tuple[dict, dict]]) -> float:
    """Return our mean rank of accuracy among two.

    >>> mean_rank([({"accuracies": [0.9]}, {"accuracies": [0.8]})])
    1.0
    """
    gains = [np.mean(a["accuracies"]) - np.mean(b["accuracies"]) for a, b in pairs]
    return float(1.5 - 0.5 * np.mean(np.sign(np.round(gains, 12))))
