"""Time series of the evidence metrics that are near their limit, for charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.evidence.aggregation import (
    largest,
    percent_at_most_100,
    percent_of_sampled_time,
    sum_known_values,
)
from vnetbench.estimate.evidence.flows import collect_flows, select_load_flows
from vnetbench.estimate.evidence.kernels import collect_kernels, max_softirq_percent
from vnetbench.estimate.evidence.ports import collect_ports
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import interval_lengths_s
from vnetbench.results.records import HOST, OBSERVE


@dataclass(frozen=True)
class _PlottedMetric:
    """An evidence metric that is worth a chart from a threshold on."""

    min_plotted_value: float
    """Smallest value in the steady part for which the time series is kept."""
    compute: Callable[[SteadyPart], float | None]
    """Returns the metric of a single interval of a trial."""


def _busiest_sender_percent_of(counter: str) -> Callable[[SteadyPart], float | None]:
    return lambda part: largest(percent_of_sampled_time(samples, counter) for _, samples in part.senders)


def _busiest_receiver_percent_of(counter: str) -> Callable[[SteadyPart], float | None]:
    return lambda part: largest(percent_of_sampled_time(samples, counter) for _, samples in part.receivers)


def _rwnd_limited_percent(part: SteadyPart) -> float | None:
    flows = select_load_flows(collect_flows(part), "source")
    limited_s = sum_known_values(*(flow.total("rwnd_limited_s") for flow in flows))
    return percent_at_most_100(limited_s, sum(flow.duration_s for flow in flows))


_PLOTTED_METRICS: Mapping[str, _PlottedMetric] = {
    "sender_thread_busy_percent": _PlottedMetric(50, _busiest_sender_percent_of("busiest_thread_cpu_s")),
    "receiver_thread_busy_percent": _PlottedMetric(50, _busiest_receiver_percent_of("busiest_thread_cpu_s")),
    "sender_thread_waiting_percent": _PlottedMetric(
        20, _busiest_sender_percent_of("busiest_thread_waited_s")
    ),
    "receiver_thread_waiting_percent": _PlottedMetric(
        20, _busiest_receiver_percent_of("busiest_thread_waited_s")
    ),
    "sender_throttled_percent": _PlottedMetric(5, _busiest_sender_percent_of("cgroup_throttled_s")),
    "receiver_throttled_percent": _PlottedMetric(5, _busiest_receiver_percent_of("cgroup_throttled_s")),
    "busiest_cpu_softirq_percent": _PlottedMetric(
        50, lambda part: max_softirq_percent(collect_kernels(part))
    ),
    "rwnd_limited_percent": _PlottedMetric(20, _rwnd_limited_percent),
    "backlog_bytes": _PlottedMetric(
        65536, lambda part: largest(port.median_backlog_bytes for port in collect_ports(part, {}))
    ),
}


def near_limit_evidence_series(
    data: TrialData, evidence: Mapping[str, float]
) -> dict[str, tuple[float, ...]]:
    """Return evidence metrics near their limit in each interval under load, warm-up included.

    A metric that is unknown in one of the intervals is absent.

    Args:
        data: The data of the trial.
        evidence: The evidence of its steady part.
    """
    plotted = [
        name
        for name, metric in _PLOTTED_METRICS.items()
        if evidence.get(name, 0.0) >= metric.min_plotted_value
    ]
    intervals = _split_into_sample_intervals(data.steady_part) if plotted else ()
    values = {name: [_PLOTTED_METRICS[name].compute(each) for each in intervals] for name in plotted}
    known = {name: [value for value in series if value is not None] for name, series in values.items()}
    return {name: tuple(series) for name, series in known.items() if len(series) == len(intervals)}


def _split_into_sample_intervals(part: SteadyPart) -> Sequence[SteadyPart]:
    """Return each interval under load as a part of its own."""
    parts = []
    endpoints = {endpoint.name: endpoint for endpoint in part.trial.endpoints}
    start_s = part.trial.idle_s
    for index, length_s in enumerate(interval_lengths_s(part.load_intervals_with_warmup)):
        end_s = start_s + length_s
        observed = {
            name: [x for x in endpoint.samples if start_s < x.end_s - x.interval_s / 2 <= end_s]
            for name, endpoint in endpoints.items()
            if endpoint.role == OBSERVE
        }
        parts.append(
            replace(
                part,
                endpoints=[
                    (endpoints[name], samples[index])
                    for name, samples in part.load_intervals_with_warmup.items()
                ],
                host_samples=observed.get(HOST, []),
                forwarding_guest_observers=[
                    (endpoint, observed[endpoint.name]) for endpoint, _ in part.forwarding_guest_observers
                ],
                duration_s=length_s,
            )
        )
        start_s = end_s
    return parts
