"""The connections that a load sends by, each with what TCP said of it in every sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from vnetbench.estimate.evidence.aggregation import knob_value, median, to_number, total_duration_s
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import EndpointRecord, Sample, StreamSample

TRANSFERS = "transfers"
"""The part of `mixed` that is its load."""
_COLUMNS = ("bytes", "rtt_us", "cwnd", "retransmits")
"""What a stream's sample has fields for; the rest is in its `info`."""


@dataclass(frozen=True)
class Flow:
    """One end of a stream, sample by sample."""

    endpoint: str
    role: str
    part: str
    duration_s: float
    samples: Sequence[StreamSample]
    mss_bytes: float | None

    def total(self, counter: str) -> float | None:
        """A count of its samples, or a time, over all of them."""
        known = self.values(counter)
        return sum(known) if known else None

    def values(self, level: str) -> list[float]:
        """How it stood at the end of each sample that tells it."""
        return [value for value in self._values(level) if value is not None]

    def ratios(self, part: str, whole: str) -> Iterator[float]:
        """One level over the other in each sample that tells both."""
        for of, by in zip(self._values(part), self._values(whole), strict=True):
            if of is not None and by:
                yield of / by

    def _values(self, name: str) -> Sequence[float | None]:
        """Of each sample; many figures are made of few names."""
        if name not in self._known:
            self._known[name] = [_value(x, name) for x in self.samples]
        return self._known[name]

    @cached_property
    def _known(self) -> dict[str, Sequence[float | None]]:
        """Values by name, once they were asked for."""
        return {}

    @property
    def is_tcp(self) -> bool:
        """Whether it is a connection of TCP, which tells what it waits for."""
        return any("busy_s" in x.details for x in self.samples)

    @property
    def goodput_bps(self) -> float:
        """What the other side acknowledged, of flows without acknowledgements what was sent."""
        carried = self.total("bytes_acked")
        return 8 * (self.total("bytes") or 0.0 if carried is None else carried) / self.duration_s


def collect_flows(part: SteadyPart) -> list[Flow]:
    """Both ends of all streams, whatever they carry; none where each request has a connection of its own."""
    if any("connect" in x.histograms for _, samples in part.endpoints for x in samples):
        return []
    return [flow for side, samples in part.endpoints for flow in _of_side(part, side, samples)]


def load_flows(flows: Sequence[Flow], role: str) -> list[Flow]:
    """The ends of this role that carry the load: beside transfers requests do not."""
    of_role = [flow for flow in flows if flow.role == role]
    return [flow for flow in of_role if flow.part == TRANSFERS] or of_role


def median_over_flows(flows: Sequence[Flow], value: Callable[[Flow], float | None]) -> float | None:
    """The median of the flows."""
    return median(map(value, flows))


def _of_side(part: SteadyPart, side: EndpointRecord, samples: Sequence[Sample]) -> Iterator[Flow]:
    streams: dict[tuple[str, int, str], list[StreamSample]] = {}
    for sample in samples:
        for x in sample.streams:
            streams.setdefault((x.load_part, x.stream_id, x.role), []).append(x)
    mss_bytes = to_number(knob_value(part.trial, "mss", side.name))
    for (of_part, _, role), of_stream in streams.items():
        told = median(to_number(x.details.get("mss_bytes")) for x in of_stream)
        yield Flow(side.name, role, of_part, total_duration_s(samples), of_stream, told or mss_bytes)


def _value(x: StreamSample, name: str) -> float | None:
    return to_number(getattr(x, name) if name in _COLUMNS else x.details.get(name))
