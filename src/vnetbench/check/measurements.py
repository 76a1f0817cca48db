"""The measurements of a check: values with intervals, from the estimates of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from vnetbench.check.ends import CheckedPath
from vnetbench.check.parts import GOODPUT, LATENCY, PACKETS
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import format_count_with_noun, format_value
from vnetbench.study.factors.load_factors import DIRECTION, REQUEST_OR_DATAGRAM_RATE, STREAMS
from vnetbench.study.model import Level

NO_DIRECTION = "none"
"""Direction of a measurement that belongs to the path as a whole."""
UNPACED = "none"
"""Level of `rate` at which the network limits the datagrams."""


@dataclass(frozen=True)
class Measurement:
    """One value of the path, in base units: bit/s, µs, datagrams per second, bytes and percent."""

    name: str
    """`goodput`, `single_stream_goodput`, `idle_latency`, … (docs/check.md)."""
    label: str
    """The value in words: `Goodput, 4 streams`."""
    direction: str
    """`forward`, `reverse`, `both` or `none`. For latency, it is the direction of the bulk data."""
    value: float
    low: float | None
    high: float | None
    unit: str
    trial_count: int
    results_file: str
    """File that has the trials; empty if it was temporary."""


@dataclass(frozen=True)
class MissingMeasurement:
    """A value that could not be measured, and why."""

    label: str
    reason: str


def measure_path(
    path: CheckedPath, summaries: Mapping[str, CampaignSummary], kept_files: Mapping[str, str]
) -> tuple[Measurement, ...]:
    """Return all values that the parts measured, in the order of the printed table."""
    found: list[Measurement] = []
    for part, collect in _COLLECTORS.items():
        if part in summaries:
            found += collect(summaries[part], kept_files.get(part, ""), path)
    return tuple(found)


def find_missing(path: CheckedPath, measurements: tuple[Measurement, ...]) -> tuple[MissingMeasurement, ...]:
    """Return the values that the check lacks."""
    measured = {each.name for each in measurements}
    reason = (
        "the part of the check did not finish"
        if path.has_both_agents
        else f"the bench has no agent on {path.second.name}, which only has an iperf3 server"
    )
    expected = {name: label for name, label in LABEL_BY_NAME.items() if name != "single_stream_goodput"}
    if path.has_both_agents:
        expected.pop("tcp_round_trip")
    return tuple(
        MissingMeasurement(label, reason) for name, label in expected.items() if name not in measured
    )


LABEL_BY_NAME = {
    "goodput": "Goodput, several streams",
    "single_stream_goodput": "Goodput, one stream",
    "tcp_round_trip": "Round trip of the load",
    "idle_latency": "Idle latency, median",
    "loaded_latency": "Loaded latency, 99 %",
    "packet_rate": "Packet rate, 64 B",
    "loss": "Loss at a low rate",
    "path_mtu": "Path MTU",
}
"""Names of all measurements and their labels, in the order of the table. `--require` takes these names."""


def _goodput(summary: CampaignSummary, file: str, path: CheckedPath) -> Iterator[Measurement]:
    counts = sorted({_stream_count(each) for each in summary.treatments})
    for count in counts:
        name = "single_stream_goodput" if count == 1 else "goodput"
        label = f"Goodput, {format_count_with_noun(count, 'stream')}"
        for treatment in _treatments_with(summary, STREAMS.name, count):
            yield from _metric(treatment, "goodput_bps", name, label, "bit/s", file)
    if not path.has_both_agents:
        for treatment in _treatments_with(summary, STREAMS.name, counts[0]):
            label = LABEL_BY_NAME["tcp_round_trip"]
            yield from _metric(treatment, "rtt_us", "tcp_round_trip", label, "µs", file)


def _latency(summary: CampaignSummary, file: str, path: CheckedPath) -> Iterator[Measurement]:
    # No data flows in the idle phase, so its latency belongs to no direction.
    for treatment in [each for each in summary.treatments if each.points][:1]:
        label = LABEL_BY_NAME["idle_latency"]
        yield from _metric(treatment, "latency_idle_p50_us", "idle_latency", label, "µs", file, NO_DIRECTION)
    for treatment in summary.treatments:
        name = "loaded_latency"
        yield from _metric(treatment, "latency_p99_us", name, LABEL_BY_NAME[name], "µs", file)


def _packets(summary: CampaignSummary, file: str, path: CheckedPath) -> Iterator[Measurement]:
    fast, slow = (_levels_of(summary, REQUEST_OR_DATAGRAM_RATE.name)[index] for index in (0, -1))
    for treatment in _treatments_with(summary, REQUEST_OR_DATAGRAM_RATE.name, fast):
        name = "packet_rate"
        yield from _metric(treatment, "datagrams_received_per_s", name, LABEL_BY_NAME[name], "1/s", file)
    label = f"Loss at {format_value(float(slow), '1/s')}"
    for treatment in _treatments_with(summary, REQUEST_OR_DATAGRAM_RATE.name, slow):
        yield from _metric(treatment, "loss_percent", "loss", label, "%", file)
    if sizes := [size for each in summary.treatments if (size := _proved_mtu(each))]:
        mtu = min(sizes)
        label = LABEL_BY_NAME["path_mtu"]
        yield Measurement("path_mtu", label, NO_DIRECTION, mtu, mtu, mtu, "B", len(sizes), file)


_COLLECTORS: Mapping[str, Callable[[CampaignSummary, str, CheckedPath], Iterator[Measurement]]] = {
    GOODPUT: _goodput,
    LATENCY: _latency,
    PACKETS: _packets,
}


def _metric(
    treatment: TreatmentSummary,
    metric: str,
    name: str,
    label: str,
    unit: str,
    file: str,
    direction: str | None = None,
) -> Iterator[Measurement]:
    """Yield the measurement of one metric, if the treatment has it."""
    estimate = treatment.metrics.get(metric)
    if estimate is not None:
        where = direction or str(treatment.factors[DIRECTION.name])
        yield Measurement(
            name, label, where, estimate.value, estimate.low, estimate.high, unit, estimate.trial_count, file
        )


def _levels_of(summary: CampaignSummary, factor: str) -> tuple[Level, ...]:
    return next(each.levels for each in summary.factors if each.name == factor)


def _treatments_with(summary: CampaignSummary, factor: str, level: Level) -> Iterator[TreatmentSummary]:
    return (each for each in summary.treatments if each.factors.get(factor) == level)


def _stream_count(treatment: TreatmentSummary) -> int:
    return int(treatment.factors[STREAMS.name])


def _proved_mtu(treatment: TreatmentSummary) -> int | None:
    """Return the largest packet that passed unfragmented in both directions."""
    proved = treatment.effective.get("path_mtu_proved")
    return proved if isinstance(proved, int) else None
