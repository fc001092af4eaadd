"""The description of a machine in a results file."""

import json
import sys

import pytest

from benchmarks._isolated import run_isolated
from kaucus import __version__
from papers import describe_machine


def torch_is_loaded_by_the_description():
    describe_machine()
    return "torch" in sys.modules


def test_the_description_fits_into_json_and_names_versions():
    machine = json.loads(json.dumps(describe_machine(gpu="a card")))
    assert machine["gpu"] == "a card"
    assert machine["cores"] >= 1
    assert machine["versions"]["kaucus"] == __version__
    assert {"numpy", "scipy", "scikit-learn"} <= set(machine["versions"])


@pytest.mark.slow
def test_the_description_does_not_import_torch():
    assert not run_isolated(torch_is_loaded_by_the_description).result
