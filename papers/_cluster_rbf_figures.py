"""Figures 1-3 of Czarnecki & Tabor."""

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from kaucus import ClusterRBFSVC
from kaucus._base import MissingPackageError
from kaucus.evaluation import TunabilityDisplay
from kaucus.evaluation.displays import COLOURS, figure_file
from papers._cluster_rbf_values import LOWER_END, Grids, Records, areas, grids_of
from papers._figures import SMALL

LABELS = ("RBF", "mRBF", "m2", "C2")


def draw_figures(records: Records, output: Path) -> tuple[list[Path], list[str]]:
    """Draw the figures for which there are results; say why there are none."""
    grids = grids_of(records)
    try:
        figures = (
            draw_heat_maps(records, "uci/australian", output / "figure-1.png"),
            draw_ellipses(output / "figure-2.png"),
            draw_curves(grids, output / "figure-3.png"),
        )
    except MissingPackageError as error:
        return [], [f"figures not drawn: {error}"]
    return [path for path in figures if path], []


def draw_heat_maps(records: Records, dataset: str, path: Path) -> Path | None:
    """Draw Fig. 1: accuracy over C and gamma, one panel for each kernel.

    A cross is where machines stopped before they converged, the larger the more.
    """
    labels = [label for label in LABELS if (dataset, label) in records]
    if not labels:
        return None
    grids = grids_of(records)
    means = [np.mean(grids[dataset, label], axis=0) for label in labels]
    low, high = min(m.min() for m in means), max(m.max() for m in means)
    n_across, n_down = min(2, len(labels)), -(-len(labels) // 2)
    with figure_file(path, 3.4 * n_across + 1, 3 * n_down + 0.6, **SMALL) as figure:
        panels = figure.subplots(n_down, n_across, squeeze=False)
        for ax, label, mean in zip(panels.flat, labels, means, strict=False):
            image = ax.imshow(mean, origin="lower", vmin=low, vmax=high, cmap="viridis")
            found = [r["detail"]["capped"] for r in records[dataset, label]]
            stopped = np.mean(found, axis=0)[:, : mean.shape[1]]
            down, across = np.nonzero(stopped)
            size = 12 * stopped[down, across]  # of ten machines, at most ten
            ax.scatter(across, down, s=size, marker="x", color="white", lw=1.2)
            ax.set_title(f"{label}{'' if label.endswith('RBF') else ' RBF'}")
            ax.set(xlabel="log₁₀ γ", ylabel="log₁₀ C")
            ax.set_xticks(range(mean.shape[1]), _powers(-8, mean.shape[1]))
            ax.set_yticks(range(mean.shape[0]), _powers(-1, mean.shape[0]))
        for ax in panels.flat:
            ax.set_visible(ax.has_data())
        figure.colorbar(image, ax=panels, label="accuracy")
        name = dataset.removeprefix("uci/")
        text = "× some of the ten machines did not converge; the larger, the more"
        figure.suptitle(f"Accuracy over the grid, {name} (Fig. 1)\n{text}")
    return path


def _powers(first: int, n: int) -> list[str]:
    """Return whole numbers as texts, with a minus sign."""
    return [str(first + k).replace("-", "−") for k in range(n)]


def draw_ellipses(path: Path) -> Path:
    """Draw Fig. 2: the Gaussians that rows stand for, on two classes of Iris."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y < 2, :2], y[y < 2]
    model = ClusterRBFSVC(random_state=0).fit(X, y)
    cells = np.asarray(model.partition_(X))
    identity = np.eye(2) * np.trace(np.cov(X.T)) / 2
    shapes = {
        "RBF: Σ = σ²I": [identity] * 2,
        "mRBF: Σ = cov(X)": [np.cov(X.T)] * 2,
        "C2 RBF: Σ of each cluster": list(model.covariances_),
    }
    with figure_file(path, 9, 3.7, **SMALL) as figure:
        figure.suptitle("Two classes of Iris: the Gaussians of some rows (Fig. 2)")
        panels = figure.subplots(1, 3, sharex=True, sharey=True)
        for ax, (title, pair) in zip(panels, shapes.items(), strict=True):
            local = title.startswith("C")
            for i in (0, 1):
                rows, colour = X[cells == i], COLOURS[i] if local else "0.4"
                ax.plot(*rows.T, "o", ms=3, color=colour)
                for row in rows[::6]:
                    ax.plot(*ellipse(row, pair[i]), color=colour)
            if local:
                _draw_boundary(ax, model)
            ax.set_title(title)
            ax.set_xlabel("sepal length (cm)")
            ax.set_aspect("equal")
        panels[0].set_ylabel("sepal width (cm)")
    return path


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


def draw_curves(grids: Grids, path: Path) -> Path:
    """Draw Fig. 3: P_f(α) of each data set, mean grid of the seeds."""
    datasets = list(dict.fromkeys(dataset for dataset, _ in grids))
    across = min(3, len(datasets))
    down = -(-len(datasets) // across)
    with figure_file(path, 3.2 * across, 2.8 * down + 0.4, **SMALL) as figure:
        figure.suptitle("P(α), the share of the grid with accuracy ≥ α (Fig. 3)")
        panels = figure.subplots(down, across, squeeze=False)
        for ax, dataset in zip(panels.flat, datasets, strict=False):
            labels = [label for label in LABELS if (dataset, label) in grids]
            means = [np.mean(grids[dataset, label], axis=0) for label in labels]
            for colour, label, mean in zip(COLOURS, labels, means, strict=False):
                display = TunabilityDisplay.from_scores(
                    mean, lower=LOWER_END, plot=False
                )
                display.auc = None  # that of Table 6 is the mean over the seeds
                area = np.mean(areas(grids, dataset, label, LOWER_END))
                display.plot(ax, name=f"{label}: {area:.3f}", color=colour)
            ax.set_title(dataset.removeprefix("uci/"))
            ax.legend(fontsize=8, title="area (Table 6)", title_fontsize=8)
            ax.set(xlabel="accuracy α", ylabel="P(α)")
        for ax in panels.flat:
            ax.set_visible(ax.has_data())
    return path
