"""The machine's description."""

import json
import sys

from kaucus import __version__
from kaucus.evaluation import describe_machine, run_isolated


def torch_is_loaded_by_the_description():
    describe_machine()
    return "torch" in sys.modules


def test_the_description_fits_into_json_and_names_versions():
    machine = json.loads(json.dumps(describe_machine(gpu="a card")))
    assert machine["gpu"] == "a card"
    assert machine["cores"] >= 1
    assert machine["versions"]["kaucus"] == __version__
    assert {"numpy", "scipy", "scikit-learn"} <= set(machine["versions"])


def test_the_description_does_not_import_torch():
    assert not run_isolated(torch_is_loaded_by_the_description).result
