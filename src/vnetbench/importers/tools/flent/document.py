"""Build runs from a document of Flent: one run with all transfers, or else one run for each kind of ping.

The keys are documented by Flent's source (2.3.0): `resultset.py` writes the document, `runners.py` fills the
series from the output of netperf, ping, fping and irtt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import gcd
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.importers.runs import FORWARD, REVERSE, Run
from vnetbench.importers.tools.flent.json_values import as_list, as_number, as_object, as_text
from vnetbench.importers.tools.flent.probes import Probe, latency_metrics, parse_probe
from vnetbench.importers.tools.flent.transfers import (
    Transfer,
    build_intervals,
    goodput_metrics,
    load_period,
    parse_transfer,
)
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level
from vnetbench.study.workloads import MIXED, TCP_RR, TCP_STREAM

NEWEST_FORMAT = 4
"""`FILEFORMAT_VERSION` in resultset.py."""


def read_runs(document: Any, first_line: int, last_line: int) -> list[Run]:
    """Return the run of a document with transfers, or else a run for each kind of probe."""
    meta = as_object(document["metadata"])
    values = as_object(document.get("raw_values"))
    series = {name: as_object(each) for name, each in as_object(meta.get("SERIES_META")).items()}
    points = {
        name: as_list(values.get(name)) or as_list(each.get("RAW_VALUES")) for name, each in series.items()
    }
    transfers = [t for name, each in series.items() if (t := parse_transfer(name, each, points[name]))]
    probes = [p for name, each in series.items() if (p := parse_probe(name, each, points[name]))]
    common: dict[str, Any] = {
        "tool": "flent",
        "version": as_text(meta.get("FLENT_VERSION") or meta.get("NETPERF_WRAPPER_VERSION")),
        "first_line": first_line,
        "last_line": last_line,
        "started_at": _parse_time(meta.get("TIME")),
        "other_results": _collect_other_results(meta, series),
    }
    version = _format_version(document)
    if version > NEWEST_FORMAT:
        common["failure"] = (
            f"the file has format version {version}; the newest supported one is {NEWEST_FORMAT}"
        )
    if transfers:
        return [_load_run(meta, transfers, probes, common)]
    if probes:
        return [_probe_run(meta, probe, common) for probe in probes]
    names = ", ".join(list(series)[:4]) or "none"
    failure = (
        f"the test {as_text(meta.get('NAME'))} has neither a TCP transfer nor a ping (its series: {names})"
    )
    return [Run(workload=TCP_STREAM, factors={}, metrics={}, **{"failure": failure, **common})]


def _load_run(
    meta: Mapping[str, Any], transfers: Sequence[Transfer], probes: Sequence[Probe], common: dict[str, Any]
) -> Run:
    """Return a run with transfers.

    Tests of the rrul family also measure latency under load, others do not.
    """
    is_mixed = "rrul" in as_text(meta.get("NAME")) and any(probe.times for probe in probes)
    without_result = [transfer.name for transfer in transfers if transfer.result is None]
    metrics = {} if without_result else goodput_metrics(transfers)
    factors = {**_build_stream_factors(transfers), **_build_address_factor(meta)}
    remarks = []
    if is_mixed:
        begin, end = load_period(transfers)
        metrics |= latency_metrics(probes, begin, end)
        factors |= _build_probe_factors(probes)
        kinds = " and ".join(sorted({probe.protocol for probe in probes if probe.times}))
        remarks.append(f"The latencies are those of {kinds} probes, not of TCP requests.")
    hosts = len(as_list(meta.get("HOSTS")))
    if hosts > 1:
        remarks.append(f"The transfers go to {hosts} hosts.")
    missing = as_number(meta.get("FAILED_RUNNERS")) or 0
    if missing and not without_result:
        remarks.append(f"Flent has no values for {missing:.0f} of the other series.")
    if without_result and "failure" not in common:
        named = ", ".join(without_result[:4])
        common["failure"] = f"{len(without_result)} of {len(transfers)} transfers have no result: {named}"
    return Run(
        workload=MIXED if is_mixed else TCP_STREAM,
        factors=factors,
        metrics=metrics,
        intervals=tuple(build_intervals(transfers)),
        duration_s=_find_duration(meta, transfers),
        reported_by="receiver",
        remarks=tuple(remarks),
        **common,
    )


def _probe_run(meta: Mapping[str, Any], probe: Probe, common: dict[str, Any]) -> Run:
    """Return a run of one kind of probe."""
    return Run(
        workload=TCP_RR,
        factors={**_build_probe_factors([probe]), **_build_address_factor(meta)},
        metrics=probe.metrics(),
        duration_s=as_number(meta.get("LENGTH"), least=0),
        reported_by="sender",
        remarks=(f"The requests are {probe.protocol} probes, not TCP requests.",),
        **common,
    )


def _build_stream_factors(transfers: Sequence[Transfer]) -> dict[str, Level]:
    forward = sum(t.direction == FORWARD for t in transfers)
    reverse = len(transfers) - forward
    if not (forward and reverse):
        streams, direction = len(transfers), FORWARD if forward else REVERSE
    else:
        streams = gcd(forward, reverse)
        direction = f"{forward // streams}/{reverse // streams}"
    raw = {
        "streams": streams,
        "direction": direction,
        "congestion_control": _find_common_value(transfers, "CONG_CONTROL"),
        "message_size": None if (size := _find_common_value(transfers, "SEND_SIZE")) is None else f"{size} B",
    }
    return _parse_levels(raw)


def _build_probe_factors(probes: Sequence[Probe]) -> dict[str, Level]:
    asking = [probe for probe in probes if probe.times] or probes
    rates = {probe.rate for probe in asking}
    return {
        **_parse_levels({"connections": len(asking), "rate": rates.pop() if len(rates) == 1 else None}),
        "label_probes": ", ".join(sorted({probe.protocol for probe in asking})),
    }


def _build_address_factor(meta: Mapping[str, Any]) -> dict[str, Level]:
    return _parse_levels({"ip_version": as_text(meta.get("IP_VERSION")) or None})


def _parse_levels(raw: Mapping[str, object]) -> dict[str, Level]:
    """Return the canonical levels of the values that are valid."""
    levels: dict[str, Level] = {}
    for name, value in raw.items():
        try:
            if value is not None:
                levels[name] = parse_level(name, value)
        except BenchError:
            continue
    return levels


def _find_common_value(transfers: Sequence[Transfer], key: str) -> object | None:
    """Return the value of this key if all transfers have the same one."""
    first = transfers[0].meta.get(key)
    return (
        first if isinstance(first, str | int) and all(t.meta.get(key) == first for t in transfers) else None
    )


def _find_duration(meta: Mapping[str, Any], transfers: Sequence[Transfer]) -> float | None:
    times = [as_number(t.meta.get("ELAPSED_TIME"), least=0) for t in transfers]
    return max((time for time in times if time), default=None) or as_number(meta.get("LENGTH"), least=0)


def _collect_other_results(
    meta: Mapping[str, Any], series: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    named = {"test": "NAME", "title": "TITLE", "note": "NOTE", "host": "HOST", "kernel": "KERNEL_RELEASE"}
    results = {ours: as_text(meta.get(theirs)) for ours, theirs in named.items()}
    pings = {
        f"{name}, mean": f"{each['MEAN_VALUE']} ms"
        for name, each in series.items()
        if name.startswith("Ping") and as_number(each.get("MEAN_VALUE")) is not None
    }
    return {name: text for name, text in {**results, **pings}.items() if text}


def _format_version(document: Mapping[str, Any]) -> int:
    return int(as_number(document.get("version"), least=1) or 1)


def _parse_time(text: Any) -> datetime | None:
    """Parse `2026-11-21T21:24:17.666403Z`. Before 1.0 there is no Z."""
    try:
        return datetime.fromisoformat(as_text(text))
    except ValueError:
        return None


def is_flent_document(document: Any) -> bool:
    """Return whether the document is from Flent, or from netperf-wrapper as it was called before 0.10."""
    meta = as_object(as_object(document).get("metadata"))
    return "FLENT_VERSION" in meta or "NETPERF_WRAPPER_VERSION" in meta
