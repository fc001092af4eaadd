"""KernelOutlierDetector: a density without witnesses of their own, and a threshold."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.metrics import roc_auc_score

from kaucus import KernelOutlierDetector
from kaucus.kernels import Gaussian
from tests.arrays import array, assert_close
from tests.reference.kernel_density import log_density


@pytest.fixture
def ring(rng):
    """400 rows on a ring, and, at the end, ten near its middle."""
    angle = rng.uniform(0, 2 * np.pi, size=400)
    rows = np.c_[np.cos(angle), np.sin(angle)] + 0.05 * rng.normal(size=(400, 2))
    return np.concatenate([rows, 0.3 * rng.uniform(-1, 1, size=(10, 2))])


def fitted(X, *args, random_state=0, **options):
    return KernelOutlierDetector(random_state=random_state, **options).fit(X, *args)


@pytest.mark.parametrize("scale_columns", ["auto", False])
def test_scores_are_the_logarithms_of_the_density(ring, scale_columns):
    model = fitted(ring, n_representatives=25, scale_columns=scale_columns)
    points, kernel = model.representatives_, model.kernel_
    rows = ring[::40]
    if scale_columns == "auto":
        points, rows = kernel.row_map(points), kernel.row_map(rows)
    weights = model.representative_weights_
    assert weights.sum() == pytest.approx(1)
    expected = [log_density(x, points, weights, kernel.gamma) for x in rows]
    assert_close(model.score_samples(ring[::40]), expected, rtol=1e-9)


def test_a_representative_counts_a_row_less_than_it_stands_for(ring):
    model = fitted(ring, n_representatives=25, gamma=5.0)
    distances = np.linalg.norm(ring[:, None] - model.representatives_[None], axis=2)
    counts = np.bincount(distances.argmin(axis=1), minlength=len(distances[0]))
    # The last step moved the centres, and a few rows to another one.
    expected = (counts - 1) / (counts - 1).sum()
    assert_close(model.representative_weights_, expected, rtol=0, atol=0.02)
    # 30 rows at one place have a centre for every three; a row alone has one too.
    rows = np.concatenate([np.repeat(ring[:10], 30, axis=0), [[50.0, 50.0]]])
    lonely = fitted(rows, n_representatives=100, gamma=1.0)
    assert np.abs(lonely.representatives_).max() < 2


def test_an_outlier_in_the_middle_of_a_ring(ring):
    outlier = np.arange(410) >= 400
    scores = fitted(ring).score_samples(ring)
    assert roc_auc_score(outlier, -scores) > 0.95


def test_the_width_follows_the_rows(ring):
    plain, wide = (fitted(s * ring, scale_columns=False) for s in (1, 1000))
    assert wide.kernel_.gamma == pytest.approx(plain.kernel_.gamma / 1000)
    squares = fitted(ring, scale_columns=False, kernel="rbf")
    assert squares.kernel_.gamma == pytest.approx(plain.kernel_.gamma**2 / 4)


def test_units_of_columns_and_wild_values_change_little(ring):
    expected = fitted(ring).score_samples(ring)
    units = ring * [1e-3, 1e5] + [7, -2e6]
    assert_close(fitted(units).score_samples(units), expected, rtol=1e-6)
    wild = np.concatenate([ring, [[1e7, 0.0]]])
    model = fitted(wild)
    assert model.predict(wild)[-1] == -1
    scales = [m.kernel_.row_map.scale for m in (model, fitted(ring))]
    assert_close(scales[0], scales[1], rtol=0.5)


@pytest.mark.parametrize("contamination", [0.02, 0.1, 0.5])
def test_the_share_of_outliers_is_contamination(ring, contamination):
    found = fitted(ring, contamination=contamination).predict(ring)
    assert (found == -1).sum() == int(contamination * len(ring))


def test_without_it_the_threshold_is_tukeys_fence(ring):
    model = fitted(ring)
    low, high = np.quantile(model.score_samples(ring), [0.25, 0.75])
    assert model.offset_ == pytest.approx(low - 1.5 * (high - low), abs=0.05)
    assert_close(
        model.decision_function(ring), model.score_samples(ring) - model.offset_
    )


def test_weights_are_ratios_and_zero_is_absence(ring, rng):
    weight = rng.uniform(0.5, 2, size=len(ring))
    expected = fitted(ring, None, weight)
    scaled = fitted(ring, None, 1000 * weight)
    assert_close(scaled.score_samples(ring), expected.score_samples(ring), rtol=1e-6)
    assert scaled.offset_ == pytest.approx(expected.offset_)
    more = np.concatenate([ring, [[40.0, 40.0]] * 30])
    absent = fitted(more, None, np.append(np.ones(410), np.zeros(30)))
    assert absent.score_samples([[40.0, 40.0]]) < absent.score_samples(ring).min()
    ones = fitted(ring, None, np.ones(410))
    assert_close(ones.score_samples(ring), fitted(ring).score_samples(ring), rtol=1e-6)


def test_rows_of_any_kind(ring, xp, dtype):
    rows = array(xp, ring.astype(dtype))
    expected = fitted(ring).score_samples(ring)
    found = fitted(rows).score_samples(rows)
    assert type(found) is type(rows)
    tolerance = {"float64": 1e-8, "float32": 0.2}[dtype]
    assert_close(found, expected, rtol=0, atol=tolerance)


def test_sparse_rows_frames_and_dask(ring):
    rows = np.maximum(ring, 0)
    model = fitted(scipy.sparse.csr_array(rows))
    found = model.score_samples(scipy.sparse.csr_array(rows))
    assert_close(found, model.score_samples(rows), rtol=1e-9)
    frame = pd.DataFrame(ring, columns=["a", "b"])
    assert list(fitted(frame).feature_names_in_) == ["a", "b"]
    da = pytest.importorskip("dask.array")
    parts = da.from_array(ring, chunks=(100, 2))
    model = fitted(parts)
    outlier = np.arange(410) >= 400
    assert isinstance(model.predict(parts), da.Array)
    assert roc_auc_score(outlier, -model.score_samples(parts).compute()) > 0.95


def test_batches_are_the_rows(ring):
    model = KernelOutlierDetector(random_state=0)
    model.fit_batches(lambda: iter(np.array_split(ring, 3)))
    outlier = np.arange(410) >= 400
    assert roc_auc_score(outlier, -model.score_samples(ring)) > 0.95


def test_equal_rows_and_few_rows():
    same = np.ones((20, 3))
    assert (fitted(same).predict(same) == 1).all()
    two = fitted(np.array([[0.0], [1.0]]))
    assert np.isfinite(two.score_samples([[0.5]])).all()


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"contamination": 0.6}, "contamination=0.6 must be"),
        ({"contamination": 0}, "contamination=0 must be"),
        ({"kernel": "poly"}, "kernel='poly' does not fall with the distance"),
        ({"kernel": lambda X, Y: X @ Y.T}, "does not fall with the distance"),
        ({"gamma": "wide"}, "gamma='wide' must be"),
        ({"n_representatives": 0}, "n_representatives=0 must be"),
        ({"scale_columns": "yes"}, "scale_columns='yes' must be"),
    ],
)
def test_errors(ring, params, match):
    with pytest.raises(ValueError, match=match):
        KernelOutlierDetector(**params).fit(ring)


def test_a_kernel_object_keeps_its_width(ring):
    model = fitted(ring, kernel=Gaussian(gamma=3.0), scale_columns=False)
    assert model.kernel_.gamma == 3.0
