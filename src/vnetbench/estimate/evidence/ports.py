"""The interfaces on the path: the endpoints' own, and those between them that the host watched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.estimate.evidence.aggregation import median, ratio
from vnetbench.estimate.steady_state import SteadyPart


@dataclass(frozen=True)
class Port:
    """One of them: what went through it in each sample, and the queue before it."""

    name: str
    samples: Sequence[tuple[float, Mapping[str, float]]]
    """Seconds of each sample, and what it counted: `rx_bytes`, `tx_bytes`, and of its queue `drops`,
    `overlimits` and `backlog_bytes`."""
    role: str = ""
    leads_to: str = ""
    """What takes that which leaves by it."""
    pairs: frozenset[int] = frozenset()
    """Those whose packets cross it, from 1; empty where that is not known."""

    def sample_totals(self, *counters: str) -> list[float]:
        """Of each sample that has all of these counters, their sum."""
        return [sum(counts[name] for name in counters) for _, counts in self._having(counters)]

    def sample_rates(self, *counters: str) -> list[float]:
        """Of each sample that has all of these counters, their sum a second."""
        return [sum(counts[name] for name in counters) / span_s for span_s, counts in self._having(counters)]

    def mean_rate(self, *counters: str) -> float | None:
        """The same of all samples together."""
        known = self._having(counters)
        moved = sum(counts[name] for _, counts in known for name in counters)
        return ratio(moved, sum(span_s for span_s, _ in known))

    @property
    def backlog_bytes(self) -> float | None:
        """What waits before it, median of the samples."""
        return median(counts.get("backlog_bytes") for _, counts in self.samples)

    def _having(self, counters: Sequence[str]) -> list[tuple[float, Mapping[str, float]]]:
        """Samples that have all of these counters, with the seconds since the last that had them.

        Queues are read twenty times a second at most, and then count all since (docs/protocol.md).
        """
        found = []
        since_s = 0.0
        for span_s, counts in self.samples:
            since_s += span_s
            if since_s > 0 and all(name in counts for name in counters):
                found.append((since_s, counts))
                since_s = 0.0
        return found


def collect_ports(part: SteadyPart, testbed: Mapping[str, Any]) -> list[Port]:
    """All of them, the endpoints' own first; `testbed` is what the results file tells of it."""
    pairs = {each["name"]: each.get("pair") for each in testbed.get("endpoints") or ()}
    own = [
        Port(
            side.name,
            [(x.interval_s, _named_as_watched(x.counters)) for x in samples],
            pairs=frozenset({pairs[side.name]} if pairs.get(side.name) else ()),
        )
        for side, samples in part.endpoints
    ]
    told = {each["name"]: each for each in testbed.get("watched") or ()}
    seen: dict[str, list[tuple[float, Mapping[str, float]]]] = {}
    for sample in part.host_samples:
        for name, counts in sample.observation.interface_counters.items() if sample.observation else ():
            seen.setdefault(name, []).append((sample.interval_s, _with_queue(counts)))
    return own + [
        Port(name, counts, of.get("role", ""), of.get("leads_to", ""), frozenset(of.get("pairs", ())))
        for name, counts in seen.items()
        for of in [told.get(name, {})]
    ]


def _named_as_watched(counters: Mapping[str, float]) -> dict[str, float]:
    moved = {name: counters[name] for name in ("rx_bytes", "tx_bytes") if name in counters}
    queue = {name.removeprefix("qdisc_"): n for name, n in counters.items() if name.startswith("qdisc_")}
    return moved | queue


def _with_queue(counts: Mapping[str, Any]) -> dict[str, float]:
    every = {**counts, **(counts.get("qdisc") or {})}
    return {name: count for name, count in every.items() if isinstance(count, int | float)}
