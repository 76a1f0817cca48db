"""A fictitious tool with short logs, to test what all readers have in common.

    toy 1.2 streams=4 by=receiver     starts a run
      1.0 100 MB                      an interval: its end and size
      (1.0 90 MB)                     the same, omitted by the tool
    = 800 Mbit/s 10.0 s               the result

The JSON format: {"toy": {"streams": 4, "mbit_s": 800, "s": 10}}
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.reader import DocumentReader, TextReader
from vnetbench.importers.runs import CUT_OFF_FAILURE, ReportInterval, RoundedValue, Run
from vnetbench.importers.units import parse_rounded

_HEAD = re.compile(
    r"toy (?P<version>\S+)(?: streams=(?P<streams>\d+))?(?: (?P<udp>udp))?(?: by=(?P<by>\w+))?"
)
_INTERVAL = re.compile(r"\s+(?P<omitted>\()?(?P<end>[\d.]+) (?P<size>[\d.]+) MB\)?")
_RESULT = re.compile(r"= (?P<rate>\S+) Mbit/s (?P<s>[\d.]+) s")


def _starts_run(lines: LogLines) -> bool:
    return (lines.peek_line() or "").startswith("toy ")


def _read_runs(lines: LogLines, starts_run: Callable[[LogLines], bool]) -> list[Run]:
    head = _HEAD.match(lines.take_line())
    assert head is not None
    first, intervals, start_s = lines.last_taken_number, list[ReportInterval](), 0.0
    while (line := lines.peek_line()) is not None and not starts_run(lines):
        if match := _INTERVAL.match(line):
            lines.take_line()
            size = {"bytes": parse_rounded(match["size"], 1e6)}
            intervals.append(
                ReportInterval(start_s, float(match["end"]), size, is_omitted=bool(match["omitted"]))
            )
            start_s = float(match["end"])
        elif match := _RESULT.match(line):
            lines.take_line()
            goodput = parse_rounded(match["rate"], 1e6)
            return [_build_run(head, first, lines.last_taken_number, tuple(intervals), goodput, match["s"])]
        else:
            break
    return [_build_run(head, first, lines.last_taken_number, tuple(intervals), None, "0")]


def _build_run(
    head: re.Match[str],
    first: int,
    last: int,
    intervals: tuple[ReportInterval, ...],
    goodput: RoundedValue | None,
    seconds: str,
) -> Run:
    return Run(
        tool="toy",
        version=head["version"],
        first_line=first,
        last_line=last,
        workload="udp_stream" if head["udp"] else "tcp_stream",
        factors={"streams": int(head["streams"])} if head["streams"] else {},
        metrics={} if goodput is None else {"goodput_bps": goodput},
        intervals=intervals,
        measured_duration_s=float(seconds),
        omitted_s=sum(x.end_s - x.start_s for x in intervals if x.is_omitted),
        reported_by=head["by"] or "",
        failure=CUT_OFF_FAILURE if goodput is None else "",
    )


def _read_document(document: Any, first: int, last: int) -> list[Run]:
    toy = document["toy"]
    goodput = RoundedValue.exact(toy["mbit_s"] * 1e6)
    return [
        Run(
            "toy", "", first, last, "tcp_stream", {"streams": toy["streams"]}, {"goodput_bps": goodput},
            measured_duration_s=toy.get("s"),
        )
    ]  # fmt: skip


TOY = (
    TextReader("toy", _starts_run, _read_runs),
    DocumentReader("toy", "json", lambda document: "toy" in document, _read_document),
    DocumentReader("toy", "xml", lambda root: root.tag == "toy", lambda root, first, last: []),
)
