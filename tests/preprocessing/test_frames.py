"""Columns as numbers: the same from every library, and blind to their own targets."""

import datetime

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kaucus.preprocessing.frames import MOST_LEVELS, FrameEncoder, columns_of

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")


def folds_of(n, n_folds=5):
    judged = np.array_split(np.arange(n), n_folds)
    return [(np.setdiff1d(np.arange(n), j), j) for j in judged]


def frame(n=200, seed=0):
    rng = np.random.default_rng(seed)
    days = pandas.date_range("2024-01-01", periods=n, freq="7h")
    return pandas.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "count": rng.integers(0, 9, n),
            "new": rng.random(n) < 0.5,
            "kind": rng.choice(["a", "b", "c", None], n),
            "shop": rng.choice([f"shop {i}" for i in range(50)], n),
            "sold": days,
            "told": days.astype(str),
        }
    )


def fitted(X, y=None, folds=None):
    y = np.arange(len(X), dtype=float) if y is None else y
    encoder = FrameEncoder()
    found = encoder.fit(X, list(X.columns), y[:, None], folds or folds_of(len(X)))
    return encoder, *found


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert_allclose(a, b, rtol=1e-12, atol=1e-12)


# ---- kinds of frames -------------------------------------------------------------


def as_polars(X):
    return polars.from_pandas(X)


def as_objects(X):
    return X.to_numpy(dtype=object)


def as_nullable(X):
    return X.convert_dtypes()


def as_categories(X):
    return X.astype({"kind": "category", "shop": "category"})


def with_zone(X):
    there = X["sold"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    return X.assign(sold=there, told=X["told"] + "Z")


@pytest.mark.parametrize(
    "change", [as_polars, as_objects, as_nullable, as_categories, with_zone]
)
def test_the_same_columns_in_another_form_are_the_same_numbers(change):
    X = frame()
    encoder, *_ = fitted(X)
    expected = encoder.transform(X)
    assert_same(encoder.transform(change(X)), expected)
    other = FrameEncoder()
    y = np.arange(len(X), dtype=float)[:, None]
    other.fit(change(X), list(X.columns), y, folds_of(len(X)))
    assert_same(other.transform(X), expected)


def test_parts_of_a_frame_are_parts_of_its_numbers():
    X = frame()
    encoder, *_ = fitted(X)
    whole = encoder.transform(X)
    for rows in (slice(0, 1), slice(7, 30)):
        assert_same(encoder.transform(X[rows]), [M[rows] for M in whole])


def test_neither_kind_of_frame_is_imported_for_arrays():
    X = np.arange(12.0).reshape(4, 3)
    assert [c.tolist() for c in columns_of(X)] == X.T.tolist()


# ---- what becomes of a column ----------------------------------------------------


def test_gaps_are_medians_with_a_mark_for_kernels_and_gaps_for_trees():
    X = pandas.DataFrame({"x": [1.0, np.nan, 3.0, 8.0]})
    encoder, dense, gappy = fitted(X)
    assert dense[1, 0] == 0.0
    assert_allclose(dense[:, 1], [0, 1, 0, 0])
    assert_allclose(gappy[:, 0], X["x"])
    assert_allclose(
        np.diff(dense[[0, 2, 3], 0]), np.array([2, 5]) / encoder.columns[0].spread
    )


def test_a_level_that_fit_has_not_seen_is_known_as_such():
    X = frame()[["kind"]]
    encoder, dense, _ = fitted(X)
    assert dense.shape[1] == 4  # a, b, c and the gap
    new = pandas.DataFrame({"kind": ["a", "z", None]})
    dense, gappy = encoder.transform(new)
    assert (dense != 0).sum(axis=1).tolist() == [1, 0, 1]
    assert np.isnan(gappy[:, 0]).tolist() == [False, True, True]


@pytest.mark.parametrize("n_levels", [2, 3, MOST_LEVELS, MOST_LEVELS + 1, 100])
def test_few_levels_are_columns_and_many_are_statistics(n_levels):
    X = pandas.DataFrame({"x": [f"level {i % n_levels}" for i in range(300)]})
    encoder, dense, gappy = fitted(X)
    many = n_levels > MOST_LEVELS
    one_hot = 1 if n_levels == 2 else n_levels
    assert dense.shape[1] == (2 if many else one_hot)
    assert gappy.shape[1] == (2 if many else 1)
    assert encoder.n_categories == (0 if many else 1)
    assert len(encoder.labels) == dense.shape[1]


def test_statistics_of_levels_do_not_know_the_targets_of_their_own_fold():
    X, rng = frame(400)[["shop"]], np.random.default_rng(1)
    y, folds = rng.normal(size=400), folds_of(400)
    _, _, before = fitted(X, y, folds)
    for _, judge in folds:
        changed = y.copy()
        changed[judge] += rng.normal(size=len(judge)) + 5
        _, _, after = fitted(X, changed, folds)
        assert_allclose(before[judge], after[judge])
        others = np.setdiff1d(np.arange(400), judge)
        assert not np.allclose(before[others], after[others])


def test_a_level_of_one_row_tells_nothing_of_its_fold():
    """Means of the other folds would: they are low where a fold's targets are high."""
    X = pandas.DataFrame({"name": [f"name {i}" for i in range(100)]})
    _, _, gappy = fitted(X, np.arange(100.0))
    assert (gappy == gappy[0]).all()


def test_an_offset_of_the_targets_changes_no_statistic():
    X, y = frame()[["shop"]], np.random.default_rng(2).normal(size=200)
    _, dense, gappy = fitted(X, y)
    _, other, scaled = fitted(X, 3 * y + 100)
    assert_allclose(other, dense, rtol=1e-9, atol=1e-9)
    assert_allclose(scaled[:, 0], 3 * gappy[:, 0], rtol=1e-9, atol=1e-9)


def test_parts_of_dates_are_those_of_the_calendar():
    days = pandas.date_range("2023-12-30 22:30", periods=50, freq="31h").to_series()
    X = pandas.DataFrame({"day": days.where(np.arange(50) != 4)})
    _, dense, gappy = fitted(X)
    time, year, month, day, weekday, hour = gappy.T
    part = X["day"].dt
    assert_allclose(time * 86400, (X["day"] - pandas.Timestamp(0)).dt.total_seconds())
    assert_allclose(year, part.year)
    assert_allclose(month, part.month)
    assert_allclose(day, part.day)
    assert_allclose(weekday, part.day_of_week)
    assert_allclose(hour, part.hour + part.minute / 60)
    assert dense.shape[1] == 7  # one mark of gaps for all parts
    assert np.isfinite(dense).all()


def test_days_without_a_time_have_no_hour():
    X = pandas.DataFrame({"day": [datetime.date(2024, 1, d) for d in range(1, 29)]})
    _, _, gappy = fitted(X)
    assert gappy.shape[1] == 3  # time, day, weekday: year and month do not differ


def test_a_constant_column_and_an_empty_one_are_no_columns():
    X = frame().assign(one=1.0, same="x")
    _, *expected = fitted(frame())
    _, *found = fitted(X)
    assert_same(found, expected)
    with pytest.warns(UserWarning, match="without any value are ignored: 'empty'"):
        encoder, *found = fitted(frame().assign(empty=None))
    assert_same(found, expected)
    filled = frame().assign(empty="anything")
    assert_same(encoder.transform(filled), encoder.transform(frame().assign(empty=1)))


# ---- other types in new rows -----------------------------------------------------


def test_values_of_another_type_are_converted_where_they_can_be():
    X = pandas.DataFrame({"n": [1.0, 2.0, 3.0], "c": ["1", "2", "x"]})
    encoder, *_ = fitted(X, folds=folds_of(3, 3))
    expected = encoder.transform(X)
    assert_same(encoder.transform(X.astype({"n": str})), expected)
    whole = pandas.DataFrame({"n": [1, 2, 3], "c": [1.0, 2.0, np.nan]})
    dense, _ = encoder.transform(whole)
    assert_allclose(dense[:2], expected[0][:2])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("size", "big", r"'size' of X has 'big' in row 5.* was of numbers in fit"),
        ("sold", "soon", r"'sold' of X has 'soon' in row 5.* was of dates in fit"),
        ("sold", "31/12/2024", r"'sold' of X has '31/12/2024' in row 5"),
        ("size", np.inf, r"'size' of X contains infinity in row 5"),
        ("size", -1e200, r"'size' of X contains -1e\+200 in row 5"),
    ],
)
def test_what_cannot_be_converted_is_named_with_column_and_row(column, value, message):
    X = frame()
    encoder, *_ = fitted(X)
    odd = X.astype({column: object})
    odd.loc[5, column] = value
    if column == "sold":
        odd[column] = odd[column].map(str)
    with pytest.raises(ValueError, match=message):
        encoder.transform(odd)


def test_numbers_in_a_column_of_dates_are_refused():
    encoder, *_ = fitted(frame())
    with pytest.raises(ValueError, match=r"'sold' of X has 1.* in row 0.*of dates"):
        encoder.transform(frame().assign(sold=1.0))
