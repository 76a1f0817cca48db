"""How the runs of one tool are read from a log: what each tool's module offers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vnetbench.importers.log_lines import Lines
from vnetbench.importers.runs import Run


@dataclass(frozen=True)
class TextReader:
    """Reads text. A run is taken line by line, so that a log of any length is read in little memory."""

    tool: str
    begins: Callable[[Lines], bool]
    """Whether a run of this tool begins with the next line; it takes none. Cheap: it is asked of every line
    that belongs to no run."""
    read: Callable[[Lines, Callable[[Lines], bool]], list[Run]]
    """Takes the lines of what began there (several runs, where a tool tells several at once), and no line of
    what comes after. The second argument tells whether the next line begins a run, of any tool: a run that
    is not over by then was cut off."""
    most_lines: int = 100_000
    """Of a run: while it is read all of its intervals are in memory."""


@dataclass(frozen=True)
class DocumentReader:
    """Reads whole documents: JSON or XML that has been parsed already."""

    tool: str
    form: str
    """`json` or `xml`."""
    claims: Callable[[Any], bool]
    """Whether a document (dict, or Element) is one of this tool."""
    read: Callable[[Any, int, int], list[Run]]
    """Its runs, from the document with its first and its last line."""
