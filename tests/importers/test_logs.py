"""Every log in `tests/data/logs`, and what a careful person reads off it.

`<tool>/<name>.<any>` is the log, `<name>.expected.toml` beside it says:

    made = "iperf3 3.12 on Debian 12, loopback"     # or, of a form that only documentation shows:
    from = "documentation: <page>"
    understood = 2                                  # whole runs
    faults = [{line = 41, says = "cut off"}]        # runs that are not whole, by their first line
    unclaimed = 3                                   # lines that are of no tool; without it not checked

    [[run]]                                         # in their order, whole ones and others
    line = 3                                        # its first line
    workload = "tcp_stream"
    factors = {streams = 4, message_size = "128 KiB"}   # these, and no others
    figures = {goodput_bps = 13.9e9}                # within what rounding left; others may be told too
    absent = ["retransmits"]                        # figures that the log does not tell
    intervals = 10                                  # of the run as a whole, one way, without omitted ones
    omitted = 1                                     # intervals that the tool itself left out
    way = "reverse"                                 # of these intervals; without it forward
    told_by = "receiver"
    # and, where they are worth it: tool, version, duration_s, omitted_s, started_at, command, last_line,
    # also = {…} (these among others), remarks = ["part of one", …]
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from vnetbench.importers.decoding import lines_of
from vnetbench.importers.log_parser import Item, Unclaimed, Unread, recognise
from vnetbench.importers.runs import FORWARD, Run
from vnetbench.study.factors.registry import parse_level

LOGS = Path(__file__).parent.parent / "data" / "logs"
EXPECTED = ".expected.toml"
PAGES = sorted(LOGS.glob(f"*/*{EXPECTED}"))
AS_TOLD = ("tool", "version", "workload", "told_by", "command", "last_line")
KEYS = {
    *AS_TOLD, "line", "factors", "figures", "absent", "intervals", "omitted", "way",
    "duration_s", "omitted_s", "started_at", "also", "remarks",
}  # fmt: skip

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}"[: -len(EXPECTED)])
def test_a_log_is_read_as_a_careful_person_reads_it(page: Path) -> None:
    expected = tomllib.loads(page.read_text())
    items = items_of(log_of(page))
    runs = [item for item in items if isinstance(item, Run)]
    unread = [item for item in items if isinstance(item, Unread)]

    assert bool(expected.get("made")) != bool(expected.get("from")), "say where the log is from"
    assert len([run for run in runs if not run.fault]) == expected["understood"]
    faults = [(run.first_line, run.fault) for run in runs if run.fault]
    faults += [(item.first_line, item.why) for item in unread]
    told = [(each["line"], each["says"]) for each in expected.get("faults", [])]
    assert [line for line, _ in sorted(faults)] == [line for line, _ in told]
    for (_, fault), (_, says) in zip(sorted(faults), told, strict=True):
        assert says in fault
    if "unclaimed" in expected:
        lines = sum(item.lines for item in items if isinstance(item, Unclaimed))
        assert lines == expected["unclaimed"]
    assert [run.first_line for run in runs] == [each["line"] for each in expected.get("run", [])]
    for run, each in zip(runs, expected.get("run", []), strict=True):
        agrees(run, each)


def test_every_log_has_its_page_and_every_page_its_log() -> None:
    logs = {path for path in LOGS.glob("*/*") if not path.name.endswith(EXPECTED) and path.suffix != ".md"}

    assert logs == {log_of(page) for page in PAGES}


def log_of(page: Path) -> Path:
    """The log beside a page."""
    name = page.name[: -len(EXPECTED)]
    stems = {path: Path(path.name.removesuffix(".gz")).stem for path in page.parent.glob(f"{name}.*")}
    (log,) = (path for path, stem in stems.items() if path != page and stem == name)
    return log


def items_of(log: Path) -> list[Item]:
    """All that stands in a log."""
    with log.open("rb") as stream:
        return list(recognise(lines_of(stream)))


def agrees(run: Run, expected: dict[str, Any]) -> None:
    """Fail where a run is not as a person reads it."""
    assert set(expected) <= KEYS
    for name in AS_TOLD:
        if name in expected:
            assert getattr(run, name) == expected[name], name
    if "factors" in expected:
        assert dict(run.factors) == {n: parse_level(n, raw) for n, raw in expected["factors"].items()}
    for name, value in expected.get("figures", {}).items():
        figure = run.figures[name]
        assert figure.low <= figure.value <= figure.high
        slack = 1e-9 * abs(value)
        assert figure.low - slack <= value <= figure.high + slack, (name, figure)
    assert not set(expected.get("absent", ())) & set(run.figures)
    for name in ("duration_s", "omitted_s"):
        if name in expected:
            assert getattr(run, name) == pytest.approx(expected[name], rel=1e-3), name
    if "started_at" in expected:
        assert run.started_at is not None
        assert run.started_at.isoformat() == expected["started_at"]
    assert dict(expected.get("also", {})).items() <= dict(run.also).items()
    for part in expected.get("remarks", ()):
        assert any(part in remark for remark in run.remarks), (part, run.remarks)
    together = [x for x in run.intervals if x.stream is None and x.way == expected.get("way", FORWARD)]
    for name, is_omitted in (("intervals", False), ("omitted", True)):
        if name in expected:
            assert sum(x.is_omitted == is_omitted for x in together) == expected[name], name
