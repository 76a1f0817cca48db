"""Whether an injected cause had an effect, compared with the same load without it."""

from __future__ import annotations

import statistics
from typing import Any

EFFECT = "effect"
NO_EFFECT = "no effect"
FAILED = "failed"
UNKNOWN = "unknown"
RATE_CHANGE = 0.85
"""A rate counts as worse from 15 % below the control."""
LATENCY_CHANGE = 2.0
"""A latency counts as worse from twice that of the control."""
LOSS_CHANGE_PERCENT = 0.3
"""Loss counts as worse from this many percentage points above the control."""
RATES = ("goodput_bps", "transactions_per_s", "connections_per_s", "datagrams_received_per_s")
LATENCIES = ("latency_p99_us", "connect_p99_us", "delay_p99_us")
LOSSES = ("loss_percent",)


def trial_values(shown: dict[str, Any], metric: str) -> list[float]:
    """Return a metric of every trial of the first treatment in the output of `show --json`."""
    treatments = shown.get("treatments") or [{}]
    return [trial["values"][metric] for trial in treatments[0].get("trials", ()) if metric in trial["values"]]


def is_failed(shown: dict[str, Any]) -> bool:
    """Return whether the run has no finished trial, or failures."""
    treatments = shown.get("treatments") or []
    return not treatments or not treatments[0].get("trials") or bool(treatments[0].get("failures"))


def compare(shown: dict[str, Any], control: dict[str, Any] | None) -> tuple[str, dict[str, float]]:
    """Compare a run with its control.

    A cause has an effect if one metric is worse in the median by the share above, and no trial of the run is
    as good as the worst trial of the control. A run that fails although its control does not has an effect.

    Returns:
        The verdict, and the ratio to the control of every metric that both runs have.
    """
    if control is None or is_failed(control):
        return UNKNOWN, {}
    if is_failed(shown):
        return FAILED, {}
    changes: dict[str, float] = {}
    is_worse = False
    for metric in (*RATES, *LATENCIES, *LOSSES):
        with_fault, without = trial_values(shown, metric), trial_values(control, metric)
        if not without:
            continue
        if not with_fault and metric in RATES:
            with_fault = [0.0]  # Nothing was completed.
        if not with_fault:
            continue
        here, there = statistics.median(with_fault), statistics.median(without)
        if metric in LOSSES:
            changes[metric] = here - there
            is_worse |= here - there > LOSS_CHANGE_PERCENT and min(with_fault) > max(without)
        else:
            changes[metric] = here / there if there else 1.0
            if metric in RATES:
                is_worse |= changes[metric] < RATE_CHANGE and max(with_fault) < min(without)
            else:
                is_worse |= changes[metric] > LATENCY_CHANGE and min(with_fault) > max(without)
    return (EFFECT if is_worse else NO_EFFECT), changes
