"""The examples of the documentation run, on whatever there is."""

import re
from pathlib import Path

import pytest

import kaucus

DOCS = Path(kaucus.__file__).parents[2] / "docs"


@pytest.mark.skipif(not DOCS.is_dir(), reason="installed without its documentation")
def test_the_examples_for_a_gpu():
    torch = pytest.importorskip("torch")
    text = (DOCS / "gpu.md").read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    assert "to_device" in program
    if not torch.cuda.is_available():
        program = program.replace('"cuda"', '"cpu"')
    exec(compile(program, "docs/gpu.md", "exec"), {})
