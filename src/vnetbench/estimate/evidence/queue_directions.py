"""Evidence of queues by direction: those that carry the data, and those that carry the acknowledgements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from vnetbench.estimate.evidence.aggregation import EvidenceValues, largest, percent
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.ports import Port
from vnetbench.estimate.evidence.shapers import shaper_description
from vnetbench.estimate.evidence.trial_data import TrialData

DATA, ACKS, BOTH = "data", "acknowledgements", "both directions"
_MIN_BYTE_RATIO_OF_DATA = 4.0
"""A one-way load has far more bytes of data than of acknowledgements, also without aggregation."""
_QUEUE_DIRECTION_COUNTERS = (
    "qdisc_backlog_bytes",
    "qdisc_drops",
    "interfaces[].qdisc.backlog_bytes",
    "interfaces[].qdisc.drops",
)

QUEUE_DIRECTION_EVIDENCE_METRICS = (
    EvidenceMetric(
        "data_queue_busy_percent",
        "% of samples",
        "time in which a queue holds back data",
        "share of the readings at which a queueing discipline held packets or had dropped some, of "
        "the busiest queue that carries the data of a one-way load",
        _QUEUE_DIRECTION_COUNTERS,
    ),
    EvidenceMetric(
        "ack_queue_busy_percent",
        "% of samples",
        "time in which a queue holds back acknowledgements",
        "share of the readings at which a queueing discipline held packets or had dropped some, of the "
        "busiest queue that carries the acknowledgements of a one-way load",
        _QUEUE_DIRECTION_COUNTERS,
    ),
)
_DIRECTIONS_BY_PLACED_METRIC: Mapping[str, tuple[str, ...]] = {
    "overlimits_per_s": (DATA, ACKS, BOTH),
    "backlog_delay_us": (DATA, ACKS, BOTH),
    "qdisc_drops_per_s": (DATA, ACKS, BOTH),
    "data_queue_busy_percent": (DATA,),
    "ack_queue_busy_percent": (ACKS,),
}
"""Evidence metrics that one queue decides, and the directions of that queue."""
_SHAPER_METRICS = ("shaper_rate_share_percent", "shaper_delays_per_s", "shaper_delays_per_packet")


def queue_direction_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of QUEUE_DIRECTION_EVIDENCE_METRICS."""
    return {
        "data_queue_busy_percent": _busiest_percent(data.ports, DATA),
        "ack_queue_busy_percent": _busiest_percent(data.ports, ACKS),
    }


def queue_location_by_metric(data: TrialData) -> dict[str, str]:
    """Return the queue behind each of these metrics: its interface, its direction and its kind."""
    locations = {}
    for metric, directions in _DIRECTIONS_BY_PLACED_METRIC.items():
        ports = [
            port
            for port in data.ports
            if classify_sent_traffic(port) in directions and _contribution_to_metric(port, metric) > 0
        ]
        if ports:
            busiest = max(ports, key=lambda port: _contribution_to_metric(port, metric))
            locations[metric] = _describe_port_queue(busiest, data)
    if location := shaper_description(data):
        locations |= dict.fromkeys(_SHAPER_METRICS, location)
    return locations


def classify_sent_traffic(port: Port) -> str:
    """Return what the interface sends: data, acknowledgements, or both."""
    sent, received = port.mean_rate("tx_bytes") or 0.0, port.mean_rate("rx_bytes") or 0.0
    if sent > _MIN_BYTE_RATIO_OF_DATA * received:
        return DATA
    return ACKS if received > _MIN_BYTE_RATIO_OF_DATA * sent else BOTH


def _busiest_percent(ports: Iterable[Port], wanted_direction: str) -> float | None:
    return largest(
        _percent_of_readings_with_queue(port)
        for port in ports
        if classify_sent_traffic(port) == wanted_direction
    )


def _percent_of_readings_with_queue(port: Port) -> float | None:
    """Return the share of the readings at which packets waited in the queue or had been dropped."""
    readings = [counters for _, counters in port.samples if "backlog_bytes" in counters]
    busy = [each for each in readings if each["backlog_bytes"] or each.get("drops")]
    return percent(len(busy), len(readings))


def _contribution_to_metric(port: Port, metric: str) -> float:
    """Return how much a queue contributes to a metric."""
    if metric == "backlog_delay_us":
        return port.median_backlog_bytes or 0.0
    if metric.endswith("_busy_percent"):
        return _percent_of_readings_with_queue(port) or 0.0
    counter = "drops" if metric == "qdisc_drops_per_s" else "overlimits"
    return port.mean_rate(counter) or 0.0


def _describe_port_queue(port: Port, data: TrialData) -> str:
    is_own = any(port is each for each in data.ports[: len(data.steady_part.endpoints)])
    where = f"{port.name}'s interface" if is_own else f"port {port.name}"
    towards = f" towards {port.leads_to}" if port.leads_to else ""
    carried = {DATA: "the data", ACKS: "the acknowledgements", BOTH: "both directions"}[
        classify_sent_traffic(port)
    ]
    qdisc_kind = "" if is_own else _interface_qdisc_kind(port.name, data)
    return f"{where}{towards}, which carries {carried}{f', {qdisc_kind}' if qdisc_kind else ''}"


def _interface_qdisc_kind(name: str, data: TrialData) -> str:
    """Return the kind of the queueing discipline, such as `tbf`; empty if no sample has it."""
    kinds: Counter[str] = Counter()
    for sample in data.steady_part.host_samples:
        counters = sample.observation.interface_counters.get(name) if sample.observation else None
        queue = (counters or {}).get("qdisc")
        if isinstance(queue, Mapping) and "kind" in queue:
            kinds[str(queue["kind"])] += 1
    return kinds.most_common(1)[0][0] if kinds else ""


def most_frequent_location(locations_by_metric_of_trials: Sequence[Mapping[str, str]], metric: str) -> str:
    """Return the location that most trials name for a metric; empty if none does."""
    named = Counter(each[metric] for each in locations_by_metric_of_trials if metric in each)
    return named.most_common(1)[0][0] if named else ""
