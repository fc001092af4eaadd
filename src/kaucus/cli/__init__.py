"""Arguments in, calls of experiments and estimators out; no logic."""
