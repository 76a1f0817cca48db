"""Compare every log in `tests/data/logs` with what a careful person reads in it.

`<tool>/<name>.<any>` is the log. `<name>.expected.toml` next to it holds the expectation:

    made = "iperf3 3.12 on Debian 12, loopback"     # or, for output that only documentation shows:
    from = "documentation: <page>"
    complete_runs = 2
    failures = [{line = 41, contains = "the last lines of the run are missing"}]
    unrecognized_lines = 3                          # optional: lines of no supported tool

    [[run]]                                         # every run in the order of the log
    line = 3                                        # its first line
    workload = "tcp_stream"
    factors = {streams = 4, message_size = "128 KiB"}   # exactly these
    metrics = {goodput_bps = 13.9e9}                # within rounding; the run may have others
    absent = ["retransmits"]                        # metrics that the log does not report
    intervals = 10                                  # of all streams, one direction, not omitted
    omitted = 1                                     # intervals that the tool itself omitted
    direction = "reverse"                           # of these intervals; forward by default
    reported_by = "receiver"
    # and where useful: tool, version, duration_s, omitted_s, started_at, command, last_line,
    # other_results = {…} (these among others), remarks = ["part of one", …]
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_parser import LogItem, UnreadableSection, UnrecognizedSection, parse_log
from vnetbench.importers.runs import Run
from vnetbench.study.factors.directions import FORWARD
from vnetbench.study.factors.registry import parse_level

LOGS = Path(__file__).parent.parent / "data" / "logs"
EXPECTED_SUFFIX = ".expected.toml"
EXPECTATIONS = sorted(LOGS.glob(f"*/*{EXPECTED_SUFFIX}"))
EXACT_KEYS = ("tool", "version", "workload", "reported_by", "command", "last_line")
RUN_KEYS = {
    *EXACT_KEYS, "line", "factors", "metrics", "absent", "intervals", "omitted", "direction",
    "duration_s", "omitted_s", "started_at", "other_results", "remarks",
}  # fmt: skip

pytestmark = pytest.mark.pure


def expectation_id(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(EXPECTED_SUFFIX)}"


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=expectation_id)
def test_a_log_is_read_as_a_careful_person_reads_it(expectation: Path) -> None:
    expected = tomllib.loads(expectation.read_text())
    items = parse_file(find_log(expectation))
    runs = [item for item in items if isinstance(item, Run)]
    unreadable = [item for item in items if isinstance(item, UnreadableSection)]

    assert bool(expected.get("made")) != bool(expected.get("from")), "state where the log comes from"
    assert len([run for run in runs if not run.failure]) == expected["complete_runs"]
    failures = [(run.first_line, run.failure) for run in runs if run.failure]
    failures += [(item.first_line, item.reason) for item in unreadable]
    expected_failures = [(each["line"], each["contains"]) for each in expected.get("failures", [])]
    assert [line for line, _ in sorted(failures)] == [line for line, _ in expected_failures]
    for (_, failure), (_, part) in zip(sorted(failures), expected_failures, strict=True):
        assert part in failure
    if "unrecognized_lines" in expected:
        count = sum(item.line_count for item in items if isinstance(item, UnrecognizedSection))
        assert count == expected["unrecognized_lines"]
    assert [run.first_line for run in runs] == [each["line"] for each in expected.get("run", [])]
    for run, each in zip(runs, expected.get("run", []), strict=True):
        check_run(run, each)


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=expectation_id)
def test_intervals_after_a_warm_up_start_where_it_ends(expectation: Path) -> None:
    for run in parse_file(find_log(expectation)):
        if isinstance(run, Run):
            omitted_end_s = max((each.end_s for each in run.intervals if each.is_omitted), default=0.0)
            starts_s = [each.start_s for each in run.intervals if not each.is_omitted]
            assert all(start_s >= omitted_end_s - 1e-6 for start_s in starts_s)
            assert (
                not run.omitted_s or not omitted_end_s or run.omitted_s == pytest.approx(omitted_end_s, 0.1)
            )


def test_every_log_has_an_expectation_and_every_expectation_a_log() -> None:
    logs = {
        path for path in LOGS.glob("*/*") if not path.name.endswith(EXPECTED_SUFFIX) and path.suffix != ".md"
    }

    assert logs == {find_log(expectation) for expectation in EXPECTATIONS}


def find_log(expectation: Path) -> Path:
    """Return the log next to an expectation."""
    name = expectation.name.removesuffix(EXPECTED_SUFFIX)
    stems = {path: Path(path.name.removesuffix(".gz")).stem for path in expectation.parent.glob(f"{name}.*")}
    (log,) = (path for path, stem in stems.items() if path != expectation and stem == name)
    return log


def parse_file(log: Path) -> list[LogItem]:
    """Return everything in a log."""
    with log.open("rb") as stream:
        return list(parse_log(decode_lines(stream)))


def check_run(run: Run, expected: dict[str, Any]) -> None:
    """Fail if a run is not as expected."""
    assert set(expected) <= RUN_KEYS
    for name in EXACT_KEYS:
        if name in expected:
            assert getattr(run, name) == expected[name], name
    if "factors" in expected:
        assert dict(run.factors) == {n: parse_level(n, raw) for n, raw in expected["factors"].items()}
    for name, value in expected.get("metrics", {}).items():
        reported = run.metrics[name]
        assert reported.low <= reported.value <= reported.high
        slack = 1e-9 * abs(value)
        assert reported.low - slack <= value <= reported.high + slack, (name, reported)
    assert not set(expected.get("absent", ())) & set(run.metrics)
    for name, value in (("duration_s", run.measured_duration_s), ("omitted_s", run.omitted_s)):
        if name in expected:
            assert value == pytest.approx(expected[name], rel=1e-3), name
    if "started_at" in expected:
        assert run.started_at is not None
        assert run.started_at.isoformat() == expected["started_at"]
    assert dict(expected.get("other_results", {})).items() <= dict(run.other_results).items()
    for part in expected.get("remarks", ()):
        assert any(part in remark for remark in run.remarks), (part, run.remarks)
    direction = expected.get("direction", FORWARD)
    intervals = [each for each in run.intervals if each.stream_number is None and each.direction == direction]
    for name, is_omitted in (("intervals", False), ("omitted", True)):
        if name in expected:
            assert sum(each.is_omitted == is_omitted for each in intervals) == expected[name], name
