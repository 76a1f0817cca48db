"""The streams of a load with their TCP state in each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vnetbench.estimate.evidence.aggregation import effective_knob_value, median, to_number, total_duration_s
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import EndpointRecord, Sample, StreamSample

TRANSFERS_LOAD_PART = "transfers"
"""The part of `mixed` that is its load."""
_STREAM_SAMPLE_FIELDS = ("bytes", "rtt_us", "cwnd", "retransmits")
"""Values with a field of their own in `StreamSample`; all others are in its `details`."""
_NUMBER_TYPES = frozenset({int, float})


@dataclass(frozen=True)
class Flow:
    """One end of a stream, with its samples."""

    endpoint: str
    role: str
    load_part: str
    """`requests` or `transfers` with `mixed`; otherwise empty."""
    duration_s: float
    samples: Sequence[StreamSample]
    mss_bytes: float | None

    def total(self, counter: str) -> float | None:
        """Return the sum of a counter over the samples; None if no sample has it."""
        known = self.values(counter)
        return sum(known) if known else None

    def values(self, name: str) -> Sequence[float]:
        """Return a value of each sample that has it."""
        if name not in self._known_values_cache:
            known = [value for value in self._sample_values(name) if value is not None]
            self._known_values_cache[name] = known
        return self._known_values_cache[name]

    def sample_ratios(self, numerator: str, denominator: str) -> Iterator[float]:
        """Yield the ratio of two values in each sample that has both."""
        pairs = zip(self._sample_values(numerator), self._sample_values(denominator), strict=True)
        for value, divisor in pairs:
            if value is not None and divisor:
                yield value / divisor

    def _sample_values(self, name: str) -> Sequence[float | None]:
        """Return a value of each sample. Values are cached: many metrics use the same few names."""
        if name not in self._cached_sample_values_by_name:
            stored = (
                [getattr(x, name) for x in self.samples]
                if name in _STREAM_SAMPLE_FIELDS
                else [x.details.get(name) for x in self.samples]
            )
            are_numbers = _NUMBER_TYPES.issuperset(map(type, stored))
            convert: Callable[[Any], float | None] = float if are_numbers else to_number
            self._cached_sample_values_by_name[name] = list(map(convert, stored))
        return self._cached_sample_values_by_name[name]

    @cached_property
    def _known_values_cache(self) -> dict[str, Sequence[float]]:
        return {}

    @cached_property
    def _cached_sample_values_by_name(self) -> dict[str, Sequence[float | None]]:
        return {}

    @property
    def is_tcp(self) -> bool:
        """Whether the flow is a TCP connection, which reports what it waits for."""
        return any("busy_s" in x.details for x in self.samples)

    @property
    def goodput_bps(self) -> float:
        """Rate of acknowledged payload; of sent payload if the flow has no acknowledgements."""
        acknowledged = self.total("bytes_acked")
        carried = self.total("bytes") or 0.0 if acknowledged is None else acknowledged
        return 8 * carried / self.duration_s


def collect_flows(part: SteadyPart) -> list[Flow]:
    """Return both ends of all streams; none if each request has a connection of its own."""
    if any("connect_time" in x.histograms for _, samples in part.endpoints for x in samples):
        return []
    return [flow for endpoint, samples in part.endpoints for flow in _endpoint_flows(part, endpoint, samples)]


def select_load_flows(flows: Sequence[Flow], role: str) -> list[Flow]:
    """Return the flows of a role (`source`, `sink`) that carry the load: with `mixed`, transfers only."""
    with_role = [flow for flow in flows if flow.role == role]
    return [flow for flow in with_role if flow.load_part == TRANSFERS_LOAD_PART] or with_role


def median_over_flows(flows: Sequence[Flow], value: Callable[[Flow], float | None]) -> float | None:
    """Return the median of a value over the flows."""
    return median(map(value, flows))


def _endpoint_flows(part: SteadyPart, endpoint: EndpointRecord, samples: Sequence[Sample]) -> Iterator[Flow]:
    streams: dict[tuple[str, int, str], list[StreamSample]] = {}
    for sample in samples:
        for x in sample.streams:
            streams.setdefault((x.load_part, x.stream_id, x.role), []).append(x)
    set_mss_bytes = to_number(effective_knob_value(part.trial, "mss", endpoint.name))
    duration_s = total_duration_s(samples)
    for (load_part, _, role), stream_samples in streams.items():
        mss_bytes = median(to_number(x.details.get("mss_bytes")) for x in stream_samples)
        yield Flow(endpoint.name, role, load_part, duration_s, stream_samples, mss_bytes or set_mss_bytes)
