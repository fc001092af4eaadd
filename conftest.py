"""Doctests of a module that needs torch are collected only where torch is."""

import importlib.util

collect_ignore = []
if importlib.util.find_spec("torch") is None:
    collect_ignore.append("src/kaucus/backend/_torch.py")
