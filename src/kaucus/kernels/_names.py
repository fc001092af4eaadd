"""The table of the kernels that estimators take by name.

A kernel enters it by a decorator, :func:`known_by_name`. A subclass of ``Kernel`` that
does not ask for that, a user's own for instance, changes nothing here.
"""

import difflib
from collections.abc import Sequence
from dataclasses import fields

from kaucus.kernels._base import Kernel

_KERNELS: dict[str, type[Kernel]] = {}


def known_by_name(kernel: type[Kernel]) -> type[Kernel]:
    """Class decorator: estimators take this kernel by its ``name``.

    For dataclasses whose fields are numbers, out of gamma, degree and coef0.

    Parameters
    ----------
    kernel : type of Kernel

    Raises
    ------
    ValueError
        If another kernel has the name.
    """
    owner = _KERNELS.setdefault(kernel.name, kernel)
    if owner is not kernel:
        raise ValueError(
            f"The kernel name {kernel.name!r} belongs to {owner.__name__}; give "
            f"{kernel.__name__} another."
        )
    return kernel


def kernel_names() -> list[str]:
    """Return the names by which estimators know the kernels."""
    return sorted(_KERNELS)


def kernels_with_gamma() -> list[str]:
    """Return the names of the kernels that have a width ``gamma``."""
    return [name for name in kernel_names() if "gamma" in parameters(_KERNELS[name])]


def parameters(cls: type[Kernel]) -> set[str]:
    """Return the names of a kernel's parameters."""
    return {field.name for field in fields(cls)}  # type: ignore[arg-type]


def kernel_class(name: str, *, also: Sequence[str] = ()) -> type[Kernel]:
    """Return the class of the kernel of that name.

    Parameters
    ----------
    name : str
    also : sequence of str, default=()
        Words that the caller takes in place of a kernel, for the message.

    Raises
    ------
    ValueError
        With the names that there are, and the one that was probably meant.
    """
    if name in _KERNELS:
        return _KERNELS[name]
    known = [*kernel_names(), *also]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"kernel={name!r} is not known; expected one of {known}, a kernel object or a "
        f"function.{hint}"
    )
