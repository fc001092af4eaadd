"""Methods by name: parameters reach the estimator, or there is an error."""

import pytest
from sklearn.base import BaseEstimator
from sklearn.svm import SVC

from papers._registry import build_method


class Device(BaseEstimator):
    def __init__(self, C=1.0, device=None, memory_budget=None, random_state=None):
        self.C = C
        self.device = device
        self.memory_budget = memory_budget
        self.random_state = random_state


REGISTRY = {"svc": SVC, "device": lambda **params: Device(**params)}


def build(method, params=None, **options):
    return build_method(method, params or {}, methods=REGISTRY, **options)


def test_a_name_stands_for_a_class_or_a_function():
    assert type(build("svc", {"C": 7.0})) is SVC
    assert build("svc", {"C": 7.0}).C == 7.0
    assert type(build("device")) is Device


def test_settings_reach_the_estimator():
    model = build("device", device="cuda", seed=3, memory_budget="1GiB")
    assert (model.device, model.random_state, model.memory_budget) == (
        "cuda",
        3,
        "1GiB",
    )


def test_settings_that_are_not_given_leave_the_estimators_own():
    model = build("device", {"device": "cpu", "random_state": 5}, seed=3)
    assert (model.device, model.random_state) == ("cpu", 5)


@pytest.mark.parametrize("option", [{"device": "cuda"}, {"memory_budget": 100}])
def test_a_setting_that_cannot_act_is_an_error(option):
    name = next(iter(option))
    with pytest.raises(ValueError, match=f"{name}=.*'svc' has no such parameter"):
        build("svc", **option)


def test_an_unknown_method_is_an_error():
    with pytest.raises(ValueError, match="'knn' is not known; use one of device, svc"):
        build("knn")


def test_an_unknown_normalisation_is_an_error():
    with pytest.raises(
        ValueError, match="Preprocessing 'max' is not known; use one of fou"
    ):
        build("svc", normalize="max")


def test_unit_normalisation_comes_before_the_method():
    pipeline = build("device", normalize="unit", device="cpu")
    assert [name for name, _ in pipeline.steps] == ["unitnormalizer", "device"]
    assert pipeline[-1].device == "cpu"
