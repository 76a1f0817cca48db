"""Canonical text of declared values, disturbances included, which shows whether a scenario has changed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Set
from functools import partial


def format_canonical(value: object) -> str:
    """Return a text that is the same in each process for equal declarations.

    The text of a function contains its name and the values that it was made with, but not its code.
    """
    if isinstance(value, partial):
        parts = map(format_canonical, (value.func, value.args, value.keywords))
        return "{}({}, {})".format(*parts)
    if inspect.isfunction(value):
        function = inspect.unwrap(value)
        return f"{function.__qualname__}{format_canonical(inspect.getclosurevars(function).nonlocals)}"
    if isinstance(value, Mapping):
        items = sorted((format_canonical(name), format_canonical(each)) for name, each in value.items())
        return f"{{{', '.join(f'{name}: {each}' for name, each in items)}}}"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(map(format_canonical, value)))}}}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(format_canonical, value))})"
    return repr(value)
