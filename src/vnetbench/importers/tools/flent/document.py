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
from vnetbench.importers.runs import Run
from vnetbench.importers.tools.flent.json_values import (
    list_or_empty,
    object_or_empty,
    parse_finite_number_or_none,
    scalar_text_or_empty,
)
from vnetbench.importers.tools.flent.probes import PingSeries, latency_metrics, parse_ping_series
from vnetbench.importers.tools.flent.transfers import (
    Transfer,
    build_intervals,
    first_start_and_last_end_unix_s,
    goodput_metrics,
    parse_transfer,
)
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level
from vnetbench.study.workloads import MIXED, TCP_RR, TCP_STREAM

NEWEST_FORMAT_VERSION = 4
"""`FILEFORMAT_VERSION` in resultset.py."""


def read_runs_of_document(document: Any, first_line: int, last_line: int) -> list[Run]:
    """Return the run of a document with transfers, or else a run for each kind of probe."""
    meta = object_or_empty(document["metadata"])
    values = object_or_empty(document.get("raw_values"))
    series = {name: object_or_empty(each) for name, each in object_or_empty(meta.get("SERIES_META")).items()}
    points = {
        name: list_or_empty(values.get(name)) or list_or_empty(each.get("RAW_VALUES"))
        for name, each in series.items()
    }
    transfers = [t for name, each in series.items() if (t := parse_transfer(name, each, points[name]))]
    probes = [p for name, each in series.items() if (p := parse_ping_series(name, each, points[name]))]
    common: dict[str, Any] = {
        "tool": "flent",
        "version": scalar_text_or_empty(meta.get("FLENT_VERSION") or meta.get("NETPERF_WRAPPER_VERSION")),
        "first_line": first_line,
        "last_line": last_line,
        "started_at": _parse_time(meta.get("TIME")),
        "other_results": _collect_other_results(meta, series),
    }
    version = _find_format_version(document)
    if version > NEWEST_FORMAT_VERSION:
        common["failure"] = (
            f"the file has format version {version}, but vnetbench reads versions up to "
            f"{NEWEST_FORMAT_VERSION}"
        )
    if transfers:
        return [_build_load_run(meta, transfers, probes, common)]
    if probes:
        return [_build_probe_run(meta, probe, common) for probe in probes]
    names = ", ".join(list(series)[:4]) or "none"
    failure = (
        f"the test {scalar_text_or_empty(meta.get('NAME'))} contains neither a TCP transfer nor a ping, only "
        f"the series {names}"
    )
    return [Run(workload=TCP_STREAM, factors={}, metrics={}, **{"failure": failure, **common})]


def _build_load_run(
    meta: Mapping[str, Any],
    transfers: Sequence[Transfer],
    probes: Sequence[PingSeries],
    common_run_fields: dict[str, Any],
) -> Run:
    """Return a run with transfers.

    Tests of the rrul family also measure latency under load, others do not.
    """
    is_mixed = "rrul" in scalar_text_or_empty(meta.get("NAME")) and any(
        probe.round_trip_us_by_send_unix_time for probe in probes
    )
    without_result = [transfer.series_name for transfer in transfers if transfer.reported_rate_mbps is None]
    metrics = {} if without_result else goodput_metrics(transfers)
    factors = {**_build_stream_factors(transfers), **_build_ip_version_factor(meta)}
    remarks = []
    if is_mixed:
        begin, end = first_start_and_last_end_unix_s(transfers)
        metrics |= latency_metrics(probes, begin, end)
        factors |= _build_probe_factors(probes)
        kinds = " and ".join(
            sorted({probe.protocol for probe in probes if probe.round_trip_us_by_send_unix_time})
        )
        remarks.append(f"The latencies are those of {kinds} probes, not of TCP requests.")
    hosts = len(list_or_empty(meta.get("HOSTS")))
    if hosts > 1:
        remarks.append(f"The transfers go to {hosts} hosts.")
    missing = parse_finite_number_or_none(meta.get("FAILED_RUNNERS")) or 0
    if missing and not without_result:
        remarks.append(f"The file has no values for {missing:.0f} series.")
    if without_result and "failure" not in common_run_fields:
        named = ", ".join(without_result[:4])
        common_run_fields["failure"] = (
            f"{len(without_result)} of {len(transfers)} transfers have no result ({named})"
        )
    return Run(
        workload=MIXED if is_mixed else TCP_STREAM,
        factors=factors,
        metrics=metrics,
        intervals=tuple(build_intervals(transfers)),
        measured_duration_s=_find_duration_s(meta, transfers),
        reported_by="receiver",
        remarks=tuple(remarks),
        **common_run_fields,
    )


def _build_probe_run(meta: Mapping[str, Any], probe: PingSeries, common_run_fields: dict[str, Any]) -> Run:
    """Return a run of one kind of probe."""
    return Run(
        workload=TCP_RR,
        factors={**_build_probe_factors([probe]), **_build_ip_version_factor(meta)},
        metrics=probe.metrics(),
        measured_duration_s=parse_finite_number_or_none(meta.get("LENGTH"), minimum=0),
        reported_by="sender",
        remarks=(f"The requests are {probe.protocol} probes, not TCP requests.",),
        **common_run_fields,
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
        "congestion_control": _find_value_common_to_transfers(transfers, "CONG_CONTROL"),
        "message_size": None
        if (size := _find_value_common_to_transfers(transfers, "SEND_SIZE")) is None
        else f"{size} B",
    }
    return _parse_valid_levels(raw)


def _build_probe_factors(probes: Sequence[PingSeries]) -> dict[str, Level]:
    asking = [probe for probe in probes if probe.round_trip_us_by_send_unix_time] or probes
    rates = {probe.ping_rate_level for probe in asking}
    return {
        **_parse_valid_levels({"connections": len(asking), "rate": rates.pop() if len(rates) == 1 else None}),
        "label_probes": ", ".join(sorted({probe.protocol for probe in asking})),
    }


def _build_ip_version_factor(meta: Mapping[str, Any]) -> dict[str, Level]:
    return _parse_valid_levels({"ip_version": scalar_text_or_empty(meta.get("IP_VERSION")) or None})


def _parse_valid_levels(raw: Mapping[str, object]) -> dict[str, Level]:
    """Return the canonical levels of the values that are valid."""
    levels: dict[str, Level] = {}
    for name, value in raw.items():
        try:
            if value is not None:
                levels[name] = parse_level(name, value)
        except BenchError:
            continue
    return levels


def _find_value_common_to_transfers(transfers: Sequence[Transfer], key: str) -> object | None:
    """Return the value of this key if all transfers have the same one."""
    first = transfers[0].series_metadata.get(key)
    return (
        first
        if isinstance(first, str | int) and all(t.series_metadata.get(key) == first for t in transfers)
        else None
    )


def _find_duration_s(meta: Mapping[str, Any], transfers: Sequence[Transfer]) -> float | None:
    times = [parse_finite_number_or_none(t.series_metadata.get("ELAPSED_TIME"), minimum=0) for t in transfers]
    return max((time for time in times if time), default=None) or parse_finite_number_or_none(
        meta.get("LENGTH"), minimum=0
    )


def _collect_other_results(
    meta: Mapping[str, Any], series_metadata_by_name: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    named = {"test": "NAME", "title": "TITLE", "note": "NOTE", "host": "HOST", "kernel": "KERNEL_RELEASE"}
    results = {ours: scalar_text_or_empty(meta.get(theirs)) for ours, theirs in named.items()}
    pings = {
        f"{name}, mean": f"{each['MEAN_VALUE']} ms"
        for name, each in series_metadata_by_name.items()
        if name.startswith("Ping") and parse_finite_number_or_none(each.get("MEAN_VALUE")) is not None
    }
    return {name: text for name, text in {**results, **pings}.items() if text}


def _find_format_version(document: Mapping[str, Any]) -> int:
    return int(parse_finite_number_or_none(document.get("version"), minimum=1) or 1)


def _parse_time(text: Any) -> datetime | None:
    """Parse `2026-11-21T21:24:17.666403Z`. Before 1.0 there is no Z."""
    try:
        return datetime.fromisoformat(scalar_text_or_empty(text))
    except ValueError:
        return None


def is_flent_document(document: Any) -> bool:
    """Return whether the document is from Flent, or from netperf-wrapper as it was called before 0.10."""
    meta = object_or_empty(object_or_empty(document).get("metadata"))
    return "FLENT_VERSION" in meta or "NETPERF_WRAPPER_VERSION" in meta
