"""compare_kernels: what it shows, what it picks, and what it never looks at."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import silhouette_score

from kaucus.datasets import make_rings
from kaucus.evaluation import clustering_accuracy, compare_kernels, default_kernels
from kaucus.evaluation.clustering import format_table
from kaucus.kernels import Gaussian
from papers.datasets import load_shapes

QUICK = {"n_init": 6, "n_subsamples": 3, "random_state": 0}


@pytest.fixture(scope="module")
def rings():
    return make_rings(120, random_state=0)


@pytest.fixture(scope="module")
def compared(rings):
    X, y = rings
    return compare_kernels(X, 2, ["linear", "rbf", "cauchy"], y, **QUICK)


def named(compared, name):
    return next(one for one in compared.scores if one.name == name)


def test_a_linear_kernels_numbers_are_those_of_k_means(rings, compared):
    X, y = rings
    one = named(compared, "linear")
    means = np.array([X[one.labels == c].mean(axis=0) for c in range(2)])
    inertia = ((X - means[one.labels]) ** 2).sum()
    scatter = ((X - X.mean(axis=0)) ** 2).sum()
    largest = np.linalg.eigvalsh(np.cov(X.T) * (len(X) - 1))[-1]
    assert_allclose(one.objective, inertia, rtol=1e-9)
    assert_allclose(one.explained, 1 - inertia / scatter, rtol=1e-9)
    assert_allclose(one.tightness, (scatter - inertia) / largest, rtol=1e-9)
    assert_allclose(one.silhouette, silhouette_score(X, one.labels), rtol=1e-9)
    assert one.accuracy == clustering_accuracy(y, one.labels)
    assert_allclose(one.score, one.tightness * one.stability)


def test_what_has_no_units_does_not_change_with_them(rings):
    X, _ = rings
    K = Gaussian(0.3)(X)
    a, b = compare_kernels(X, 2, {"a": K, "b": 1000 * K + 5}, **QUICK).scores
    assert_allclose(b.objective, 1000 * a.objective, rtol=1e-6)
    for name in ("explained", "tightness", "stability", "silhouette"):
        assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-6)


def test_tightness_is_one_for_separate_clusters_and_never_more():
    X = np.repeat([[0.0, 0], [1, 5], [7, 2]], 20, axis=0)
    X += 1e-4 * np.random.default_rng(0).normal(size=X.shape)
    scores = compare_kernels(X, 3, **QUICK).scores
    assert all(one.tightness <= 1 for one in scores)
    assert named_max(scores) > 0.999


def named_max(scores):
    return max(one.tightness for one in scores)


def test_classes_add_columns_and_change_nothing_else(rings, compared):
    X, _ = rings
    blind = compare_kernels(X, 2, ["linear", "rbf", "cauchy"], **QUICK)
    assert blind.best.name == compared.best.name
    for a, b in zip(blind.scores, compared.scores, strict=True):
        assert_array_equal(a.labels, b.labels)
        assert a.score == b.score
        assert a.accuracy is None
    assert "accuracy" not in blind.columns()
    assert "accuracy" in compared.columns()


def test_a_narrow_kernel_that_knows_nothing_is_not_picked(rng):
    y = np.arange(100) % 2
    X = rng.normal(size=(100, 2)) + 6 * y[:, None]
    kernels = {"identity": Gaussian(1e6), "rbf": Gaussian(0.05)}
    result = compare_kernels(X, 2, kernels, y, **QUICK)
    assert result.best.name == "rbf"
    assert result.best.accuracy == 1.0
    assert named(result, "identity").stability < 0.3
    assert named(result, "identity").tightness > 0.9  # tightness alone would fail


def path_matrix(X):
    """exp(−m / median) of the longest step m of the best path between two rows."""
    steps = cophenet(linkage(X, "single"))
    return np.exp(-squareform(steps) / np.median(steps))


@pytest.mark.parametrize("consensus", ["average", "coassociation"])
def test_a_consensus_of_good_kernels_is_good(rings, consensus):
    X, y = rings
    K = path_matrix(X)
    kernels = {"wide": K, "middle": K**2, "narrow": K**4}
    result = compare_kernels(X, 2, kernels, y, consensus=consensus, **QUICK)
    assert len(result.scores) == 4
    assert result.scores[-1].name == f"consensus ({consensus})"
    assert result.scores[-1].accuracy == 1.0
    assert result.consensus is result.scores[-1]
    assert result.best is not result.consensus


def test_tables_as_text_and_as_a_data_frame(compared):
    pandas = pytest.importorskip("pandas")
    frame = compared.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["score"]) == sorted(frame["score"], reverse=True)
    assert frame["name"][0] == compared.best.name
    text = str(compared)
    assert text.splitlines()[0].split() == list(compared.columns())
    assert len(text.splitlines()) == 2 + len(frame)
    assert format_table(["a"], [[1]])  # the same tables as everywhere


def test_many_rows_are_sampled(rings):
    X, y = rings
    result = compare_kernels(X, 2, ["rbf"], y, max_samples=50, **QUICK)
    assert result.rows is not None
    assert len(result.rows) == len(result.best.labels) == 50


def test_a_range_of_numbers_of_clusters_is_a_table_over_it(rng):
    centers = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    X = centers[np.arange(90) % 3] + rng.normal(size=(90, 2))
    many = compare_kernels(X, range(2, 5), ["linear", "rbf"], **QUICK)
    assert [(one.name, one.n_clusters) for one in many.scores] == [
        (name, k) for name in ("linear", "rbf") for k in (2, 3, 4)
    ]
    alone = compare_kernels(X, 3, ["linear", "rbf"], **QUICK)
    by_number = many.best_by_n_clusters
    assert by_number[3].score == alone.best.score
    assert_array_equal(by_number[3].labels, alone.best.labels)
    assert many.best.n_clusters == 3
    assert many.columns()[:2] == ("name", "n_clusters")
    lines = str(many).splitlines()
    assert len(lines) == (2 + 6) + 2 + (2 + 3)
    assert lines[10].split() == [
        "n_clusters",
        "name",
        "tightness",
        "stability",
        "score",
    ]
    assert compare_kernels(X, np.array([3]), ["rbf"], **QUICK).best.n_clusters == 3


def test_progress_is_shown_on_a_terminal_and_in_a_log(rings, capsys, monkeypatch):
    compare_kernels(rings[0], 2, ["rbf"], verbose=1, **QUICK)
    assert "kernel 1 of 1 in " in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    compare_kernels(rings[0], 2, ["rbf", "linear"], verbose=1, **QUICK)
    assert "kernel 1 of 2" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["n_init", "n_subsamples", "max_samples"])
def test_counts_are_checked(rings, name):
    with pytest.raises(ValueError, match=f"{name}=0 must be a whole number, 1 or more"):
        compare_kernels(rings[0], 2, ["rbf"], **(QUICK | {name: 0}))


def test_the_default_kernels_have_all_families(rings):
    names = list(default_kernels(rings[0]))
    for family in ("linear", "poly", "rbf", "exponential", "cauchy"):
        assert any(name.startswith(family) for name in names)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n_clusters": 1}, "n_clusters=1 must be a whole number, or several, from 2"),
        ({"n_clusters": 2.5}, "n_clusters=2.5 must be a whole number, or several"),
        ({"n_clusters": None}, "n_clusters=None must be a whole number, or several"),
        ({"n_clusters": "all"}, "n_clusters='all' must be a whole number, or several"),
        ({"n_clusters": []}, r"n_clusters=\[\] must be a whole number, or several"),
        ({"n_clusters": range(1, 4)}, r"range\(1, 4\) must be a whole number, or sev"),
        ({"n_clusters": [2, 3], "consensus": "average"}, "for one number of clusters"),
        ({"n_clusters": 120}, "n_samples - 1 = 119"),
        ({"consensus": "vote"}, "consensus='vote' must be one of"),
        ({"kernels": []}, "kernels is empty"),
        ({"kernels": {"K": np.eye(3)}}, r"shape \(3, 3\).*each of the 120"),
        ({"kernels": ["gauss"]}, "kernel='gauss' is not known"),
        ({"y": [0, 1]}, "y has 2 classes; expected one for each of the 120"),
    ],
)
def test_bad_input_is_refused(rings, change, match):
    arguments = {"n_clusters": 2, "kernels": ["rbf"], "y": None} | change
    with pytest.raises(ValueError, match=match):
        compare_kernels(rings[0], **arguments, **QUICK)


@pytest.mark.data
def test_spiral_is_solved_by_the_kernel_that_is_picked(data_home):
    X, y = load_shapes("spiral", data_home=data_home, return_X_y=True)
    kernels = {
        name: kernel
        for name, kernel in default_kernels(X).items()
        if not name.endswith(("×4", "×64"))
    }
    kernels["path"] = path_matrix(X)
    picked = compare_kernels(X, 3, kernels, y, **QUICK).best
    assert picked.name == "path"
    assert picked.accuracy == 1.0
