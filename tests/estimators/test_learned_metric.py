"""LearnedMetric, and ``learn_metric`` of the estimators."""

import pickle

import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from kaucus import (
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LearnedMetric,
    LSSVMClassifier,
    LSSVMRegressor,
)
from kaucus._array.namespace import dtype_name, to_numpy
from kaucus.kernels import MappedKernel, RowMap
from tests.arrays import array, assert_close

OPEN = {"C": "auto", "kernel": "auto", "gamma": "tune"}
QUICK = {"max_steps": 1, "kernel": "rbf", "random_state": 0}


def some_classes(n=240, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (np.abs(X[:, 2]) + 0.1 * rng.normal(size=n) > 0.7).astype(int)


def some_numbers(n=160, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 1]) + 0.05 * rng.normal(size=n)


@pytest.fixture(scope="module")
def classifier():
    X, y = some_classes(400)
    return KMeansKernelClassifier(random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def small_regressor():
    """With fewer representatives than rows, and hard rows among them."""
    X, y = some_numbers(400)
    options = {"kernel": "rbf", "learn_metric": True, "refine": 40}
    return KMeansKernelRegressor(60, random_state=0, **options).fit(X, y)


# ---- the transformer -----------------------------------------------------------------


def test_a_metric_helps_the_estimator_that_follows():
    X, y = some_classes(500, 10)
    neighbours = KNeighborsClassifier(15)
    plain = cross_val_score(neighbours, X, y, cv=3).mean()
    piped = make_pipeline(LearnedMetric(**QUICK), neighbours)
    assert cross_val_score(piped, X, y, cv=3).mean() > plain + 0.1


def test_attributes_say_what_was_learned():
    X, y = some_numbers()
    metric = LearnedMetric("diagonal", **QUICK).fit(X, y)
    assert metric.kind_ == "diagonal"
    assert metric.n_steps_ == 1
    assert metric.metric_.shape == metric.components_.shape == (6,)
    assert np.argmax(metric.feature_importances_) == 1
    assert_close(metric.feature_importances_.sum(), 1.0, rtol=1e-12, atol=0)
    lengths = {len(column) for column in metric.search_results_.values()}
    assert len(lengths) == 1
    full = LearnedMetric("full", **QUICK).fit(X, y)
    assert full.metric_.shape == (6, 6)
    assert_close(full.transform(X), full.row_map_(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_names_and_frames(kind):
    pd = pytest.importorskip("pandas")
    X, y = some_numbers()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    metric = LearnedMetric(kind, **QUICK).set_output(transform="pandas").fit(frame, y)
    out = metric.transform(frame)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == list(metric.get_feature_names_out())
    if kind == "diagonal":
        assert list(out.columns) == list("abcdef")
        with pytest.raises(ValueError, match="not those of fit"):
            metric.get_feature_names_out(["a", "b"])


def test_follows_the_library_and_precision_of_the_rows(xp, dtype):
    X, y = some_numbers(80, 4)
    metric = LearnedMetric("full", **QUICK).fit(array(xp, X.astype(dtype)), y)
    Z = metric.transform(array(xp, X.astype(dtype)))
    assert type(Z) is type(array(xp, X))
    assert dtype_name(Z) == dtype
    expected = LearnedMetric("full", **QUICK).fit(X, y).transform(X)
    # A direction has no sign.
    tolerance = 1e-6 if dtype == "float64" else 2e-2
    distances = [
        np.linalg.norm(to_numpy(v)[1:] - to_numpy(v)[0], axis=1) for v in (Z, expected)
    ]
    assert_close(*distances, rtol=tolerance, atol=tolerance)


def test_sparse_rows_are_weighed_and_stay_sparse():
    rng = np.random.default_rng(0)
    X = scipy.sparse.csr_array(rng.poisson(0.4, size=(300, 12)).astype(float))
    y = (X.toarray()[:, 4] > 0).astype(int)
    metric = LearnedMetric(**QUICK).fit(X, y)
    Z = metric.transform(X)
    assert scipy.sparse.issparse(Z)
    assert Z.nnz <= X.nnz
    assert np.argmax(metric.feature_importances_) == 4
    with pytest.raises(ValueError, match=r"kind='full' mixes columns"):
        LearnedMetric("full", **QUICK).fit(X, y)


def test_several_outputs_and_weights():
    X, y = some_numbers()
    both = np.column_stack([y, np.cos(2 * X[:, 4])])
    metric = LearnedMetric("diagonal", **QUICK).fit(X, both, np.ones(len(y)))
    assert set(np.argsort(-metric.feature_importances_)[:2]) == {1, 4}


def test_whole_numbers_of_many_values_are_numbers():
    X, y = some_numbers(300)
    counts = np.round(100 * y).astype(int)
    metric = LearnedMetric("diagonal", **QUICK).fit(X, counts)
    assert np.argmax(metric.feature_importances_) == 1


def test_few_rows_are_only_scaled():
    X, y = some_numbers(40)
    metric = LearnedMetric(random_state=0).fit(X, y)
    assert metric.kind_ == "identity"
    assert_close(metric.transform(X).std(axis=0), np.ones(6), rtol=1e-9, atol=0)


def test_weights_can_be_routed():
    X, y = some_numbers()
    with sklearn.config_context(enable_metadata_routing=True):
        metric = LearnedMetric(**QUICK).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(metric, KNeighborsClassifier(3))
        pipeline.fit(X, (y > 0).astype(int), sample_weight=np.ones(len(y)))


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"kind": "some"}, "kind='some' must be one of"),
        ({"power": -1}, "power=-1 must be a positive"),
        ({"cv": 1}, "cv=1 must be"),
        ({"max_samples": 10}, "max_samples=10 must be"),
        ({"kernel": "gauss"}, "kernel='gauss' is not known"),
        ({"kernel": "cosine"}, "needs a kernel with a gradient"),
    ],
)
def test_bad_parameters_are_told_before_any_work(params, text):
    X, y = some_numbers(60)
    with pytest.raises(ValueError, match=text):
        LearnedMetric(**params).fit(X, y)


# ---- estimators that learn a metric --------------------------------------------------


def test_the_default_learns_a_metric_and_says_so(classifier):
    X, y = some_classes(400, seed=1)
    plain = KMeansKernelClassifier(learn_metric=False, random_state=0)
    assert isinstance(classifier.kernel_, MappedKernel)
    assert np.argmax(classifier.feature_importances_) == 2
    assert "column 2" in classifier.explain()
    assert classifier.score(X, y) > plain.fit(*some_classes(400)).score(X, y)


def test_every_row_is_given_back_as_it_came(classifier):
    X, _ = some_classes(400)
    given = {tuple(row) for row in X}
    assert all(tuple(row) in given for row in classifier.representatives_)


def test_representatives_are_in_the_columns_of_the_user(small_regressor):
    """Predictions are those of the kernel in the metric at these points."""
    X, _ = some_numbers(400)
    model = small_regressor
    assert model.representatives_.shape == (100, 6)
    hard = model.representatives_[-40:]
    assert np.array_equal(hard, X[model.hard_rows_])
    inside = np.abs(model.representatives_[:60]) <= np.abs(X).max()
    assert inside.all()
    values = model.kernel_(X, model.representatives_) @ model.dual_coef_
    assert_close(
        model.predict(X), (values + model.intercept_)[:, 0], rtol=1e-8, atol=1e-8
    )


def test_a_pickled_copy_predicts_the_same(small_regressor):
    X, _ = some_numbers(400)
    copy = pickle.loads(pickle.dumps(small_regressor))
    assert np.array_equal(copy.predict(X), small_regressor.predict(X))
    assert_close(copy.compress(1e-3).predict(X), copy.predict(X), rtol=0, atol=0.02)


@pytest.mark.parametrize("model", [KMeansKernelRegressor, LSSVMRegressor])
def test_a_given_kernel_means_the_distances_as_they_are(model):
    X, y = some_numbers(120)
    fitted = model(kernel="rbf", C="auto", gamma="tune", random_state=0).fit(X, y)
    assert not isinstance(fitted.kernel_, MappedKernel)
    with pytest.raises(AttributeError, match="no metric was learned"):
        _ = fitted.feature_importances_
    asked = clone(fitted).set_params(learn_metric=True).fit(X, y)
    assert isinstance(asked.kernel_, MappedKernel)
    assert asked.kernel_.name == "rbf"


def test_a_kernel_without_a_gradient_is_refused_at_once():
    X, y = some_numbers(60)
    model = KMeansKernelRegressor(kernel="cosine", learn_metric=True)
    with pytest.raises(ValueError, match="learn_metric=True needs a kernel with"):
        model.fit(X, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_and_precisions(xp, dtype):
    X, y = some_classes(120, 4)
    options = {"kernel": "rbf", "gamma": 0.1, "C": 10.0, "learn_metric": True}
    model = KMeansKernelClassifier(20, random_state=0, **options)
    model.fit(array(xp, X.astype(dtype)), y)
    probabilities = model.predict_proba(array(xp, X.astype(dtype)))
    assert dtype_name(probabilities) == dtype
    assert np.mean(to_numpy(model.predict(array(xp, X.astype(dtype)))) == y) > 0.85


def test_parts_of_the_rows_learn_a_metric_too():
    X, y = some_classes(300)
    options = {"kernel": "rbf", "learn_metric": True, "C": 10.0}
    model = KMeansKernelClassifier(40, random_state=0, **options)
    for part in np.array_split(np.arange(300), 3):
        model.partial_fit(X[part], y[part], classes=[0, 1])
    assert isinstance(model.kernel_, MappedKernel)
    new, labels = some_classes(400, seed=2)
    assert model.score(new, labels) > 0.85


@pytest.mark.slow
def test_rows_that_are_read_in_blocks_give_the_same_model():
    """A budget too small for a mapped copy: blocks are mapped whenever needed."""
    X, y = some_numbers(3000, 40)
    options = {"n_representatives": 30, "kernel": "rbf", "random_state": 0}
    options |= {"gamma": 0.02, "C": 10.0, "learn_metric": True}
    whole = KMeansKernelRegressor(**options).fit(X, y)
    blocks = KMeansKernelRegressor(memory_budget="3MiB", **options)
    fitted = blocks.fit(X, y)
    assert np.isfinite(fitted.predict(X)).all()
    assert fitted.score(X, y) > 0.9 * whole.score(X, y)


def test_a_column_of_nearly_all_variance_is_named():
    X, y = some_numbers(120)
    X[:, 3] *= 1e4
    model = KMeansKernelRegressor(learn_metric=False, random_state=0)
    with pytest.warns(UserWarning, match="Column 3 carries 100.00 % of the variance"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("hole", "seen"),
    [(None, "NaN"), ("red", "'red'"), ("a date", "could not be promoted")],
)
def test_gaps_texts_and_dates_name_the_class_that_takes_them(hole, seen):
    pd = pytest.importorskip("pandas")
    X, y = some_numbers(60)
    frame = pd.DataFrame(X).astype(object if hole == "red" else float)
    if hole == "a date":
        frame[2] = pd.date_range("2024-01-01", periods=60)
    else:
        frame.iloc[3, 2] = hole
    model = KMeansKernelRegressor(random_state=0)
    told = f"TableClassifier and TableRegressor take gaps.* Seen in X: .*{seen}"
    with pytest.raises(ValueError, match=told):
        model.fit(frame, y)


# ---- leave-one-out estimators --------------------------------------------------------


def test_the_search_of_all_learns_a_metric():
    X, y = some_classes(300)
    model = LSSVMClassifier(**OPEN, random_state=0).fit(X, y)
    assert np.argmax(model.feature_importances_) == 2
    assert model.best_score_ > 0.9
    assert "in a learned metric" in model.explain()
    new, labels = some_classes(300, seed=3)
    assert model.score(new, labels) > 0.85
    assert np.array_equal(model.X_fit_, X)


def test_best_score_is_the_leave_one_out_score_of_the_model():
    X, y = some_numbers(80)
    model = LSSVMRegressor(**OPEN, random_state=0).fit(X, y)
    errors = []
    for i in range(80):
        others = np.arange(80) != i
        K = model.kernel_(X[others])
        H = np.block(
            [
                [np.zeros((1, 1)), np.ones((1, 79))],
                [np.ones((79, 1)), K + np.eye(79) / model.C_],
            ]
        )
        b, *a = np.linalg.solve(H, np.concatenate([[0.0], y[others]]))
        errors.append((model.kernel_(X[[i]], X[others]) @ np.array(a))[0] + b - y[i])
    assert_close(model.best_score_, -np.mean(np.square(errors)), rtol=1e-4, atol=0)


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_the_score_that_is_asked_for_decides(scoring):
    X, y = some_classes(120)
    model = LSSVMClassifier(**OPEN, scoring=scoring, random_state=0).fit(X, y)
    assert np.isfinite(model.best_score_)
    assert model.search_results_["score"].max() <= 0


def test_auto_without_a_metric_is_a_plain_kernel():
    X, y = some_numbers(150)
    model = LSSVMRegressor(**OPEN, learn_metric=False).fit(X, y)
    assert not isinstance(model.kernel_, MappedKernel)
    assert set(model.search_results_["kernel"]) == {"exponential", "rbf"}
    assert model.score(X, y) > 0.8


def test_c_is_one_of_those_that_were_given():
    X, y = some_numbers(120)
    model = LSSVMRegressor(**OPEN | {"C": [0.5, 2.0]}, random_state=0).fit(X, y)
    assert model.C_ in (0.5, 2.0)


def test_a_word_for_gamma_means_the_mapped_rows():
    X, y = some_numbers(120)
    options = {"kernel": "rbf", "gamma": "scale", "C": 10.0, "learn_metric": True}
    model = KMeansKernelRegressor(random_state=0, **options)
    gammas = [clone(model).fit(unit * X, y).gamma_ for unit in (1.0, 1e4)]
    assert_close(gammas[0], gammas[1], rtol=0.5, atol=0)


@pytest.mark.parametrize("kernel", [3, None])
def test_a_kernel_that_is_no_name_is_refused(kernel):
    with pytest.raises(ValueError, match=f"kernel={kernel} must be 'auto' or the name"):
        LearnedMetric(kernel=kernel).fit(*some_numbers(60))


def test_given_widths_are_not_for_a_learned_metric():
    X, y = some_numbers(60)
    model = LSSVMRegressor(gamma=[0.1, 1.0], learn_metric=True)
    with pytest.raises(ValueError, match="are widths for the distances of X"):
        model.fit(X, y)


def test_where_no_metric_helps_the_words_say_so():
    X, y = some_numbers(120)
    options = {"kernel": "rbf", "learn_metric": True, "C": 1.0, "random_state": 0}
    model = KMeansKernelRegressor(**options).fit(X, y)
    assert "column 1" in model.explain()
    model.kernel_ = MappedKernel(model.kernel_.kernel, RowMap.identity(6))
    assert "all columns count alike" in model.explain()
