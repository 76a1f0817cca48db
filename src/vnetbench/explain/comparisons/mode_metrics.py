"""Classes of metrics in the search for what separates two modes: causes, placement and consequences."""

from __future__ import annotations

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.frames import PERCENT_OF_LOST_FRAMES
from vnetbench.estimate.evidence.placement import CPU_NUMBER_UNIT
from vnetbench.estimate.latency import QUANTILE_BY_PERCENTILE_NAME

DERIVED_METRIC_NAMES_AND_PREFIXES = (
    "goodput_", "transactions_per_", "connections_per_", "datagrams_", "throughput_", "forwarding_rate_",
    "max_forwarding_rate_", "frames", "datagrams", "packets_per_s", "segments_per_s", "calls_per_s",
    "stream_goodput_", "cycles_per_", "latency_", "connect_", "delay_mean_us",
    *(f"delay_{name}_us" for name in QUANTILE_BY_PERCENTILE_NAME), "jitter_", "back_to_back_", "buffer_s",
    "outstanding_",
    "goodput_over_pacing_rate", "in_flight_", "backlog_delay_us", "sender_cpu_percent",
    "receiver_cpu_percent", "first_vm_cpu_percent", "second_vm_cpu_percent", "host_cpu_percent",
    "host_softirq_percent", "server_cpu_percent", "vcpus_cpu_percent", "emulators_cpu_percent",
    "context_switches_per_", "interrupts_per_", "sender_interrupts_per_s", "receiver_interrupts_per_s",
    "sender_cycles_per_byte", "receiver_cycles_per_byte", "net_rx_softirqs_per_s", "kvm_exits_per_s",
    "time_", "cpu_work_time_percent", "packets_time_percent", "load_cpus_", "idle_cpus_elsewhere",
    "shaper_rate_share_percent", "filter_work_percent",
)  # fmt: skip
"""Metrics that follow from the deciding metric: rates, quotients with rates, inverse rates, work per byte.

They correlate with modes of any cause. A name that ends in `_` is a prefix of several names.
"""
_CONNECT_METRICS_THAT_MAY_EXPLAIN_MODES = ("connect_stall_percent", "connect_share_of_stalls_percent")
"""Shares of stalls, not rates or latencies: lost connection requests can explain the modes of `tcp_crr`."""
CAUSE_BY_TIME_METRIC = {
    "programs_time_percent": "other_programs",
    "quota_time_percent": "cpu_quota",
    "hypervisor_time_percent": "steal",
    "time_link_queue_percent": "link_full",
    "time_loss_recovery_percent": "path_loss",
    "time_receive_window_percent": "receive_window",
}
"""Shares of time that belong to a cause. If they differ between the modes, the cause comes and goes."""
MIN_TIME_SHARE_DIFFERENCE_OF_CAUSE_POINTS = 10.0
"""Difference of such a share between two modes that explains them, in percent of the time."""
_DERIVED_METRIC_PREFIXES = tuple(each for each in DERIVED_METRIC_NAMES_AND_PREFIXES if each.endswith("_"))
_LOSS_METRICS_BY_DECIDING_METRIC = {
    "forwarding_rate_fps": ("frame_loss_percent", "loss_percent", "frames_lost_percent")
}
"""Deciding metric to its complementary loss metrics, which show neither where nor why frames are lost."""
DROP_SHARE_METRIC_NAMES = tuple(
    name for name, metric in EVIDENCE_METRICS.items() if metric.unit == PERCENT_OF_LOST_FRAMES
)
_IDLE_LATENCY_PREFIX, _LATENCY_INCREASE_PREFIX = "latency_idle_", "latency_increase_"
"""Prefixes of latencies before the load, and of latencies from which those are subtracted."""

PLACEMENT_METRIC_NAMES = (
    "threads_on_one_cpu_percent", "sender_on_softirq_cpu_percent", "receiver_on_softirq_cpu_percent",
    "sender_cpu", "receiver_cpu", "softirq_cpu", "sender_cpus_softirq_percent",
    "receiver_cpus_softirq_percent", "busiest_receive_cpu_percent", "receive_cpus",
    "busiest_queue_percent", "busiest_uplink_percent", "foreign_traffic_percent", "other_work_cpus",
    "steal_percent", "worst_steal_percent", "mtu_bytes", "tso_off", "gso_off", "gro_off", "lro_off",
    "checksum_off", "block", "after_treatment",
)  # fmt: skip
"""Metrics of where and how a trial ran, most specific first.

They do not depend on the rate, so they come before metrics of consequences (waits, drops) that separate the
modes equally well.
"""

SHARED_CPU_METRIC_NAMES = (
    "threads_on_one_cpu_percent",
    "sender_on_softirq_cpu_percent",
    "receiver_on_softirq_cpu_percent",
)
"""Shares of samples that are close to 0 or 100 % if a trial keeps its placement."""
CONCENTRATION_METRIC_NAMES = (
    "busiest_receive_cpu_percent",
    "busiest_queue_percent",
    "busiest_uplink_percent",
)
"""Shares that form two groups if they have two modes themselves."""
OTHER_LOAD_METRIC_NAMES = ("other_work_cpus", "steal_percent", "worst_steal_percent")
LABEL_BY_TRIAL_ORDER_METRIC = {"block": "block of the campaign", "after_treatment": "previous treatment"}
NOMINAL_METRIC_NAMES = frozenset(
    {
        "after_treatment",
        *(metric.name for metric in EVIDENCE_METRICS.values() if metric.unit == CPU_NUMBER_UNIT),
    }
)


def is_consequence_of(metric: str, deciding_metric: str) -> bool:
    """Return whether a metric follows from the deciding metric, so that it cannot explain its modes."""
    if metric.startswith(_IDLE_LATENCY_PREFIX):
        return deciding_metric.startswith(_LATENCY_INCREASE_PREFIX)
    if metric in CAUSE_BY_TIME_METRIC or metric in _CONNECT_METRICS_THAT_MAY_EXPLAIN_MODES:
        return False
    complements = _LOSS_METRICS_BY_DECIDING_METRIC.get(deciding_metric, ())
    return (
        metric in DERIVED_METRIC_NAMES_AND_PREFIXES
        or metric in complements
        or metric.startswith(_DERIVED_METRIC_PREFIXES)
    )
