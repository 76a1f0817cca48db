"""The version of the code that computes estimates and explanations from trials."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from vnetbench import __version__

_PACKAGE = Path(__file__).parent
FOLDERS_WITHOUT_ESTIMATES = {"agents", "campaign", "commands", "lab", "__pycache__"}
"""Folders without influence on what follows from the trials of a file. `importers` has some: it reads the
published tables that statements and references use."""
_HASHED_SUFFIXES = {".py", ".toml", ".csv"}
_LIBRARIES_THAT_ESTIMATE = ("numpy", "scipy", "ruptures")


@cache
def method_version() -> str:
    """Return a hash of all code and data from which estimates and explanations follow."""
    libraries = [version(name) for name in _LIBRARIES_THAT_ESTIMATE]
    # An installation without source files, such as a zip file, has only its version.
    digest = hashlib.sha256(f"{__version__} {sys.version_info[:2]} {libraries}".encode())
    for path in sorted(_PACKAGE.rglob("*")):
        name = path.relative_to(_PACKAGE)
        if path.suffix in _HASHED_SUFFIXES and name.parts[0] not in FOLDERS_WITHOUT_ESTIMATES:
            content = path.read_bytes()
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
