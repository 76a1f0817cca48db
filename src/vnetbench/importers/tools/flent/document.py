"""A document of Flent as runs: one with its transfers, or of a test without any one for each of its pings.

What the keys hold is told by Flent's source (2.3.0): `resultset.py` writes the document, `runners.py` fills
the series from what netperf, ping, fping and irtt print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import gcd
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.importers.runs import FORWARD, REVERSE, Run
from vnetbench.importers.tools.flent.json_values import listed, mapped, number, told
from vnetbench.importers.tools.flent.probes import Probe, latencies, probe_of
from vnetbench.importers.tools.flent.transfers import Transfer, goodput, intervals, loaded_time, transfer_of
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level
from vnetbench.study.workloads import MIXED, REQUESTS, STREAM

NEWEST_FORM = 4
"""`FILEFORMAT_VERSION` of resultset.py."""


def read(document: Any, first_line: int, last_line: int) -> list[Run]:
    """The runs of a document: one, or of a test without transfers one for each kind of probe."""
    meta = mapped(document["metadata"])
    values = mapped(document.get("raw_values"))
    series = {name: mapped(each) for name, each in mapped(meta.get("SERIES_META")).items()}
    points = {
        name: listed(values.get(name)) or listed(each.get("RAW_VALUES")) for name, each in series.items()
    }
    transfers = [t for name, each in series.items() if (t := transfer_of(name, each, points[name]))]
    probes = [p for name, each in series.items() if (p := probe_of(name, each, points[name]))]
    common: dict[str, Any] = {
        "tool": "flent",
        "version": told(meta.get("FLENT_VERSION") or meta.get("NETPERF_WRAPPER_VERSION")),
        "first_line": first_line,
        "last_line": last_line,
        "started_at": _time(meta.get("TIME")),
        "also": _also(meta, series),
    }
    if _form(document) > NEWEST_FORM:
        common["fault"] = (
            f"the file's form {_form(document)} is newer than {NEWEST_FORM}, which is understood"
        )
    if transfers:
        return [_loaded(meta, transfers, probes, common)]
    if probes:
        return [_probed(meta, probe, common) for probe in probes]
    names = ", ".join(list(series)[:4]) or "none"
    fault = f"the test {told(meta.get('NAME'))} has neither a TCP transfer nor a ping (its series: {names})"
    return [Run(workload=STREAM, factors={}, figures={}, **{"fault": fault, **common})]


def _loaded(
    meta: Mapping[str, Any], transfers: Sequence[Transfer], probes: Sequence[Probe], common: dict[str, Any]
) -> Run:
    """A run with transfers. Those of the rrul family ask how latency fares meanwhile, the others do not."""
    is_mixed = "rrul" in told(meta.get("NAME")) and any(probe.times for probe in probes)
    silent = [transfer.name for transfer in transfers if transfer.result is None]
    figures = {} if silent else goodput(transfers)
    factors = {**_stream_factors(transfers), **_address_factor(meta)}
    remarks = []
    if is_mixed:
        begin, end = loaded_time(transfers)
        figures |= latencies(probes, begin, end)
        factors |= _probe_factors(probes)
        kinds = " and ".join(sorted({probe.kind for probe in probes if probe.times}))
        remarks.append(f"its latencies are those of {kinds} probes, not of TCP requests")
    hosts = len(listed(meta.get("HOSTS")))
    if hosts > 1:
        remarks.append(f"its transfers go to {hosts} hosts")
    lacking = number(meta.get("FAILED_RUNNERS")) or 0
    if lacking and not silent:
        remarks.append(f"{lacking:.0f} of Flent's other series have no values")
    if silent and "fault" not in common:
        named = ", ".join(silent[:4])
        common["fault"] = f"without results of {len(silent)} of its {len(transfers)} transfers: {named}"
    return Run(
        workload=MIXED if is_mixed else STREAM,
        factors=factors,
        figures=figures,
        intervals=tuple(intervals(transfers)),
        duration_s=_duration(meta, transfers),
        told_by="receiver",
        remarks=tuple(remarks),
        **common,
    )


def _probed(meta: Mapping[str, Any], probe: Probe, common: dict[str, Any]) -> Run:
    """A run of one kind of probe alone."""
    return Run(
        workload=REQUESTS,
        factors={**_probe_factors([probe]), **_address_factor(meta)},
        figures=probe.figures(),
        duration_s=number(meta.get("LENGTH"), least=0),
        told_by="sender",
        remarks=(f"its requests are {probe.kind} probes, not TCP requests",),
        **common,
    )


def _stream_factors(transfers: Sequence[Transfer]) -> dict[str, Level]:
    forward = sum(t.way == FORWARD for t in transfers)
    reverse = len(transfers) - forward
    if not (forward and reverse):
        streams, direction = len(transfers), FORWARD if forward else REVERSE
    else:
        streams = gcd(forward, reverse)
        direction = f"{forward // streams}/{reverse // streams}"
    raw = {
        "streams": streams,
        "direction": direction,
        "congestion_control": _alike(transfers, "CONG_CONTROL"),
        "message_size": None if (size := _alike(transfers, "SEND_SIZE")) is None else f"{size} B",
    }
    return _levels(raw)


def _probe_factors(probes: Sequence[Probe]) -> dict[str, Level]:
    asking = [probe for probe in probes if probe.times] or probes
    rates = {probe.rate for probe in asking}
    return {
        **_levels({"connections": len(asking), "rate": rates.pop() if len(rates) == 1 else None}),
        "label_probes": ", ".join(sorted({probe.kind for probe in asking})),
    }


def _address_factor(meta: Mapping[str, Any]) -> dict[str, Level]:
    return _levels({"ip_version": told(meta.get("IP_VERSION")) or None})


def _levels(raw: Mapping[str, object]) -> dict[str, Level]:
    """The canonical levels of what is told and can be one of ours."""
    found: dict[str, Level] = {}
    for name, value in raw.items():
        try:
            if value is not None:
                found[name] = parse_level(name, value)
        except BenchError:
            continue
    return found


def _alike(transfers: Sequence[Transfer], key: str) -> object | None:
    """What all transfers tell under that name, where it is the same."""
    first = transfers[0].meta.get(key)
    return (
        first if isinstance(first, str | int) and all(t.meta.get(key) == first for t in transfers) else None
    )


def _duration(meta: Mapping[str, Any], transfers: Sequence[Transfer]) -> float | None:
    times = [number(t.meta.get("ELAPSED_TIME"), least=0) for t in transfers]
    return max((time for time in times if time), default=None) or number(meta.get("LENGTH"), least=0)


def _also(meta: Mapping[str, Any], series: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    named = {"test": "NAME", "title": "TITLE", "note": "NOTE", "host": "HOST", "kernel": "KERNEL_RELEASE"}
    found = {ours: told(meta.get(theirs)) for ours, theirs in named.items()}
    pings = {
        f"{name}, mean": f"{each['MEAN_VALUE']} ms"
        for name, each in series.items()
        if name.startswith("Ping") and number(each.get("MEAN_VALUE")) is not None
    }
    return {name: text for name, text in {**found, **pings}.items() if text}


def _form(document: Mapping[str, Any]) -> int:
    return int(number(document.get("version"), least=1) or 1)


def _time(text: Any) -> datetime | None:
    """`2026-11-21T21:24:17.666403Z`; without the Z before 1.0."""
    try:
        return datetime.fromisoformat(told(text))
    except ValueError:
        return None


def claims(document: Any) -> bool:
    """Whether it is of Flent, or of netperf-wrapper, as it was called before 0.10."""
    meta = mapped(mapped(document).get("metadata"))
    return "FLENT_VERSION" in meta or "NETPERF_WRAPPER_VERSION" in meta
