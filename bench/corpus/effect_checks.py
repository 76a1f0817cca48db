"""Checks of the effect of a cause, by the counters of a run and of the same load without the cause."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from vnetbench.results.records import HOST, OBSERVE, EndpointRecord, Sample, TrialRecord

_PROCESS_CPU = ("process_cpu_user_s", "process_cpu_system_s")
_BUSY_STATES = ("user_s", "nice_s", "system_s", "irq_s", "softirq_s", "steal_s")


@dataclass(frozen=True)
class RunMeasurement:
    """Values measured in a run."""

    speed: float
    """Median over the trials: payload bytes per second, or responses per second."""
    counters: Mapping[str, float] = field(default_factory=dict)
    """Sums over all trials of the counters of the endpoints and of the host."""
    disturbance_values: Mapping[str, float] = field(default_factory=dict)
    """Sums of the values that the disturbances measure."""
    load_s: float = 0.0
    """Load time of all trials in seconds."""
    speeds: tuple[float, ...] = ()
    """Speed of each trial."""
    cpu_use: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds per second of each endpoint's process and of each CPU of the host."""

    def to_json(self) -> dict[str, object]:
        """Return the measurement in the form of the manifest."""
        disturbance_values = {name: round(value, 6) for name, value in self.disturbance_values.items()}
        return {
            "speed": round(self.speed), "speeds": [round(each) for each in self.speeds],
            "told": disturbance_values,  # codespell:ignore told
            "busy": {name: round(value, 3) for name, value in self.cpu_use.items()},
        }  # fmt: skip


EffectCheck = Callable[[RunMeasurement, RunMeasurement], str]
"""Takes the measurements with and without the cause. Returns why the cause had no effect, or ""."""


def summarize_trials(trials: list[TrialRecord], disturbance_values: Mapping[str, float]) -> RunMeasurement:
    """Return the measurement of the trials that did not fail."""
    completed = [trial for trial in trials if not trial.failure]
    counters: defaultdict[str, float] = defaultdict(float)
    for endpoint, sample in _iterate_samples(completed):
        subject = "host" if endpoint.role == OBSERVE else "ends"
        for name, value in sample.counters.items():
            counters[f"{subject} {name}"] += value
    speeds = tuple(_trial_speed(trial) for trial in completed)
    load_s = sum(trial.duration_s for trial in completed)
    return RunMeasurement(
        statistics.median(speeds) if speeds else 0.0,
        counters,
        dict(disturbance_values),
        load_s,
        speeds,
        _cpu_use(completed, load_s),
    )


def require_slowdown(min_share: float) -> EffectCheck:
    """Require a speed that is lower by at least this share than without the cause."""

    def check(run: RunMeasurement, control: RunMeasurement) -> str:
        if run.speed <= (1 - min_share) * control.speed:
            return ""
        share = run.speed / control.speed if control.speed else 0.0
        return f"the speed is {share:.0%} of the speed without the cause, not {1 - min_share:.0%} or less"

    return check


def require_speed_share(min_share: float) -> EffectCheck:
    """Require at least this share of the speed without the cause, for runs without a fault."""

    def check(run: RunMeasurement, control: RunMeasurement) -> str:
        if run.speed >= min_share * control.speed:
            return ""
        share = run.speed / control.speed
        return f"the speed is {share:.0%} of the speed without the cause, not {min_share:.0%} or more"

    return check


def require_speed_below(bytes_per_s: float) -> EffectCheck:
    """Require a speed below this value."""

    def check(run: RunMeasurement, control: RunMeasurement) -> str:
        if run.speed < bytes_per_s:
            return ""
        return f"the speed is {run.speed:g} bytes/s, not below {bytes_per_s:g} bytes/s"

    return check


def require_counter_rate(counter: str, min_per_s: float) -> EffectCheck:
    """Require a rate of a counter, whose name starts with "ends" or "host"."""

    def check(run: RunMeasurement, control: RunMeasurement) -> str:
        rate_per_s = run.counters.get(counter, 0.0) / run.load_s if run.load_s else 0.0
        if rate_per_s >= min_per_s:
            return ""
        return f"{counter} is {rate_per_s:g} per second, not at least {min_per_s:g}"

    return check


def require_disturbance_value(name: str, min_value: float) -> EffectCheck:
    """Require a value that a disturbance measures."""

    def check(run: RunMeasurement, control: RunMeasurement) -> str:
        value = run.disturbance_values.get(name, 0.0)
        return "" if value >= min_value else f"{name} is {value:g}, not at least {min_value:g}"

    return check


def require_cpu_use(name: str, min_share: float) -> EffectCheck:
    """Require a process or CPU that is busy for at least this share of the time."""

    def check(run: RunMeasurement, control: RunMeasurement) -> str:
        share = run.cpu_use.get(name, 0.0)
        return "" if share >= min_share else f"{name} is {share:.0%} busy, not at least {min_share:.0%}"

    return check


def require_cpu_idle(name: str, min_share: float) -> EffectCheck:
    """Require a process or CPU that is idle for at least this share of the time, so it is not the limit."""

    def check(run: RunMeasurement, control: RunMeasurement) -> str:
        busy_share = run.cpu_use.get(name, 0.0)
        if busy_share <= 1 - min_share:
            return ""
        return f"{name} is {busy_share:.0%} busy, so it is idle for less than {min_share:.0%} of the time"

    return check


def require_spread(min_share: float) -> EffectCheck:
    """Require a fastest trial that is faster by at least this share than the slowest one."""

    def check(run: RunMeasurement, control: RunMeasurement) -> str:
        if run.speeds and max(run.speeds) >= (1 + min_share) * min(run.speeds):
            return ""
        return f"the speeds of the trials differ by less than {min_share:.0%}"

    return check


def require_mode_difference(min_share: float, mark: str) -> EffectCheck:
    """Require a difference between the speeds of marked and other trials.

    Args:
        min_share: Smallest relative difference of the medians.
        mark: Format of the disturbance value that marks a trial, with `{}` for the trial's index.
    """

    def check(run: RunMeasurement, control: RunMeasurement) -> str:
        is_marked = [mark.format(index) in run.disturbance_values for index in range(len(run.speeds))]
        marked = [speed for speed, flag in zip(run.speeds, is_marked, strict=True) if flag]
        others = [speed for speed, flag in zip(run.speeds, is_marked, strict=True) if not flag]
        if not marked or not others:
            return "all trials are disturbed, or none is"
        marked_speed, other_speed = statistics.median(marked), statistics.median(others)
        if max(marked_speed, other_speed) >= (1 + min_share) * min(marked_speed, other_speed):
            return ""
        return f"the disturbed trials have {marked_speed / other_speed:.0%} of the speed of the others"

    return check


def require_all(*checks: EffectCheck) -> EffectCheck:
    """Require all checks."""
    return lambda run, control: next((why for check in checks if (why := check(run, control))), "")


def accept_any(run: RunMeasurement, control: RunMeasurement) -> str:
    """Accept every run."""
    return ""


def _trial_speed(trial: TrialRecord) -> float:
    """Return the responses per second of a request workload, otherwise the received bytes per second."""
    endpoints = [endpoint for endpoint in trial.endpoints if endpoint.role != OBSERVE]
    responses = sum(
        count
        for endpoint in endpoints
        for sample in endpoint.samples
        for _, count in sample.histograms.get("latency", ())
    )
    whole_s = trial.idle_s + trial.duration_s
    bytes_received = sum(
        sample.bytes_received
        for endpoint in endpoints
        for sample in endpoint.samples
        if sample.end_s <= whole_s + sample.interval_s / 2
    )
    return (responses or bytes_received) / whole_s


def _iterate_samples(trials: list[TrialRecord]) -> Iterator[tuple[EndpointRecord, Sample]]:
    return (
        (endpoint, sample) for trial in trials for endpoint in trial.endpoints for sample in endpoint.samples
    )


def _cpu_use(trials: list[TrialRecord], load_s: float) -> dict[str, float]:
    cpu_s: defaultdict[str, float] = defaultdict(float)
    for endpoint, sample in _iterate_samples(trials):
        if endpoint.role != OBSERVE:
            cpu_s[endpoint.name] += sum(sample.counters.get(name, 0.0) for name in _PROCESS_CPU)
        for cpu in sample.cpu if endpoint.name == HOST else ():
            name = f"CPU {int(cpu['cpu'])}"
            cpu_s[name] += sum(cpu.get(state, 0.0) for state in _BUSY_STATES)
            cpu_s[f"softirq {name}"] += cpu.get("softirq_s", 0.0)
    return {name: busy_s / load_s for name, busy_s in cpu_s.items()} if load_s else {}
