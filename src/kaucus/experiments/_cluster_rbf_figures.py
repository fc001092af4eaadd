"""Figures 1-3 of Czarnecki & Tabor."""

from pathlib import Path
from typing import Any

import numpy as np

from kaucus.evaluation import TunabilityDisplay
from kaucus.experiments._figures import COLOURS, STYLE, new_figure
from kaucus.experiments._optional import MissingPackageError

Grids = dict[tuple[str, str], list[np.ndarray]]
FIGURE_1 = ("RBF", "mRBF", "m2", "C2")
FIGURE_3 = ("RBF", "mRBF", "m2", "C2")


def draw_figures(grids: Grids, output: Path) -> tuple[list[Path], list[str]]:
    """Draw what there are results for; say what cannot be drawn."""
    files: list[Path] = []
    jobs = (
        ("figure-1", draw_heat_maps, (grids, "uci/australian")),
        ("figure-2", draw_ellipses, ()),
        ("figure-3", draw_curves, (grids,)),
    )
    for name, function, arguments in jobs:
        path = output / f"{name}.png"
        try:
            done = function(*arguments, path)
        except MissingPackageError as error:
            return files, [f"figures not drawn: {error}"]
        files += [path] if done else []
    return files, []


def draw_heat_maps(grids: Grids, dataset: str, path: Path) -> bool:
    """Draw Fig. 1: accuracy over C and gamma, one picture for each kernel."""
    labels = [label for label in FIGURE_1 if (dataset, label) in grids]
    if not labels:
        return False
    figure = new_figure(3.1 * len(labels) + 1, 3.6)
    panels = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
    means = [np.mean(grids[dataset, label], axis=0) for label in labels]
    low, high = min(m.min() for m in means), max(m.max() for m in means)
    for ax, label, mean in zip(panels, labels, means, strict=True):
        image = ax.imshow(mean, origin="lower", vmin=low, vmax=high, cmap="viridis")
        ax.set_title(f"{label}{'' if label.endswith('RBF') else ' RBF'}")
        ax.set_xlabel("log₁₀ γ")
        ax.set_xticks(range(mean.shape[1]), range(-5, -5 + mean.shape[1]))
        ax.set_yticks(range(mean.shape[0]), range(-1, -1 + mean.shape[0]))
    panels[0].set_ylabel("log₁₀ C")
    figure.colorbar(image, ax=panels, label="accuracy")
    figure.suptitle(f"Accuracy over the grid, {dataset.removeprefix('uci/')}")
    figure.savefig(path, dpi=STYLE["figure.dpi"])
    return True


def draw_ellipses(path: Path) -> bool:
    """Draw Fig. 2: the Gaussians that rows stand for, on two classes of Iris."""
    from sklearn.datasets import load_iris

    from kaucus import ClusterRBFSVC

    X, y = load_iris(return_X_y=True)
    X, y = X[y < 2, :2], y[y < 2]
    model = ClusterRBFSVC(random_state=0).fit(X, y)
    cells = np.asarray(model.partition_(X))
    identity = np.eye(2) * np.trace(np.cov(X.T)) / 2
    shapes = {
        "RBF: Σ = σ²I": [identity] * 2,
        "Mahalanobis RBF: Σ = cov(X)": [np.cov(X.T)] * 2,
        "C₂ RBF: Σ of each cluster": list(model.covariances_),
    }
    figure = new_figure(12, 4)
    for ax, (title, pair) in zip(
        figure.subplots(1, 3, sharex=True, sharey=True), shapes.items(), strict=True
    ):
        local = title.startswith("C")
        for i in (0, 1):
            rows = X[cells == i]
            ax.plot(*rows.T, "o", ms=3, color=COLOURS[i] if local else "0.4")
            for row in rows[::6]:
                ax.plot(*ellipse(row, pair[i]), color=COLOURS[i] if local else "0.4")
        if local:
            _draw_boundary(ax, model)
        ax.set_title(title)
        ax.set_xlabel("sepal length (cm)")
        ax.set_aspect("equal")
    figure.axes[0].set_ylabel("sepal width (cm)")
    figure.savefig(path, dpi=STYLE["figure.dpi"])
    return True


def ellipse(center: np.ndarray, covariance: np.ndarray, radius: float = 0.4) -> Any:
    """Return x and y of {v : (v − c)ᵀ Σ⁻¹ (v − c) = radius²}."""
    angles = np.linspace(0, 2 * np.pi, 60)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    return center[:, None] + radius * np.linalg.cholesky(covariance) @ circle


def _draw_boundary(ax: Any, model: Any) -> None:
    a, b = model.partition_.centers
    middle, along = (a + b) / 2, np.array([-(b - a)[1], (b - a)[0]])
    ends = np.stack([middle - 1.6 * along, middle + 1.6 * along])
    ax.plot(*ends.T, color="black", lw=1.5, label="border of the clusters")
    ax.legend()


def draw_curves(grids: Grids, path: Path) -> bool:
    """Draw Fig. 3: P_f(α) of each data set."""
    datasets = list(dict.fromkeys(dataset for dataset, _ in grids))
    columns = min(3, len(datasets))
    rows = -(-len(datasets) // columns)
    figure = new_figure(4.4 * columns, 3.4 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, dataset in zip(panels, datasets, strict=False):
        labels = [label for label in FIGURE_3 if (dataset, label) in grids]
        means = [np.mean(grids[dataset, label], axis=0) for label in labels]
        lower = min((mean.min() for mean in means), default=0.0)
        for colour, label, mean in zip(COLOURS, labels, means, strict=False):
            TunabilityDisplay.from_scores(
                mean, lower=lower, name=label, ax=ax, color=colour
            )
        ax.set_title(dataset.removeprefix("uci/"))
        ax.legend(fontsize=8)
        ax.set_ylabel("share of the grid ≥ α")
    for ax in panels[len(datasets) :]:
        ax.set_axis_off()
    figure.savefig(path, dpi=110)
    return True
