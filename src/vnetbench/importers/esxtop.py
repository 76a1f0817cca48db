"""What esxtop counted on an ESXi host (`esxtop -b`), and what of it stands beside the runs of that time."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo

from vnetbench.errors import BenchError
from vnetbench.importers.runs import ReportedValue, Run

HostCounters = Iterable[tuple[datetime, Mapping[str, float]]]
"""Moments, ascending, each with the means of what was counted since the one before, by name."""

_HEAD = re.compile(r'"?\(PDH-CSV 4\.0\) \((?P<zone>[^)]*)\)\((?P<minutes>-?\d{1,3})\)"?(?:,|$)')
r"""`"(PDH-CSV 4.0) (UTC)(0)","\\esx1\Physical Cpu(0)\% Processor Time",…`: by so many minutes behind UTC."""
_COUNTER = re.compile(r"\\\\(?P<host>[^\\]+)\\(?P<group>[^\\(]+)\((?P<of>.*)\)\\(?P<counter>[^\\]+)")
r"""`\\esx1\Network Port(vSwitch0:67108885:36139:db.eth0)\MBits Transmitted/sec`"""
_ADAPTER = re.compile(r"\.eth\d+$")
"""Behind a VM's name at its port, from ESXi 6 on."""
_FRACTION = re.compile(r"(?<=:\d\d)[.,]\d+$")

_HOST_BUSY = "host busy %"
_HOST = {
    "% Util Time": _HOST_BUSY,
    "% Processor Time": "host used %",
    "% Core Util Time": "host cores busy %",
}
_WORLD = {"% Used": "used %", "% Ready": "ready %", "% CoStop": "co-stop %"}
_PORT = {
    "MBits Transmitted/sec": "sent Mbit/s",
    "MBits Received/sec": "received Mbit/s",
    "Packets Transmitted/sec": "sent packets/s",
    "Packets Received/sec": "received packets/s",
    "% Outbound Packets Dropped": "dropped of sent %",
    "% Transmitted Packets Dropped": "dropped of sent %",
    "% Received Packets Dropped": "dropped of received %",
}
"""The counters that are kept, by esxtop's name for them, with ours."""

_TIMES = ("%m/%d/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%d/%m/%Y %H:%M:%S")
"""esxtop writes the first in every locale; the others come from spreadsheets that saved the file again."""
_ROUNDED_BY = 0.005
"""esxtop prints two decimals."""


def is_esxtop(line: str) -> bool:
    """Whether a log that begins with this line is one of `esxtop -b`."""
    return _HEAD.match(line) is not None


def read_host_counters(lines: Iterable[str]) -> Iterator[tuple[datetime, dict[str, float]]]:
    """What a log counted until each of its moments since the one before, by name; see `Counters`.

    Of its thousands of columns those are kept that tell of the host's CPUs, of the ports of its switches, and
    of the VMs that are at one; one line is in memory at once. Raises BenchError where it is none of esxtop.
    """
    source = iter(lines)
    head = next(source, "")
    told = _HEAD.match(head)
    if told is None:
        fix = "make it with esxtop -b -a -d 2 > esxtop.csv"
        raise BenchError("this is no log of esxtop's batch mode", where="line 1", fix=fix)
    zone = timezone(-timedelta(minutes=int(told["minutes"])))
    columns = _columns(_cells(head))
    form: str | None = None
    for line in source:
        cells = _cells(line)
        if form is None or _time(cells, form) is None:
            form = next((each for each in _TIMES if _time(cells, each)), None)
        moment = _time(cells, form) if form else None
        if moment is None:
            continue  # the end of a log that was cut off, or the titles of a second one
        told_then = ((name, _number(cells, place)) for name, place in columns.items())
        yield moment.replace(tzinfo=zone), {name: value for name, value in told_then if value is not None}


def attach_host_counters(
    runs: Sequence[Run], counted: HostCounters, *, is_only_host: bool = True
) -> list[Run]:
    """The runs, each with the means of what was counted wholly within its time among its `also`.

    The busy share of a host, where there is no other, is the figure `host_cpu_percent` too. A run's remarks
    say what it is without, and why. Where its log names no time zone, it is taken to be that of the counters.
    """
    found = iter(counted)
    first = next(found, None)
    if first is None:
        return [_without(run, "esxtop's log holds nothing") for run in runs]
    before, zone = first[0], first[0].tzinfo
    spans = {number: _span(run, zone) for number, run in enumerate(runs) if run.started_at and run.duration_s}
    waiting = sorted(spans.values(), key=lambda span: span.start, reverse=True)
    at_work: list[_Span] = []
    # What the first of a log tells is of the time since the host started.
    for moment, values in found:
        if moment <= before:
            continue  # a clock that was set back, or a second log behind the first
        while waiting and waiting[-1].start <= before:
            at_work.append(waiting.pop())
        at_work = [span for span in at_work if span.end >= moment]
        for span in at_work:
            span.add(values, (moment - before).total_seconds())
        before = moment
    return [_with(run, spans.get(number), is_only_host) for number, run in enumerate(runs)]


@dataclass
class _Span:
    """A run's time without what its tool omitted, and what was counted within it so far."""

    start: datetime
    end: datetime
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, values: Mapping[str, float], seconds: float) -> None:
        """Add the means over so many seconds."""
        for name, value in values.items():
            self.sums[name] += value * seconds
            self.seconds[name] += seconds

    def means(self) -> dict[str, float]:
        """What was counted, over all of its time."""
        return {name: total / self.seconds[name] for name, total in self.sums.items() if self.seconds[name]}


def _span(run: Run, zone: tzinfo | None) -> _Span:
    assert run.started_at is not None
    began = run.started_at if run.started_at.tzinfo else run.started_at.replace(tzinfo=zone)
    start = began + timedelta(seconds=run.omitted_s)
    return _Span(start, start + timedelta(seconds=run.duration_s or 0.0))


def _with(run: Run, span: _Span | None, is_only_host: bool) -> Run:
    if span is None:
        return _without(run, "its log does not tell when it ran")
    means = span.means()
    if not means:
        return _without(run, "no interval of esxtop's lies within its time")
    remarks = ["what esxtop counted is beside it, matched by time"]
    if run.started_at and run.started_at.tzinfo is None:
        remarks.append("its log names no time zone: it is taken to be esxtop's")
    busy = [value for name, value in means.items() if name.endswith(_HOST_BUSY)]
    figures = dict(run.metrics)
    if len(busy) == 1 and is_only_host:
        figures.setdefault(
            "host_cpu_percent", ReportedValue(busy[0], busy[0] - _ROUNDED_BY, busy[0] + _ROUNDED_BY)
        )
    also = {f"esxtop: {name}": f"{value:.5g}" for name, value in means.items()}
    return replace(run, figures=figures, also={**run.other_results, **also}, remarks=(*run.remarks, *remarks))


def _without(run: Run, why: str) -> Run:
    return replace(run, remarks=(*run.remarks, f"nothing of esxtop stands beside it: {why}"))


def _columns(titles: Sequence[str]) -> dict[str, int]:
    """The places of the columns that are kept, by the name of what they count."""
    forms = [_COUNTER.fullmatch(title) for title in titles]
    clients = {_client(form["of"]) for form in forms if form and form["group"] == "Network Port"}
    found: dict[str, int] = {}
    for place, form in enumerate(forms):
        if form and (name := _name(form["group"], form["of"], form["counter"], clients)):
            found.setdefault(f"{form['host']}: {name}", place)
    return found


def _name(group: str, of: str, counter: str, clients: Set[str]) -> str | None:
    """What a counter is called here; None of one that is not kept."""
    parts = of.split(":")
    if group == "Physical Cpu" and of == "_Total":
        return _HOST.get(counter)
    if group == "Group Cpu" and counter in _WORLD and parts[-1] in clients:
        return f"VM {parts[-1]} {_WORLD[counter]}"
    if group == "Vcpu" and counter in _WORLD and len(parts) > 3 and parts[1] in clients:
        return f"VM {parts[1]} {parts[3]} {_WORLD[counter]}"
    if group == "Network Port" and counter in _PORT and len(parts) > 2:
        return f"port {parts[0]}/{parts[1]} {parts[-1]} {_PORT[counter]}"
    return None


def _client(port: str) -> str:
    """The VM at a port `vSwitch0:67108885:36139:db.eth0`; empty of an uplink's or the host's own."""
    parts = port.split(":")
    return _ADAPTER.sub("", parts[3]) if len(parts) > 3 else ""


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _time(cells: Sequence[str], form: str) -> datetime | None:
    try:
        return datetime.strptime(_FRACTION.sub("", cells[0]), form) if cells else None
    except ValueError:
        return None


def _number(cells: Sequence[str], place: int) -> float | None:
    try:
        value = float(cells[place].replace(",", "."))
    except (IndexError, ValueError):
        return None
    return value if math.isfinite(value) else None
