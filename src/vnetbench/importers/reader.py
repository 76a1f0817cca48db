"""The interface between the log parser and the tools: how a tool's runs are recognized and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.runs import Run

StartsRun = Callable[[LogLines], bool]
"""Returns whether the next line of a log starts a run. It takes no line."""


@dataclass(frozen=True)
class TextReader:
    """Reads the text output of one tool, line by line, so that memory does not grow with the log."""

    tool: str
    starts_run: StartsRun
    """Whether the next line starts a run of this tool. The parser asks this for every line outside a run,
    so it must be cheap."""
    read_next_report: Callable[[LogLines, StartsRun], list[Run]]
    """Takes the lines of one run and returns it. It returns several runs where the tool reports several at
    once. It takes no line after the run. The second argument says whether the next line starts a run of any
    tool: a run that is incomplete by then was cut off."""
    max_run_lines: int = 100_000
    """Maximum lines of one run. All of its intervals are in memory while it is read."""


@dataclass(frozen=True)
class DocumentReader:
    """Reads the JSON or XML documents of one tool. The parser has parsed them already."""

    tool: str
    document_format: str
    """`json` or `xml`."""
    matches_document: Callable[[Any], bool]
    """Whether a document (a dict or an Element) is from this tool."""
    read_runs_of_document: Callable[[Any, int, int], list[Run]]
    """Returns the runs in a document, given the document, its first line and its last line."""
