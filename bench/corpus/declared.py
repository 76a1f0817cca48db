"""Spells what is declared, disturbances too, so that runs of a recipe that was changed can be told."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Set
from functools import partial


def spelled(value: object) -> str:
    """The same text in each process for what is declared alike.

    Of a function its name with what it was made with: what it does itself may change without notice.
    """
    if isinstance(value, partial):
        return f"{spelled(value.func)}({spelled(value.args)}, {spelled(value.keywords)})"
    if inspect.isfunction(value):
        function = inspect.unwrap(value)
        return f"{function.__qualname__}{spelled(inspect.getclosurevars(function).nonlocals)}"
    if isinstance(value, Mapping):
        items = sorted((spelled(name), spelled(each)) for name, each in value.items())
        return f"{{{', '.join(f'{name}: {each}' for name, each in items)}}}"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(map(spelled, value)))}}}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(spelled, value))})"
    return repr(value)
