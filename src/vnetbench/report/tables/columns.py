"""The columns of a table of estimates, for the terminal, Markdown and the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.quantity import format_exact_share, format_share
from vnetbench.search.interface import GoalResult
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.model import FactorLevels, Level
from vnetbench.study.workloads import THROUGHPUT_METRIC_NAMES
from vnetbench.wording.estimate_text import (
    MetricOwner,
    choose_metric_scale,
    find_metric,
    format_estimate_lines,
    is_always_zero,
    measured_metrics,
)
from vnetbench.wording.factor_text import factor_title, level_text
from vnetbench.wording.treatment_names import varying_factors

STATES_WITHOUT_MEASUREMENT = ("refused", "failed")
_METRICS_IN_COLUMN_ORDER = (
    "outage_s", "outage_shortest_s", "stall_s", "stall_shortest_s", "event_s", "background_gap_s",
    "recovery_s", "outage_by_numbers_s", "outage_lost_datagrams", "stall_timeouts", "stall_retransmits",
    *THROUGHPUT_METRIC_NAMES, "throughput_bps", "max_forwarding_rate_fps", "back_to_back_frames", "buffer_s",
    "frame_loss_percent",
    "datagrams_received_per_s", "loss_percent", "delay_p50_us", "delay_p99_us", "delay_p99_9_us",
    "delay_p99_99_us", "delay_p99_999_us", "forwarding_rate_fps", "offered_load_fps", "datagrams_sent_per_s",
    "socket_drop_percent", "jitter_us", "gap_deviation_us", "reordered_percent",
    "goodput_bps", "goodput_forward_bps", "goodput_reverse_bps", "latency_increase_p50_us",
    "latency_increase_p99_us", "latency_idle_p50_us", "latency_idle_p99_us", "transactions_per_s",
    "connections_per_s", "connect_p50_us", "connect_p99_us",
    "latency_p50_us", "latency_p99_us", "latency_p99_9_us", "outstanding_at_end",
    "switch_drops_per_s", "forwarder_busy_percent", "forwarder_vcpu_percent", "receiver_busy_percent",
    "receiver_vcpu_percent", "busiest_vcpu_percent",
    "receiver_cpu_percent", "cycles_per_byte", "receiver_cycles_per_byte", "sender_cycles_per_byte",
    "cycles_per_transaction", "cycles_per_datagram",
    "sender_cpu_percent", "second_vm_cpu_percent", "first_vm_cpu_percent", "packets_per_s",
    "mean_segment_bytes", "retransmits_per_s", "rtt_us", "server_cpu_percent", "interrupts_per_s",
    "host_cpu_percent",
)  # fmt: skip
_SHORT_LABEL_BY_METRIC = {
    "background_gap_s": "No event",
    "outage_by_numbers_s": "By numbers",
    "outage_lost_datagrams": "Lost",
    "throughput_bps": "Bit rate",
    "forwarding_rate_fps": "Forwarded",
    "max_forwarding_rate_fps": "Max. forwarded",
    "offered_load_fps": "Offered",
    "frame_loss_percent": "Lost",
    "delay_p50_us": "Delay, 50 %",
    "delay_p99_us": "Delay, 99 %",
    "delay_p99_9_us": "Delay, 99.9 %",
    "delay_p99_99_us": "Delay, 99.99 %",
    "delay_p99_999_us": "Delay, 99.999 %",
    "transactions_per_s": "Transactions",
    "latency_increase_p50_us": "Increase, 50 %",
    "latency_increase_p99_us": "Increase, 99 %",
    "connections_per_s": "Connections",
    "outstanding_at_end": "Outstanding",
    "cycles_per_transaction": "Cycles/trans.",
    "cycles_per_datagram": "Cycles/datagr.",
    "datagrams_received_per_s": "Received",
    "datagrams_sent_per_s": "Offered",
    "socket_drop_percent": "Socket drops",
    "context_switches_per_transaction": "Switches/trans.",
    "interrupts_per_transaction": "Interr./trans.",
    "packets_per_transaction": "Pkts/trans.",
    "goodput_forward_bps": "Forward",
    "goodput_reverse_bps": "Reverse",
    "receiver_cpu_percent": "Recv. CPU",
    "sender_cpu_percent": "Send. CPU",
    "first_vm_cpu_percent": "1st VM's CPU",
    "second_vm_cpu_percent": "2nd VM's CPU",
    "forwarder_busy_percent": "Forw. busy",
    "forwarder_vcpu_percent": "Forwarder's vCPU use",
    "sender_busy_percent": "Send. busy",
    "receiver_busy_percent": "Recv. busy",
    "first_vm_busy_percent": "1st VM busy",
    "second_vm_busy_percent": "2nd VM busy",
    "sender_vcpu_percent": "Sender's vCPU use",
    "receiver_vcpu_percent": "Receiver's vCPU use",
    "first_vm_vcpu_percent": "1st VM's vCPU use",
    "second_vm_vcpu_percent": "2nd VM's vCPU use",
    "vcpus_cpu_percent": "vCPU use",
    "busiest_vcpu_percent": "Busiest vCPU",
    "emulators_cpu_percent": "Emulators",
    "switch_drops_per_s": "Switch drops",
    "cycles_per_byte": "Cycles",
    "host_softirq_percent": "Soft-int. CPU",
    "net_rx_softirqs_per_s": "NET_RX",
    "packets_per_interrupt": "Pkts/interr.",
    "context_switches_per_s": "Switches",
    "server_cpu_percent": "Server CPU",
    "server_retransmits": "Server retr.",
    "sender_cycles_per_byte": "Send. cycles",
    "sender_interrupts_per_s": "Send. interr.",
    "sender_retransmits_per_s": "Send. retr.",
}
_SHORT_UNIT_BY_UNIT = {
    "% of one CPU": "% of 1",
    "% of its CPUs": "% of its",
    "% of all CPUs": "% of all",
    "cycles/B": "/byte",
}


class TreatmentRow(MetricOwner, Protocol):
    """A treatment as a table shows it, finished or still running."""

    @property
    def factors(self) -> Mapping[str, Level]:
        """Level of each factor."""

    @property
    def trial_count(self) -> int:
        """Number of finished trials."""

    @property
    def stop_reason(self) -> str:
        """Why the treatment stopped, in the terms of the results file."""


@dataclass(frozen=True)
class Column:
    """One column of a table. A cell has one line per mode; a line is never cut off."""

    key: str
    title: str
    unit: str
    cells: tuple[tuple[str, ...], ...]
    is_number: bool
    sort_keys: tuple[float, ...] = ()
    """A number per cell to sort the table by; empty for a column that does not sort."""


def factor_columns(rows: Sequence[TreatmentRow], factors: Sequence[FactorLevels]) -> list[Column]:
    """Return a column for each varying factor."""
    return [
        Column(
            f.name,
            factor_title(f.name),
            "",
            tuple(
                (level_text(f.name, row.factors[f.name]),) if f.name in row.factors else ("",) for row in rows
            ),
            f.name in FACTORS and FACTORS[f.name].is_numeric,
            tuple(_level_sort_key(f, row.factors.get(f.name)) for row in rows),
        )
        for f in varying_factors(rows, factors)
    ]


def metric_columns(rows: Sequence[TreatmentRow], deciding_metric: str) -> list[Column]:
    """Return a column for each measured metric: the deciding metric first, then by importance.

    Metrics that are zero in every row come last.
    """
    measured = measured_metrics(rows)
    others = [name for name in _METRICS_IN_COLUMN_ORDER if name in measured and name != deciding_metric]
    others += [name for name in measured if name not in (deciding_metric, *others)]
    others.sort(key=lambda name: is_always_zero(rows, name))
    return [_metric_column(rows, name, deciding_metric) for name in (deciding_metric, *others)]


def search_columns(rows: Sequence[TreatmentRow]) -> list[Column]:
    """Return what limited the throughput and the widest interval of one search; empty without searches."""
    goal_results = [
        [point.goal_results[0] for point in row.points if point.goal_results]
        for row in rows
        if isinstance(row, TreatmentSummary)
    ]
    if not any(goal_results):
        return []
    limits = [_limited_by_lines(results) for results in goal_results]
    half_widths = [_max_half_width_over_throughput(results) for results in goal_results]
    distinct_limits = sorted(set(limits))
    limit_keys = tuple(float(distinct_limits.index(each)) for each in limits)
    half_width_cells = tuple((f"± {format_share(each)}" if each > 0 else "–",) for each in half_widths)
    return [
        Column("limited_by", "Limited by", "", tuple(limits), False, limit_keys),
        Column("one_search", "One search", "", half_width_cells, True, tuple(half_widths)),
    ]


def trials_column(rows: Sequence[TreatmentRow]) -> Column:
    """Return the number of trials of each treatment."""
    cells = tuple((str(row.trial_count),) for row in rows)
    return Column("trials", "Trials", "", cells, True, tuple(float(row.trial_count) for row in rows))


def stop_reason_column(rows: Sequence[TreatmentRow]) -> Column:
    """Return why each treatment stopped, in the terms of the results file."""
    reasons = sorted({row.stop_reason for row in rows})
    sort_keys = tuple(float(reasons.index(row.stop_reason)) for row in rows)
    cells = tuple((row.stop_reason,) for row in rows)
    return Column("stopped_by", "Stopped by", "", cells, False, sort_keys)


def _level_sort_key(factor: FactorLevels, level: Level | None) -> float:
    """Return a key that sorts numbers first, then words in the study's order, then absent levels."""
    if level is None:
        return math.inf
    if not isinstance(level, str):
        return float(level)
    # A file may have a level that its study lacks; it is the last.
    return 1e18 + (factor.levels.index(level) if level in factor.levels else len(factor.levels))


def _limited_by_lines(results: Sequence[GoalResult]) -> tuple[str, ...]:
    """Return a line per limit of the trials, with counts if the limits differ."""
    counts = Counter(result.limited_by for result in results)
    if len(counts) == 1:
        return tuple(counts)
    return tuple(f"{limit} ({count})" for limit, count in counts.most_common()) or ("–",)


def _max_half_width_over_throughput(results: Sequence[GoalResult]) -> float:
    """Return half the width of the widest interval as a share of its throughput; 0 without intervals."""
    shares = ((r.high_fps - r.low_fps) / 2 / r.throughput_fps for r in results if r.throughput_fps)
    return max(shares, default=0.0)


def _metric_title(rows: Sequence[TreatmentRow], name: str) -> str:
    """Return the heading of a metric; the heading of a throughput contains its loss goal."""
    points = [point for row in rows if isinstance(row, TreatmentSummary) for point in row.points]
    results = next((point.goal_results for point in points if point.goal_results), ())
    if len(results) > 1 and name in THROUGHPUT_METRIC_NAMES[: len(results)]:
        goal = f"{format_exact_share(results[THROUGHPUT_METRIC_NAMES.index(name)].goal)} loss"
        return f"{find_metric(name).label}, {goal}" if name == THROUGHPUT_METRIC_NAMES[0] else goal
    return _SHORT_LABEL_BY_METRIC.get(name, find_metric(name).label)


def _metric_column(rows: Sequence[TreatmentRow], name: str, deciding_metric: str) -> Column:
    scale = choose_metric_scale(rows, name)
    cells: list[tuple[str, ...]] = []
    for row in rows:
        if name in row.metrics:
            cells.append(format_estimate_lines(row.metrics[name], name, scale))
        elif name == deciding_metric and row.stop_reason in STATES_WITHOUT_MEASUREMENT:
            cells.append((row.stop_reason,))
        else:
            cells.append(("–",))
    unit = METRICS[name].unit if name in METRICS else ""
    sort_keys = tuple(row.metrics[name].value if name in row.metrics else -math.inf for row in rows)
    title = _metric_title(rows, name)
    return Column(name, title, _SHORT_UNIT_BY_UNIT.get(unit, scale.unit), tuple(cells), True, sort_keys)
