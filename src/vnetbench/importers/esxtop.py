"""Read what esxtop counted on an ESXi host (`esxtop -b`), and attach it to the runs of the same time."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

from vnetbench.errors import BenchError
from vnetbench.importers.runs import RoundedValue, Run


class CounterInterval(NamedTuple):
    """The means of a host's counters over one interval."""

    end: datetime
    mean_by_counter: Mapping[str, float]
    """By our name of the counter."""


_HEADER_PATTERN = re.compile(r'"?\(PDH-CSV 4\.0\) \((?P<zone>[^)]*)\)\((?P<minutes>-?\d{1,3})\)"?(?:,|$)')
r"""`"(PDH-CSV 4.0) (UTC)(0)","\\esx1\Physical Cpu(0)\% Processor Time",…`. The number is minutes behind
UTC."""
_COUNTER_TITLE_PATTERN = re.compile(
    r"\\\\(?P<host>[^\\]+)\\(?P<group>[^\\(]+)\((?P<instance>.*)\)\\(?P<counter>[^\\]+)"
)
r"""`\\esx1\Network Port(vSwitch0:67108885:36139:db.eth0)\MBits Transmitted/sec`"""
_VM_ADAPTER_SUFFIX_PATTERN = re.compile(r"\.eth\d+$")
"""Follows the name of a VM at its port, from ESXi 6 on."""
_FRACTIONAL_SECONDS_PATTERN = re.compile(r"(?<=:\d\d)[.,]\d+$")

_HOST_BUSY_RESULT_NAME = "host busy %"
_OUR_NAME_BY_HOST_COUNTER = {
    "% Util Time": _HOST_BUSY_RESULT_NAME,
    "% Processor Time": "host used %",
    "% Core Util Time": "host cores busy %",
}
_OUR_NAME_BY_VM_COUNTER = {"% Used": "used %", "% Ready": "ready %", "% CoStop": "co-stop %"}
_OUR_NAME_BY_PORT_COUNTER = {
    "MBits Transmitted/sec": "sent Mbit/s",
    "MBits Received/sec": "received Mbit/s",
    "Packets Transmitted/sec": "sent packets/s",
    "Packets Received/sec": "received packets/s",
    "% Outbound Packets Dropped": "dropped of sent %",
    "% Transmitted Packets Dropped": "dropped of sent %",
    "% Received Packets Dropped": "dropped of received %",
}
"""Counters that are kept, by esxtop's name, with ours."""

_TIME_FORMATS = ("%m/%d/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%d/%m/%Y %H:%M:%S")
"""esxtop writes the first format in every locale. The others come from spreadsheets that saved the file
again."""
_HALF_LAST_PRINTED_DIGIT = 0.005
"""esxtop prints two decimals."""


def is_esxtop_header(line: str) -> bool:
    """Return whether a log that starts with this line is from `esxtop -b`."""
    return _HEADER_PATTERN.match(line) is not None


def read_counter_intervals(lines: Iterable[str]) -> Iterator[CounterInterval]:
    """Yield the intervals in a log, in its order, with the counters that are kept.

    Of thousands of columns this keeps the host's CPUs, the ports of its switches, and the VMs at these ports.
    One line is in memory at a time.

    Raises:
        BenchError: The log is not from esxtop.
    """
    source = iter(lines)
    titles = next(source, "")
    header = _HEADER_PATTERN.match(titles)
    if header is None:
        fix = "create the log with esxtop -b -a -d 2 > esxtop.csv"
        raise BenchError("the file is not a log of esxtop's batch mode", where="line 1", fix=fix)
    zone = timezone(-timedelta(minutes=int(header["minutes"])))
    columns = _find_counter_columns(_split_cells(titles))
    time_format: str | None = None
    for line in source:
        cells = _split_cells(line)
        if time_format is None or _parse_time(cells, time_format) is None:
            time_format = next((each for each in _TIME_FORMATS if _parse_time(cells, each)), None)
        time = _parse_time(cells, time_format) if time_format else None
        if time is None:
            continue  # The end of a log that was cut off, or the titles of a second one.
        values = ((name, _parse_number(cells, position)) for name, position in columns.items())
        mean_by_counter = {name: value for name, value in values if value is not None}
        yield CounterInterval(time.replace(tzinfo=zone), mean_by_counter)


def attach_host_counters_within_runs(
    runs: Sequence[Run], intervals: Iterable[CounterInterval], *, sets_host_cpu_metric: bool = True
) -> list[Run]:
    """Return the runs with the mean counters of the intervals that lie entirely within each run.

    The means go to `other_results`. The CPU utilization of an only host is the metric `host_cpu_percent` as
    well. A remark says why a run has no counters. A run without a time zone is taken to be in that of the
    counters.
    """
    remaining = iter(intervals)
    first = next(remaining, None)
    if first is None:
        return [_add_missing_counters_remark(run, "the esxtop log is empty") for run in runs]
    previous, zone = first.end, first.end.tzinfo
    windows = {
        number: _create_run_counter_means(run, zone)
        for number, run in enumerate(runs)
        if run.started_at and run.measured_duration_s
    }
    waiting = sorted(windows.values(), key=lambda window: window.start, reverse=True)
    active: list[_RunCounterMeans] = []
    # The first line of a log covers the time since the host booted, so it is skipped.
    for time, values in remaining:
        if time <= previous:
            continue  # A clock that was set back, or a second log behind the first.
        while waiting and waiting[-1].start <= previous:
            active.append(waiting.pop())
        active = [window for window in active if window.end >= time]
        for window in active:
            window.add_interval(values, (time - previous).total_seconds())
        previous = time
    return [
        _add_counter_means_or_remark(run, windows.get(number), sets_host_cpu_metric)
        for number, run in enumerate(runs)
    ]


@dataclass
class _RunCounterMeans:
    """The time of a run without omitted time, and the counters within it."""

    start: datetime
    end: datetime
    covered_s_by_counter: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Time that is covered, by counter."""
    weighted_sums_by_counter: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Sums of means times seconds, by counter."""

    def add_interval(self, means_by_counter: Mapping[str, float], interval_s: float) -> None:
        """Add the means over an interval."""
        for name, mean in means_by_counter.items():
            self.weighted_sums_by_counter[name] += mean * interval_s
            self.covered_s_by_counter[name] += interval_s

    def means_by_counter(self) -> dict[str, float]:
        """Return the means over the whole time."""
        return {
            name: total / self.covered_s_by_counter[name]
            for name, total in self.weighted_sums_by_counter.items()
            if self.covered_s_by_counter[name]
        }


def _create_run_counter_means(run: Run, zone: tzinfo | None) -> _RunCounterMeans:
    assert run.started_at is not None
    started_at = run.started_at if run.started_at.tzinfo else run.started_at.replace(tzinfo=zone)
    start = started_at + timedelta(seconds=run.omitted_s)
    return _RunCounterMeans(start, start + timedelta(seconds=run.measured_duration_s or 0.0))


def _add_counter_means_or_remark(
    run: Run, counter_means: _RunCounterMeans | None, sets_host_cpu_metric: bool
) -> Run:
    if counter_means is None:
        return _add_missing_counters_remark(run, "the log does not say when the run started")
    means = counter_means.means_by_counter()
    if not means:
        return _add_missing_counters_remark(
            run, "no interval of the esxtop log lies within the time of the run"
        )
    remarks = ["The run has host counters from an esxtop log of the same time."]
    if run.started_at and run.started_at.tzinfo is None:
        remarks.append("The log names no time zone, so vnetbench assumes the time zone of the esxtop log.")
    busy = [value for name, value in means.items() if name.endswith(_HOST_BUSY_RESULT_NAME)]
    metrics = dict(run.metrics)
    if len(busy) == 1 and sets_host_cpu_metric:
        reported = RoundedValue(
            busy[0], busy[0] - _HALF_LAST_PRINTED_DIGIT, busy[0] + _HALF_LAST_PRINTED_DIGIT
        )
        metrics.setdefault("host_cpu_percent", reported)
    results = {f"esxtop: {name}": f"{value:.5g}" for name, value in means.items()}
    return replace(
        run,
        metrics=metrics,
        other_results={**run.other_results, **results},
        remarks=(*run.remarks, *remarks),
    )


def _add_missing_counters_remark(run: Run, reason: str) -> Run:
    return replace(
        run, remarks=(*run.remarks, f"The run has no host counters from esxtop, because {reason}.")
    )


def _find_counter_columns(titles: Sequence[str]) -> dict[str, int]:
    """Return the positions of the columns that are kept, by our name of the counter."""
    counters = [_COUNTER_TITLE_PATTERN.fullmatch(title) for title in titles]
    vms = {
        _vm_name_at_port(each["instance"]) for each in counters if each and each["group"] == "Network Port"
    }
    columns: dict[str, int] = {}
    for position, each in enumerate(counters):
        if each and (name := _our_counter_name(each["group"], each["instance"], each["counter"], vms)):
            columns.setdefault(f"{each['host']}: {name}", position)
    return columns


def _our_counter_name(group: str, instance: str, counter: str, vms: Set[str]) -> str | None:
    """Return our name of a counter; None if it is not kept."""
    parts = instance.split(":")
    if group == "Physical Cpu" and instance == "_Total":
        return _OUR_NAME_BY_HOST_COUNTER.get(counter)
    if group == "Group Cpu" and counter in _OUR_NAME_BY_VM_COUNTER and parts[-1] in vms:
        return f"VM {parts[-1]} {_OUR_NAME_BY_VM_COUNTER[counter]}"
    if group == "Vcpu" and counter in _OUR_NAME_BY_VM_COUNTER and len(parts) > 3 and parts[1] in vms:
        return f"VM {parts[1]} {parts[3]} {_OUR_NAME_BY_VM_COUNTER[counter]}"
    if group == "Network Port" and counter in _OUR_NAME_BY_PORT_COUNTER and len(parts) > 2:
        return f"port {parts[0]}/{parts[1]} {parts[-1]} {_OUR_NAME_BY_PORT_COUNTER[counter]}"
    return None


def _vm_name_at_port(port: str) -> str:
    """Return the VM at a port such as `vSwitch0:67108885:36139:db.eth0`.

    It is empty for an uplink and for the host's own ports.
    """
    parts = port.split(":")
    return _VM_ADAPTER_SUFFIX_PATTERN.sub("", parts[3]) if len(parts) > 3 else ""


def _split_cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _parse_time(cells: Sequence[str], time_format: str) -> datetime | None:
    try:
        return (
            datetime.strptime(_FRACTIONAL_SECONDS_PATTERN.sub("", cells[0]), time_format) if cells else None
        )
    except ValueError:
        return None


def _parse_number(cells: Sequence[str], position: int) -> float | None:
    try:
        value = float(cells[position].replace(",", "."))
    except (IndexError, ValueError):
        return None
    return value if math.isfinite(value) else None
