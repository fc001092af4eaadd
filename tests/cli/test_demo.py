"""The demonstration: what it compares, and that it draws."""

import pytest

import kaucus
from kaucus import _demo

pytestmark = pytest.mark.skipif(
    not hasattr(kaucus, "LSSVMClassifier"), reason="kaucus has no LSSVMClassifier"
)


def test_each_model_meets_the_same_data(monkeypatch):
    monkeypatch.setattr(_demo, "make_clouds_split", _demo.make_digits_split)
    rows = _demo.compare_models(repeats=1)
    results = [dict(zip(_demo.HEADERS, row, strict=True)) for row in rows]
    names = ["KMeansKernelClassifier", "LSSVMClassifier", "SVC"]
    assert [result["model"] for result in results] == names * 2
    assert all(float(result["accuracy"].split()[0]) > 97 for result in results)
    # Half of the digits: no class has more than the default number of representatives.
    assert [result["stored vectors"] for result in results[:2]] == ["898", "898"]
    assert int(results[2]["stored vectors"]) < 898


def test_a_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    path = _demo.draw_demo(tmp_path / "kaucus-demo.png")
    assert path.read_bytes().startswith(b"\x89PNG")
