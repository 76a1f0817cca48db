"""Whether a cause that was put there did something: by what was counted, beside the load without it."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from vnetbench.results.records import HOST, OBSERVE, Sample, EndpointRecord, TrialRecord

_PROCESS_CPU = ("process_cpu_user_s", "process_cpu_system_s")
_AT_WORK = ("user_s", "nice_s", "system_s", "irq_s", "softirq_s", "steal_s")


@dataclass(frozen=True)
class Seen:
    """What came of a run."""

    speed: float
    """Median of its trials: payload bytes (of requests: answers) a second."""
    counters: Mapping[str, float] = field(default_factory=dict)
    """The endpoints' and the host's, added up over all trials."""
    told: Mapping[str, float] = field(default_factory=dict)
    """What the disturbances tell of themselves, added up."""
    seconds: float = 0.0
    """Of load, all trials together."""
    speeds: tuple[float, ...] = ()
    """Of each trial."""
    busy: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds a second of each endpoint's process, and of the busiest CPU of the host."""

    def as_json(self) -> dict[str, object]:
        """As the manifest keeps it."""
        return {
            "speed": round(self.speed), "speeds": [round(each) for each in self.speeds],
            "told": {name: round(value, 6) for name, value in self.told.items()},
            "busy": {name: round(value, 3) for name, value in self.busy.items()},
        }  # fmt: skip


Bites = Callable[[Seen, Seen], str]
"""Takes what was seen with the cause and without it; says why it did not bite, or nothing."""


def seen(trials: list[TrialRecord], told: Mapping[str, float]) -> Seen:
    """What came of these trials."""
    done = [trial for trial in trials if not trial.failure]
    counters: defaultdict[str, float] = defaultdict(float)
    for side, sample in _samples(done):
        place = "host" if side.role == OBSERVE else "ends"
        for name, value in sample.counters.items():
            counters[f"{place} {name}"] += value
    speeds = tuple(_speed(trial) for trial in done)
    seconds = sum(trial.duration_s for trial in done)
    return Seen(
        statistics.median(speeds) if speeds else 0.0,
        counters,
        dict(told),
        seconds,
        speeds,
        _busy(done, seconds),
    )


def falls(by: float) -> Bites:
    """The load is slower by this share than without the cause."""

    def bites(run: Seen, control: Seen) -> str:
        if run.speed <= (1 - by) * control.speed:
            return ""
        share = run.speed / control.speed if control.speed else 0.0
        return f"it has {share:.0%} of the speed without the cause, not {1 - by:.0%} or less"

    return bites


def carries(share: float) -> Bites:
    """The load is at least so much of what it is without the cause: nothing is wrong."""

    def bites(run: Seen, control: Seen) -> str:
        if run.speed >= share * control.speed:
            return ""
        return f"it has {run.speed / control.speed:.0%} of the load, not {share:.0%} or more"

    return bites


def short_of(bytes_per_s: float) -> Bites:
    """The load does not come to so much."""

    def bites(run: Seen, control: Seen) -> str:
        return (
            ""
            if run.speed < bytes_per_s
            else f"it came to {run.speed:g} bytes/s, not less than {bytes_per_s:g}"
        )

    return bites


def counts(counter: str, least_per_s: float) -> Bites:
    """A counter (`ends NAME`, `host NAME`) moves so fast."""

    def bites(run: Seen, control: Seen) -> str:
        found = run.counters.get(counter, 0.0) / run.seconds if run.seconds else 0.0
        return "" if found >= least_per_s else f"{counter} came to {found:g} a second, not {least_per_s:g}"

    return bites


def tells(figure: str, least: float) -> Bites:
    """A disturbance tells at least so much of itself."""

    def bites(run: Seen, control: Seen) -> str:
        found = run.told.get(figure, 0.0)
        return "" if found >= least else f"{figure} came to {found:g}, not {least:g}"

    return bites


def busy(who: str, least: float) -> Bites:
    """A process or CPU takes so many CPU seconds a second."""

    def bites(run: Seen, control: Seen) -> str:
        found = run.busy.get(who, 0.0)
        return "" if found >= least else f"{who} was busy for {found:.2f} of its time, not {least:g}"

    return bites


def has_rest(who: str, least: float) -> Bites:
    """A process or CPU has so much of its time left: it is not the limit itself."""

    def bites(run: Seen, control: Seen) -> str:
        found = run.busy.get(who, 0.0)
        return "" if found <= 1 - least else f"{who} was busy for {found:.2f} of its time: it had no rest"

    return bites


def spreads(share: float) -> Bites:
    """The trials differ: their greatest is so much above their least."""

    def bites(run: Seen, control: Seen) -> str:
        if run.speeds and max(run.speeds) >= (1 + share) * min(run.speeds):
            return ""
        return f"its trials do not differ by {share:.0%}"

    return bites


def differs(by: float, mark: str) -> Bites:
    """The trials that are marked (by a figure told, with their number in it) are so much slower or faster."""

    def bites(run: Seen, control: Seen) -> str:
        marked = [mark.format(number) in run.told for number in range(len(run.speeds))]
        groups = [
            [v for v, m in zip(run.speeds, marked, strict=True) if m is which] for which in (True, False)
        ]
        if not all(groups):
            return "all of its trials are alike"
        with_it, without = map(statistics.median, groups)
        if max(with_it, without) >= (1 + by) * min(with_it, without):
            return ""
        return f"trials with it have {with_it / without:.0%} of the speed of those without"

    return bites


def all_of(*each: Bites) -> Bites:
    """All of these."""
    return lambda run, control: next((why for bites in each if (why := bites(run, control))), "")


def anything(run: Seen, control: Seen) -> str:
    """Nothing has to be seen."""
    return ""


def _speed(trial: TrialRecord) -> float:
    """Answers where requests are made, else payload bytes that arrived; a second of load."""
    ends = [side for side in trial.endpoints if side.role != OBSERVE]
    answers = sum(
        count for side in ends for x in side.samples for _, count in x.histograms.get("latency", ())
    )
    whole_s = trial.idle_s + trial.duration_s
    came = sum(x.bytes_received for side in ends for x in side.samples if x.t_s <= whole_s + x.interval_s / 2)
    return (answers or came) / whole_s


def _samples(trials: list[TrialRecord]) -> Iterator[tuple[EndpointRecord, Sample]]:
    """All that there are, each with its side."""
    return ((side, sample) for trial in trials for side in trial.endpoints for sample in side.samples)


def _busy(trials: list[TrialRecord], seconds: float) -> dict[str, float]:
    spent: defaultdict[str, float] = defaultdict(float)
    for side, x in _samples(trials):
        if side.role != OBSERVE:
            spent[side.name] += sum(x.counters.get(name, 0.0) for name in _PROCESS_CPU)
        for cpu in x.cpu if side.name == HOST else ():
            name = f"CPU {int(cpu['cpu'])}"
            spent[name] += sum(cpu.get(kind, 0.0) for kind in _AT_WORK)
            spent[f"softirq {name}"] += cpu.get("softirq_s", 0.0)
    return {name: spent_s / seconds for name, spent_s in spent.items()} if seconds else {}
