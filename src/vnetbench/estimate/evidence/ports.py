"""The interfaces on the path: those of the endpoints, and those between them that the host observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vnetbench.estimate.evidence.aggregation import median, ratio
from vnetbench.estimate.frame_losses import UPLINK_ROLE
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import HOST, Sample


class PortSample(NamedTuple):
    """The counters of an interface in one interval."""

    duration_s: float
    counters: Mapping[str, float]
    """`rx_bytes`, `tx_bytes`, and of the queue `drops`, `overlimits` and `backlog_bytes`."""


@dataclass(frozen=True)
class Port:
    """An interface on the path, with its traffic and its queue in each sample."""

    name: str
    samples: Sequence[PortSample]
    """The traffic and queue counters of each sample."""
    role: str = ""
    leads_to: str = ""
    """Name of the part that receives what this interface sends."""
    pairs: frozenset[int] = frozenset()
    """Numbers, from 1, of the pairs whose packets cross this interface; empty if unknown."""

    def counter_sum_per_complete_sample(self, *counters: str) -> list[float]:
        """Return the sum of the counters in each sample that has all of them."""
        return [sum(values[name] for name in counters) for _, values in self._samples_with_counters(counters)]

    def counter_values_per_complete_sample(self, *counters: str) -> list[tuple[float, ...]]:
        """Return the values of the counters in each sample that has all of them."""
        return [
            tuple(values[name] for name in counters) for _, values in self._samples_with_counters(counters)
        ]

    def rates_per_complete_sample(self, *counters: str) -> list[float]:
        """Return the sum of the counters per second in each sample that has all of them."""
        return [
            sum(values[name] for name in counters) / duration_s
            for duration_s, values in self._samples_with_counters(counters)
        ]

    def mean_rate(self, *counters: str) -> float | None:
        """Return the sum of the counters per second over all samples that have all of them."""
        samples = self._samples_with_counters(counters)
        total = sum(values[name] for _, values in samples for name in counters)
        return ratio(total, sum(duration_s for duration_s, _ in samples))

    @property
    def median_backlog_bytes(self) -> float | None:
        """Bytes in the queue, median of the samples."""
        return median(values.get("backlog_bytes") for _, values in self.samples)

    def _samples_with_counters(self, counters: Sequence[str]) -> list[PortSample]:
        """Return the samples that have all of these counters, with the seconds since the previous one.

        Queues are read at most twenty times a second. Their counters then cover all time since the previous
        reading (docs/protocol.md).
        """
        samples = []
        since_s = 0.0
        for duration_s, values in self.samples:
            since_s += duration_s
            if since_s > 0 and all(name in values for name in counters):
                samples.append(PortSample(since_s, values))
                since_s = 0.0
        return samples


def collect_ports(part: SteadyPart, testbed: Mapping[str, Any]) -> list[Port]:
    """Return the interfaces on the path, the endpoints' own first.

    Args:
        part: The steady part of the trial.
        testbed: The testbed's description in the results file.
    """
    pairs = {each["name"]: each.get("pair") for each in testbed.get("endpoints") or ()}
    own = [
        Port(
            endpoint.name,
            [PortSample(x.interval_s, _endpoint_as_interface_counters(x.counters)) for x in samples],
            pairs=frozenset({pairs[endpoint.name]} if pairs.get(endpoint.name) else ()),
        )
        for endpoint, samples in part.endpoints
    ]
    return own + _team_member_ports(part) + _observed_ports(part, testbed)


def _team_member_ports(part: SteadyPart) -> list[Port]:
    """Return the interfaces that endpoints count besides their own: the members of a host's team."""
    return [
        Port(f"{endpoint.name} {name}", members, UPLINK_ROLE, f"the network of {endpoint.name}")
        for endpoint, samples in part.endpoints
        for name, members in _samples_by_interface(samples).items()
    ]


def _observed_ports(part: SteadyPart, testbed: Mapping[str, Any]) -> list[Port]:
    """Return the interfaces that the observer on the bench's machine counts."""
    descriptions = {each["name"]: each for each in testbed.get("observed_interfaces") or ()}
    return [
        Port(
            name,
            samples,
            description.get("role", ""),
            description.get("leads_to", ""),
            frozenset(description.get("pairs", ())),
        )
        for name, samples in _samples_by_interface(part.host_samples).items()
        for description in [descriptions.get(name, {})]
    ]


def _samples_by_interface(samples: Sequence[Sample]) -> dict[str, list[PortSample]]:
    observed: dict[str, list[PortSample]] = {}
    for sample in samples:
        for name, values in sample.observation.interface_counters.items() if sample.observation else ():
            port_sample = PortSample(sample.interval_s, _flatten_observed_counters(values))
            observed.setdefault(name, []).append(port_sample)
    return observed


def sampled_interfaces_by_endpoint(part: SteadyPart, testbed: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Return the interfaces whose queues are in the samples, by the endpoint or observer that reads them.

    An endpoint whose interface is unknown is left out.
    """
    by_name = {
        each["name"]: frozenset((each["interface"],))
        for each in testbed.get("endpoints") or ()
        if each.get("interface")
    }
    observed = (x.observation.interface_counters for x in part.host_samples if x.observation)
    return {**by_name, HOST: frozenset(name for counters in observed for name in counters)}


def _endpoint_as_interface_counters(counters: Mapping[str, float]) -> dict[str, float]:
    """Return an endpoint's counters with the names that observed interfaces use."""
    traffic = {name: counters[name] for name in ("rx_bytes", "tx_bytes") if name in counters}
    queue = {name.removeprefix("qdisc_"): n for name, n in counters.items() if name.startswith("qdisc_")}
    return traffic | queue


def _flatten_observed_counters(counters: Mapping[str, Any]) -> dict[str, float]:
    """Return an observed interface's counters with those of its queue on the same level."""
    all_counters = {**counters, **(counters.get("qdisc") or {})}
    return {name: count for name, count in all_counters.items() if isinstance(count, int | float)}
