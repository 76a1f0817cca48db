"""One module or package for each supported tool. `READERS` collects the readers of all of them.

To add a tool, add a module here that defines `READERS`. Nothing else needs to change.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from vnetbench.importers.reader import DocumentReader, TextReader


def _collect_readers() -> tuple[TextReader | DocumentReader, ...]:
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    return tuple(reader for module in modules for reader in module.READERS)


READERS = _collect_readers()
"""Readers of all tools, in alphabetical order of their modules. The parser tries them in this order."""
