"""What type checkers say of a user's script, and of the code of the first pages."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests" / "typing" / "users_script.py"
# As a user runs them: the package is found as installed ones are.
CHECKERS = {
    "basedpyright": ["--level", "error", "--pythonpath", sys.executable],
    "pyright": ["--level", "error", "--pythonpath", sys.executable],
    "mypy": [
        "--follow-imports=silent",
        "--ignore-missing-imports",  # scikit-learn has no types
        "--warn-unused-ignores",
        "--check-untyped-defs",
        f"--python-executable={sys.executable}",
    ],
}


def code_of(page):
    """Return the Python blocks of a page, one after another."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.M))


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_users_code_has_the_errors_that_are_meant(checker, tmp_path):
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"no {checker} here")
    (tmp_path / "script.py").write_text(SCRIPT.read_text(encoding="utf-8"))
    for page in ("README.md", "docs/index.md", "docs/start/five-minutes.md"):
        name = page.replace("/", "_").replace("-", "_").removesuffix(".md") + ".py"
        (tmp_path / name).write_text(code_of(page))
    files = [path.name for path in tmp_path.iterdir()]
    source = str(ROOT / "src")
    options = {"typeCheckingMode": "basic", "enableTypeIgnoreComments": True}
    options |= {"extraPaths": [source], "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(options))
    done = subprocess.run(
        [sys.executable, "-m", checker, *CHECKERS[checker], *files],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
