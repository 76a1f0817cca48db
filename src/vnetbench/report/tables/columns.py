"""The columns of a table of estimates, the same in a terminal, in Markdown and on the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.quantity import format_share, format_exact_share
from vnetbench.search.interface import GoalResult
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.model import FactorLevels, Level
from vnetbench.study.workloads import THROUGHPUT_METRICS
from vnetbench.wording.estimate_text import (
    MetricOwner,
    is_always_zero,
    measured_metrics,
    find_metric,
    metric_scale,
    format_short_estimate,
)
from vnetbench.wording.factor_text import factor_label, level_text
from vnetbench.wording.treatment_names import varying_factors

UNMEASURED_STATES = ("refused", "failed")
_METRICS_BY_IMPORTANCE = (
    *THROUGHPUT_METRICS, "throughput_bps", "max_forwarding_rate_fps", "back_to_back_frames", "buffer_s",
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
_SHORT_LABELS = {
    "throughput_bps": "In bits",
    "forwarding_rate_fps": "Forwarded",
    "max_forwarding_rate_fps": "Most forwarded",
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
    "socket_drop_percent": "At socket",
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
    "forwarder_vcpu_percent": "Forw. vCPU",
    "sender_busy_percent": "Send. busy",
    "receiver_busy_percent": "Recv. busy",
    "first_vm_busy_percent": "1st VM busy",
    "second_vm_busy_percent": "2nd VM busy",
    "sender_vcpu_percent": "Send. vCPU",
    "receiver_vcpu_percent": "Recv. vCPU",
    "first_vm_vcpu_percent": "1st VM's vCPU",
    "second_vm_vcpu_percent": "2nd VM's vCPU",
    "vcpus_cpu_percent": "vCPUs",
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
_SHORT_UNITS = {
    "% of one CPU": "% of 1",
    "% of its CPUs": "% of its",
    "% of all CPUs": "% of all",
    "cycles/B": "/byte",
}


class TableRow(MetricOwner, Protocol):
    """What one line of the table needs of a treatment, at its end or while it runs."""

    @property
    def factors(self) -> Mapping[str, Level]: ...
    @property
    def trials(self) -> int: ...
    @property
    def stopped_by(self) -> str: ...


@dataclass(frozen=True)
class Column:
    """One column. A cell has a line for each mode; every line is complete, none may be cut."""

    key: str
    title: str
    unit: str
    cells: tuple[tuple[str, ...], ...]
    is_number: bool
    ranks: tuple[float, ...] = ()
    """What a table that sorts goes by, a number a cell; empty: it is not sorted by this column."""


def factor_columns(rows: Sequence[TableRow], factors: Sequence[FactorLevels]) -> list[Column]:
    """A column for each factor that varies."""
    return [
        Column(
            f.name,
            factor_label(f.name),
            "",
            tuple(
                (level_text(f.name, row.factors[f.name]),) if f.name in row.factors else ("",) for row in rows
            ),
            f.name in FACTORS and FACTORS[f.name].is_numeric,
            tuple(_level_sort_key(f, row.factors.get(f.name)) for row in rows),
        )
        for f in varying_factors(rows, factors)
    ]


def metric_columns(rows: Sequence[TableRow], main: str) -> list[Column]:
    """A column for each metric that any row has: the main one, always, then the most important first.

    What is zero in every row comes last.
    """
    seen = measured_metrics(rows)
    ranked = [name for name in _METRICS_BY_IMPORTANCE if name in seen and name != main]
    names = [*ranked, *(name for name in seen if name not in (main, *ranked))]
    names.sort(key=lambda name: is_always_zero(rows, name))
    return [_metric_column(rows, name, main) for name in (main, *names)]


def search_columns(rows: Sequence[TableRow]) -> list[Column]:
    """What limited the throughput, and how sure a search is of it by itself; none where none was searched."""
    found = [
        [point.search_answers[0] for point in row.points if point.search_answers]
        for row in rows
        if isinstance(row, TreatmentSummary)
    ]
    if not any(found):
        return []
    limits = [_limit_lines(answers) for answers in found]
    halves = [_max_half_width_share(answers) for answers in found]
    words = sorted(set(limits))
    return [
        Column(
            "limited_by", "Limited by", "", tuple(limits), False,
            tuple(float(words.index(each)) for each in limits),
        ),
        Column(
            "one_search", "One search", "",
            tuple((f"± {format_share(half)}" if half > 0 else "–",) for half in halves), True, tuple(halves),
        ),
    ]  # fmt: skip


def trials_column(rows: Sequence[TableRow]) -> Column:
    """How many trials each estimate rests on."""
    ranks = tuple(float(row.trials) for row in rows)
    return Column("trials", "Trials", "", tuple((str(row.trials),) for row in rows), True, ranks)


def stop_reason_column(rows: Sequence[TableRow]) -> Column:
    """Why the bench stopped repeating, in the words of the results file."""
    words = sorted({row.stopped_by for row in rows})
    ranks = tuple(float(words.index(row.stopped_by)) for row in rows)
    return Column("stopped_by", "Stopped by", "", tuple((row.stopped_by,) for row in rows), False, ranks)


def _level_sort_key(factor: FactorLevels, level: Level | None) -> float:
    """Numbers by themselves, words behind them in the study's order, an absent level last."""
    if level is None:
        return math.inf
    return 1e18 + factor.levels.index(level) if isinstance(level, str) else float(level)


def _limit_lines(answers: Sequence[GoalResult]) -> tuple[str, ...]:
    """What limited the trials: a line, or where it was not always the same a line each."""
    counts = Counter(answer.limited_by for answer in answers)
    if len(counts) == 1:
        return tuple(counts)
    return tuple(f"{reason} ({count})" for reason, count in counts.most_common()) or ("–",)


def _max_half_width_share(answers: Sequence[GoalResult]) -> float:
    """Half of the widest interval, as a share of its throughput; 0 without any."""
    return max(
        ((a.high_fps - a.low_fps) / 2 / a.throughput_fps for a in answers if a.throughput_fps), default=0.0
    )


def _metric_title(rows: Sequence[TableRow], name: str) -> str:
    """A metric's heading; a throughput's by what share of the frames may be lost."""
    goals = next(
        (p.search_answers for row in rows if isinstance(row, TreatmentSummary) for p in row.points if p.search_answers), ()
    )
    if name in THROUGHPUT_METRICS[: len(goals)] and len(goals) > 1:
        lost = f"{format_exact_share(goals[THROUGHPUT_METRICS.index(name)].goal)} lost"
        return f"{find_metric(name).label}, {lost}" if name == THROUGHPUT_METRICS[0] else lost
    return _SHORT_LABELS.get(name, find_metric(name).label)


def _metric_column(rows: Sequence[TableRow], name: str, main: str) -> Column:
    scale = metric_scale(rows, name)
    cells = tuple(
        format_short_estimate(row.metrics[name], name, scale)
        if name in row.metrics
        else ((row.stopped_by,) if name == main and row.stopped_by in UNMEASURED_STATES else ("–",))
        for row in rows
    )
    unit = METRICS[name].unit if name in METRICS else ""
    shown = _SHORT_UNITS.get(unit, scale.unit)
    ranks = tuple(row.metrics[name].value if name in row.metrics else -math.inf for row in rows)
    return Column(name, _metric_title(rows, name), shown, cells, True, ranks)
