"""Modules that are imported on first use, so that a command loads only the libraries that it needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class DeferredModule:
    """A module that is imported when the first of its attributes is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """Import the module on first use and return its attribute.

        Raises:
            ImportError: The module does not exist.
            AttributeError: The module has no such attribute.
        """
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value
