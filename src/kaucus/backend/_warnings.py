"""Warnings that point at the user's own line, however deep the code is that warns."""

import sys
import warnings
from types import FrameType

# Packages between a user's line and the code that warns: ours, those that call our
# estimators (pipelines, searches, workers), and the parts of Python that they use.
_PASSED_OVER = {
    "concurrent",
    "contextlib",
    "copy",
    "functools",
    "joblib",
    "kaucus",
    "pickle",
    "sklearn",
    "threading",
}


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning at the line of the user that led to it.

    That is the innermost frame outside this package, scikit-learn and joblib. In a
    worker thread or process, where there is none, it is the frame that called us.

    Parameters
    ----------
    message : str
    category : type of Warning

    Notes
    -----
    ``warnings.warn(skip_file_prefixes=...)`` does the like, from Python 3.12 on.
    """
    frame = _users_frame()
    where = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=where.get("__name__", "<unknown>"),
        # By it Python knows which warnings of this place it has shown already.
        registry=where.setdefault("__warningregistry__", {}),
    )


def _users_frame() -> FrameType:
    """Return the frame of the line to warn at."""
    caller = sys._getframe(1)
    while _package(caller) == "kaucus" and caller.f_back is not None:
        caller = caller.f_back
    frame = caller
    while _package(frame) in _PASSED_OVER:
        if frame.f_back is None:
            return caller
        frame = frame.f_back
    return frame


def _package(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]
