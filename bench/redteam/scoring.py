"""Scores explanations against labels. It reads only `vnetbench explain --json`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.redteam import effects, runner
from bench.redteam.calibration import NamedRun, format_calibration
from bench.redteam.corpus import BY_ID
from bench.redteam.intervals import format_share, wilson
from bench.redteam.model import BUSY_DUTY, MISSING, Label

CONFIDENT = ("very likely", "confirmed")
IGNORED_CAUSES = ("too_few_trials", "warm_up")
"""Statements about the length of a campaign. Every run of the corpus is short on purpose."""
MOST_OTHER_SHARE = 0.5
"""Share of CPU time up to which other work leaves a run with a fault usable: its fault is still there."""
MOST_OTHER_SHARE_OF_CONTROL = BUSY_DUTY
"""A control with more of it is not quiet: the corpus calls a shape busy from this share on."""
MOST_STEAL = 0.1
UNPACED_DATAGRAMS = ("overflow",)
"""An unpaced sender of datagrams overruns every receiver, so this name is right for such a control."""
OPENVSWITCH = ("segmentation_off", "checksum_software", "small_mtu", "switch_cpu")
"""The userspace Open vSwitch carries only whole packets with checksums (docs/study-reference.md)."""
BUSY = ("other_programs", "machine_busy", "shared_by_vms", "shared_with_packets")
"""Names that are true of a control with 30 % other load."""


@dataclass(frozen=True)
class Named:
    """A candidate cause as the explanation names it."""

    cause: str
    confidence: str
    is_fault: bool


@dataclass(frozen=True)
class Verdict:
    """How an explanation compares with the label of its run."""

    label: Label
    named: tuple[Named, ...]
    disturbed: bool
    read_error: str = ""
    """Why there is no explanation, although there should be one."""

    @property
    def is_scored_fault(self) -> bool:
        """Return whether the run had a fault with an effect."""
        is_real = self.label.effect in (effects.EFFECT, effects.FAILED)
        return not self.label.is_control and is_real and self._is_usable

    @property
    def is_scored_control(self) -> bool:
        """Return whether the run is a control that worked."""
        return self.label.is_control and self.label.effect != effects.FAILED and self._is_usable

    @property
    def _is_usable(self) -> bool:
        return not (self.label.error or self.read_error or self.disturbed)

    @property
    def first(self) -> Named | None:
        """The first cause that the explanation names."""
        return self.named[0] if self.named else None

    @property
    def is_right(self) -> bool:
        """Return whether the first cause is accepted."""
        return bool(self.named) and self.named[0].cause in self.label.accepted

    @property
    def is_among_two(self) -> bool:
        """Return whether one of the first two causes is accepted."""
        return any(each.cause in self.label.accepted for each in self.named[:2])

    @property
    def is_confidently_wrong(self) -> bool:
        """Return whether the first cause is wrong and confident."""
        return bool(self.named) and not self.is_right and self.named[0].confidence in CONFIDENT

    @property
    def is_silent(self) -> bool:
        """Return whether no fault is named at all."""
        return not any(each.is_fault for each in self.named) and not self.is_right

    @property
    def is_false_alarm(self) -> bool:
        """Return whether a control's first cause is a fault that is not true of its load."""
        return self.first is not None and self.first.is_fault and self.first.cause not in allowed(self.label)


def allowed(label: Label) -> tuple[str, ...]:
    """Return the faults that are true of a control without an injection."""
    names: tuple[str, ...] = ()
    if label.workload == "udp_stream" and "rate" not in label.load:
        names += UNPACED_DATAGRAMS
    if label.vswitch == "openvswitch":
        names += OPENVSWITCH
    if label.shape.endswith("busy"):
        names += BUSY
    return names


def named_causes(explained: dict[str, Any]) -> tuple[Named, ...]:
    """Return the causes that an explanation names, in its order, each once."""
    found: dict[str, Named] = {}
    for finding in explained.get("findings", ()):
        for candidate in finding.get("candidates", ()):
            name = candidate["cause"]
            if name not in found and name not in IGNORED_CAUSES and candidate["confidence"] != "refuted":
                found[name] = Named(name, candidate["confidence"], candidate["is_fault"])
    return tuple(found.values())


def judge_runs(folder: Path, labels: Iterable[Label], with_disturbed: bool = False) -> list[Verdict]:
    """Explain the results file of each label. The accepted names are those of the present declarations."""
    return [_judge_run(folder, with_present_names(label), with_disturbed) for label in labels]


def _judge_run(folder: Path, label: Label, with_disturbed: bool) -> Verdict:
    disturbed = not with_disturbed and is_disturbed(label)
    try:
        named = named_causes(runner.explain(folder / label.results))
    except runner.ReadError as error:
        return Verdict(label, (), disturbed, str(error))
    return Verdict(label, named, disturbed)


def with_present_names(label: Label) -> Label:
    """Return the label with the names that its cause accepts today, so that stored runs are scored again.

    A cause that no longer exists keeps the names that the label stores.
    """
    if label.is_control or label.cause not in BY_ID:
        return label
    return replace(label, accepted=BY_ID[label.cause].accepted)


def is_disturbed(label: Label) -> bool:
    """Return whether programs outside the red team, or the machine's host, took CPU time from the run.

    A control next to busy programs has something wrong, so less of their time disturbs it. This reads
    only what was measured from outside, never an explanation.
    """
    share = label.other_share if label.programs_share is None else label.programs_share
    most = MOST_OTHER_SHARE_OF_CONTROL if label.is_control else MOST_OTHER_SHARE
    return share > most or label.steal_share > MOST_STEAL


SCORES: tuple[tuple[str, Callable[[Verdict], bool]], ...] = (
    ("right first", lambda verdict: verdict.is_right),
    ("right among first two", lambda verdict: verdict.is_among_two),
    ("confidently wrong", lambda verdict: verdict.is_confidently_wrong),
    ("nothing said although there was an effect", lambda verdict: verdict.is_silent),
)


def format_scores(verdicts: Sequence[Verdict], with_details: bool) -> Iterator[str]:
    """Yield the lines of the score."""
    faults = [verdict for verdict in verdicts if verdict.is_scored_fault]
    controls = [verdict for verdict in verdicts if verdict.is_scored_control]
    if with_details:
        yield from (format_run(verdict) for verdict in (*faults, *controls))
    yield from format_counts(verdicts)
    yield "Faults with an effect"
    for name, holds in SCORES:
        yield f"  {name:44} {format_share(sum(map(holds, faults)), len(faults))}"
    nameable = [each for each in faults if not all(name.startswith(MISSING) for name in each.label.accepted)]
    right = sum(each.is_right for each in nameable)
    yield f"  {'right first, of causes that have a name':44} {format_share(right, len(nameable))}"
    yield "Controls"
    alarms = sum(each.is_false_alarm for each in controls)
    confident = sum(each.is_false_alarm and each.is_confidently_wrong for each in controls)
    yield f"  {'false alarms':44} {format_share(alarms, len(controls))}"
    yield f"  {'false alarms with high confidence':44} {format_share(confident, len(controls))}"
    yield from _format_words(faults, controls)
    for title, key in (("family", "family"), ("shape", "shape"), ("workload", "workload")):
        yield f"By {title}: right first, among two, confidently wrong, runs"
        yield from _format_groups(faults, key)


def format_run(verdict: Verdict) -> str:
    """Return the line of a run: whether its first name is right, what was injected, and the names."""
    label = verdict.label
    names = ", ".join(f"{each.cause} ({each.confidence})" for each in verdict.named[:3]) or "no cause"
    if label.is_control:
        mark = "ALARM" if verdict.is_false_alarm else "ok"
    else:
        mark = "right" if verdict.is_right else "WRONG" if verdict.is_confidently_wrong else "no"
    return f"{mark:6} {label.cause} {label.value} {label.shape} {label.load} {label.vswitch}: {names}"


def format_counts(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the number of runs of each kind, and why runs could not be read."""
    counts = Counter(
        "not explained because of an error" if each.read_error
        else "failed to run or to inject" if each.label.error
        else "disturbed by other work" if each.disturbed
        else "control" if each.label.is_control
        else each.label.effect
        for each in verdicts
    )  # fmt: skip
    yield f"{len(verdicts)} runs: " + ", ".join(f"{count} {name}" for name, count in counts.most_common())
    for each in verdicts:
        if each.read_error:
            yield f"  not scored: {each.label.results}: {each.read_error}"


def _format_words(faults: Sequence[Verdict], controls: Sequence[Verdict]) -> Iterator[str]:
    yield "Confidence of the first name: how often it was right (controls: no false alarm)"
    runs = [
        NamedRun(each.label.cause, each.first.confidence, is_right(each))
        for group, is_right in ((faults, _is_right), (controls, _is_no_alarm))
        for each in group
        if each.first
    ]
    yield from format_calibration(runs)
    unnamed = sum(each.first is None for each in (*faults, *controls))
    yield f"  {'no name':44} {unnamed} runs"


def _is_right(verdict: Verdict) -> bool:
    return verdict.is_right


def _is_no_alarm(verdict: Verdict) -> bool:
    return not verdict.is_false_alarm


def _format_groups(faults: Sequence[Verdict], key: str) -> Iterator[str]:
    members: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in faults:
        members[getattr(verdict.label, key)].append(verdict)
    for name, group in sorted(members.items()):
        right, two, wrong = (sum(map(holds, group)) for _, holds in SCORES[:3])
        low, high = wilson(right, len(group))
        share = f"{right / len(group):4.0%} [{low:.0%} to {high:.0%}]"
        yield f"  {name:16} {share:18} {two:4} {wrong:4} {len(group):4}"
