"""Before any test: what is collected, and a switch that SciPy reads when imported."""

import importlib.util
import os

# scikit-learn's array API checks are skipped without it. The package itself never
# needs it: it hands SciPy no arrays but NumPy's.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Doctests of a module that needs torch are collected only where torch is.
collect_ignore = []
if importlib.util.find_spec("torch") is None:
    collect_ignore.append("src/kaucus/backend/_torch.py")
