"""Two modes of a treatment's trials, and what goes with which: the figure that tells one from the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.frames import PERCENT_OF_LOST_FRAMES
from vnetbench.estimate.evidence.metric import YES_OR_NO
from vnetbench.estimate.evidence.placement import CPU_NUMBER
from vnetbench.estimate.latency import PERCENTILES
from vnetbench.estimate.median import median_interval
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.modes import FEWEST_TRIALS_FOR_MODES, SMALLEST_MODE_SHARE, find_modes, mark_upper_mode
from vnetbench.estimate.ratios import adjust_p_values, rank_ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.comparisons.separation import Separation, rank_separations
from vnetbench.explain.experiment_command import experiment_command
from vnetbench.explain.model import CandidateCause, EvidenceChart, EvidenceItem, Finding
from vnetbench.explain.phrases import format_metric, metric_label
from vnetbench.explain.rules import get_cause
from vnetbench.quantity import choose_scale, format_interval
from vnetbench.wording.estimate_text import find_metric, metric_noun
from vnetbench.wording.factor_text import pluralize
from vnetbench.wording.treatment_names import treatment_name

_FEWEST = 12
"""Of fewer trials no split is plausible; below FEWEST_TRIALS one counts only where a figure goes with it."""
_SURE = 0.05
_LEAST_DISTANCE = 0.6
"""A figure that tells fewer trials' modes is no explanation: of four trials of five, by ranks."""
_AS_GOOD = 0.1
"""Of figures that tell modes apart nearly as well, one that says where the trial ran stands first."""
_SURE_OF_KINDS = 0.01
"""Where the metric alone shows no modes."""
_FEWEST_OF_KIND = 4
_MOST_SHOWN = 4
_CERTAINTIES = ((0.95, "very likely"), (0.8, "likely"), (0.0, "possible"))
"""From which distance between the groups on."""

SEPARATION_TEXT = "apart"
"""In a finding's details: what tells the two groups apart, in words."""

DERIVED_METRICS = (
    "goodput_", "transactions_per_", "connections_per_", "datagrams_", "throughput_", "forwarding_rate_",
    "max_forwarding_rate_", "frames", "datagrams", "packets_per_s", "segments_per_s", "calls_per_s",
    "stream_goodput_", "cycles_per_", "latency_", "connect_", "delay_mean_us",
    *(f"delay_{share}_us" for share in PERCENTILES), "jitter_", "back_to_back_", "buffer_s", "outstanding_",
    "goodput_over_pacing_rate", "in_flight_", "backlog_delay_us", "sender_cpu_percent", "receiver_cpu_percent",
    "first_vm_cpu_percent", "second_vm_cpu_percent", "host_cpu_percent", "host_softirq_percent",
    "server_cpu_percent", "vcpus_cpu_percent", "emulators_cpu_percent", "context_switches_per_",
    "interrupts_per_", "sender_interrupts_per_s", "receiver_interrupts_per_s", "sender_cycles_per_byte",
    "receiver_cycles_per_byte", "net_rx_softirqs_per_s", "kvm_exits_per_s",
)  # fmt: skip
"""Figures that are the metric in other words: rates, what is divided by a rate, times that are a rate's
inverse, and work done for each byte. They go with the modes whatever makes these. What ends with _ is how
the names of several begin."""
_BEGINNINGS = tuple(each for each in DERIVED_METRICS if each.endswith("_"))
_SHARES_LOST = {"forwarding_rate_fps": ("frame_loss_percent", "loss_percent", "frames_lost_percent")}
"""By metric: what is lost of all that was sent is what this lacks of it, and never says where or why."""
_PLACES_OF_LOSS = tuple(
    name for name, figure in EVIDENCE_METRICS.items() if figure.unit == PERCENT_OF_LOST_FRAMES
)
_IDLE, _INCREASE = "latency_idle_", "latency_increase_"
"""How the latencies before the load begin, which no load made, and those that they are taken off from."""

PLACEMENT_METRICS = (
    "threads_on_one_cpu_percent", "sender_on_softirq_cpu_percent", "receiver_on_softirq_cpu_percent",
    "sender_cpu", "receiver_cpu", "softirq_cpu", "sender_cpus_softirq_percent", "receiver_cpus_softirq_percent",
    "busiest_receive_cpu_percent", "receive_cpus", "busiest_queue_percent", "busiest_uplink_percent",
    "foreign_traffic_percent", "other_work_percent", "steal_percent", "worst_steal_percent", "mtu_bytes",
    "tso_off", "gso_off", "gro_off", "lro_off", "checksum_off", "block", "after_treatment",
)  # fmt: skip
"""Figures that say where, beside what and how a trial ran, the plainest first: no rate makes them what they
are, so they stand before figures of what then happened (waits, drops) that tell the modes apart as well."""

_PLACES = ("threads_on_one_cpu_percent", "sender_on_softirq_cpu_percent", "receiver_on_softirq_cpu_percent")
"""Of these the shares of samples that are near all or nothing where a trial stays as it began."""
_SPREADS = ("busiest_receive_cpu_percent", "busiest_queue_percent", "busiest_uplink_percent")
"""Of these the shares that are of two kinds where they fall into modes themselves, wherever these lie."""
BUSY_METRICS = ("other_work_percent", "steal_percent", "worst_steal_percent")
_OF_ORDER = {"block": "block of the campaign", "after_treatment": "treatment that ran before"}
_NAMES = frozenset(
    {"after_treatment", *(figure.name for figure in EVIDENCE_METRICS.values() if figure.unit == CPU_NUMBER)}
)


@dataclass(frozen=True)
class ModeSplit:
    """A treatment whose trials fall into two groups: modes of the metric, or kinds by where they ran."""

    treatment: TreatmentSummary
    points: tuple[TrialPoint, ...]
    is_upper: tuple[bool, ...]
    """Of each point: whether it is in the group of larger values."""
    medians: tuple[float, float]
    """The medians of both groups, ascending."""
    separating_metrics: tuple[Separation, ...]
    """Figures that tell them apart beyond chance; those first that say where the trials ran."""
    distance: float
    """How well the first figure goes with the metric: 0 not at all, 1 in every trial."""
    p: float
    """Of that being chance."""
    is_by_placement: bool = False
    """The first figure divides them, and the metric, which shows no two modes, goes with it."""


def is_consequence_of(figure: str, metric: str) -> bool:
    """Whether a figure follows from the metric's modes, so that it says nothing of what makes them."""
    if figure.startswith(_IDLE):
        return metric.startswith(_INCREASE)
    others = _SHARES_LOST.get(metric, ())
    return figure in DERIVED_METRICS or figure in others or figure.startswith(_BEGINNINGS)


def find_splits(summary: CampaignSummary) -> tuple[ModeSplit, ...]:
    """The treatments with two modes, or with trials of two kinds, in the campaign's order."""
    before = _before(summary)
    found = (
        _split(each, summary.deciding_metric, before) or _kinds(summary, each, before)
        for each in summary.treatments
    )
    return tuple(each for each in found if each is not None)


def findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """One finding a treatment with two modes."""
    return tuple(_finding(summary, split) for split in find_splits(summary))


def _split(treatment: TreatmentSummary, metric: str, before: Mapping[int, int]) -> ModeSplit | None:
    points = tuple(point for point in treatment.points if metric in point.values)
    values = [point.values[metric] for point in points]
    found = find_modes(values, _FEWEST)
    if found.modality != "two":
        return None
    is_upper = mark_upper_mode(values, found.modes)
    ranked = _ranked(rank_separations(_figures(points, metric, before), is_upper, _NAMES))
    if len(points) < FEWEST_TRIALS_FOR_MODES and not ranked:
        return None
    low, high = (mode.value for mode in found.modes)
    distance, p = (ranked[0].distance, ranked[0].p) if ranked else (0.0, 1.0)
    return ModeSplit(treatment, points, tuple(is_upper), (low, high), tuple(ranked), distance, p)


def _kinds(
    summary: CampaignSummary, treatment: TreatmentSummary, before: Mapping[int, int]
) -> ModeSplit | None:
    """Trials that differ in where they ran, where the metric goes with that.

    A metric that scatters much may show no two modes although trials ran in two ways: with both ends on one
    CPU more often than not, or less; with packets on one CPU or on several. The metric of both kinds is then
    compared by ranks.
    """
    metric = summary.deciding_metric
    points = tuple(point for point in treatment.points if point.values.get(metric, 0.0) > 0)
    if len(points) < _FEWEST:
        return None
    known = _figures(points, metric, before)
    figures = {name: known[name] for name in (*_PLACES, *_SPREADS) if name in known}
    parts = [part for name, own in figures.items() if _are_two(part := _part(name, own))]
    ratios = [_ratio(points, part, metric, summary.precision.confidence) for part in parts]
    for part, compared in zip(parts, adjust_p_values(ratios), strict=True):
        matters = abs(math.log(compared.value)) >= summary.precision.half_width
        if compared.p_value is not None and compared.p_value <= _SURE_OF_KINDS and matters:
            is_upper = tuple(other == (compared.value > 1) for other in part)
            return _of_kinds(treatment, points, is_upper, figures, metric, compared.p_value)
    return None


def _of_kinds(
    treatment: TreatmentSummary,
    points: tuple[TrialPoint, ...],
    is_upper: tuple[bool, ...],
    figures: Mapping[str, Sequence[float]],
    metric: str,
    p: float,
) -> ModeSplit:
    values = [point.values[metric] for point in points]
    told_by = tuple(_ranked(rank_separations(figures, is_upper, _NAMES)))
    (own,) = rank_separations({metric: values}, is_upper)
    return ModeSplit(
        treatment, points, is_upper, (own.lower, own.upper), told_by, own.distance, p, is_by_placement=True
    )


def _part(name: str, own: Sequence[float]) -> list[bool]:
    """Whether each trial is of the kind with more of a figure; of none where it shows no two kinds."""
    if name in _PLACES:
        return [share > 50 for share in own]
    found = find_modes(own, _FEWEST)
    return mark_upper_mode(own, found.modes) if found.modes else [False] * len(own)


def _are_two(part: Sequence[bool]) -> bool:
    """Whether neither kind is so rare that it may be an oddity."""
    return min(part.count(True), part.count(False)) >= max(_FEWEST_OF_KIND, SMALLEST_MODE_SHARE * len(part))


def _ratio(points: Sequence[TrialPoint], part: Sequence[bool], metric: str, confidence: float) -> Ratio:
    """The metric with more of a figure over that with less."""
    less, more = (_of_side(points, part, side, metric) for side in (False, True))
    return rank_ratio(less, more, confidence)


def _of_side(points: Sequence[TrialPoint], part: Sequence[bool], side: bool, metric: str) -> list[float]:
    return [point.values[metric] for point, upper in zip(points, part, strict=True) if upper == side]


def _figures(points: Sequence[TrialPoint], metric: str, before: Mapping[int, int]) -> dict[str, list[float]]:
    """Every figure that all of the trials have and that is no consequence, with those of their order."""
    told = [_told(point) for point in points]
    names = [name for name in told[0] if not is_consequence_of(name, metric)]
    figures = {name: [each[name] for each in told] for name in names if all(name in each for each in told)}
    figures["block"] = [float(point.block) for point in points]
    figures["after_treatment"] = [float(before.get(point.trial_id, -1)) for point in points]
    return figures


def _told(point: TrialPoint) -> dict[str, float]:
    """All that is known of a trial. One that lost too few frames to say where lost none at each place."""
    nowhere = dict.fromkeys(_PLACES_OF_LOSS, 0.0) if "frames_lost_percent" in point.evidence else {}
    return {**nowhere, **point.values, **point.evidence}


def _before(summary: CampaignSummary) -> dict[int, int]:
    """By trial: the treatment of the trial before it."""
    order = sorted((point.trial_id, each.index) for each in summary.treatments for point in each.points)
    return {trial: index for (_, index), (trial, _) in pairwise(order)}


def _ranked(found: Sequence[Separation]) -> list[Separation]:
    telling = [each for each in found if each.p <= _SURE and each.distance >= _LEAST_DISTANCE]
    best = max((each.distance for each in telling), default=0.0)
    first = [
        each for each in telling if each.metric in PLACEMENT_METRICS and each.distance >= best - _AS_GOOD
    ]
    first.sort(key=lambda each: PLACEMENT_METRICS.index(each.metric))
    return [*first, *(each for each in telling if each not in first)]


def _finding(summary: CampaignSummary, split: ModeSplit) -> Finding:
    low, high = (_of_group(summary, split, upper) for upper in (False, True))
    lower = split.is_upper.count(False)
    groups = "trials of two kinds" if split.is_by_placement else "two modes"
    who = (
        f"{treatment_name(summary, split.treatment)}: {groups}, "
        if len(summary.treatments) > 1
        else f"{groups}: "
    )
    apart = _apart(summary, split)
    says = (
        f"{who}{metric_noun(summary.deciding_metric)} is {low} in {lower} of {pluralize(len(split.points), 'trial')} "
        f"and {high} in the others; {apart}."
    )
    return Finding(
        kind="unstable",
        text=says,
        treatments=(split.treatment.index,),
        candidates=(_suspect(summary, split),),
        chart=_picture(summary, split),
        details={
            "cause": _cause(split),
            "metric": summary.deciding_metric,
            "values": list(split.medians),
            "is_by_figure": split.is_by_placement,
            SEPARATION_TEXT: apart,
            "distance": split.distance,
            "p": split.p,
            "upper": [
                point.trial_id for point, upper in zip(split.points, split.is_upper, strict=True) if upper
            ],
            "told_by": [
                {"figure": e.metric, "auc": e.auc, "p": e.p, "lower": e.lower, "upper": e.upper}
                for e in split.separating_metrics
            ],
        },
    )


def _of_group(summary: CampaignSummary, split: ModeSplit, upper: bool) -> str:
    """The median of one group with its interval."""
    metric = summary.deciding_metric
    own = _of_side(split.points, split.is_upper, upper, metric)
    low, high = median_interval(own, summary.precision.confidence) or (None, None)
    return format_interval(split.medians[upper], low, high, find_metric(metric).unit).text


def _apart(summary: CampaignSummary, split: ModeSplit) -> str:
    """The half of a sentence that says what tells the groups apart, in words that need not know of groups."""
    if not split.separating_metrics:
        return "no figure that was counted tells them apart"
    first, noun = split.separating_metrics[0], metric_noun(summary.deciding_metric)
    lower, upper = (_text(first.metric, each) for each in (first.lower, first.upper))
    return (
        f"what tells them apart is {_label(first.metric)}: {lower} where {noun} is low, "
        f"{upper} where it is high"
    )


def _label(figure: str) -> str:
    return _OF_ORDER.get(figure) or metric_label(figure)


def _unit(figure: str) -> str:
    """The unit of an axis; CPUs and blocks are numbered, and yes or no needs none."""
    if figure in _NAMES or figure in _OF_ORDER:
        return ""
    unit = EVIDENCE_METRICS[figure].unit if figure in EVIDENCE_METRICS else find_metric(figure).unit
    return "" if unit == YES_OR_NO else unit


def _text(figure: str, value: float) -> str:
    if figure in _NAMES or figure in _OF_ORDER:
        return f"{value:.0f}"
    return format_metric(figure, value)


def _suspect(summary: CampaignSummary, split: ModeSplit) -> CandidateCause:
    cause = get_cause(_cause(split))
    return CandidateCause(
        cause=cause,
        score=split.distance if split.separating_metrics else 0.5,
        confidence=next(word for least, word in _CERTAINTIES if split.distance >= least),
        evidence=tuple(
            _exhibit(split, each)
            for each in split.separating_metrics[:_MOST_SHOWN]
            if each.metric not in _OF_ORDER
        ),
        command=experiment_command(summary, split.treatment, cause)[1],
    )


def _cause(split: ModeSplit) -> str:
    return (
        "machine_busy"
        if split.separating_metrics and split.separating_metrics[0].metric in BUSY_METRICS
        else "two_modes"
    )


def _exhibit(split: ModeSplit, separation: Separation) -> EvidenceItem:
    """The figure in the lower mode, against the middle between both modes'."""
    lower = [
        _told(point)[separation.metric]
        for point, upper in zip(split.points, split.is_upper, strict=True)
        if not upper
    ]
    return EvidenceItem(
        separation.metric,
        separation.lower,
        min(lower),
        max(lower),
        None if separation.metric in _NAMES else (separation.lower + separation.upper) / 2,
        supports_when_low=separation.lower < separation.upper,
    )


def _picture(summary: CampaignSummary, split: ModeSplit) -> EvidenceChart:
    metric = find_metric(summary.deciding_metric)
    scale = choose_scale(metric.unit, split.medians[1])
    figure = split.separating_metrics[0].metric if split.separating_metrics else "block"
    known = _figures(split.points, summary.deciding_metric, _before(summary))[figure]
    unit = _unit(figure)
    across = choose_scale(unit, max(map(abs, known)))
    return EvidenceChart(
        chart_type="modes",
        title=f"{metric.label} over {_label(figure)}",
        x_label=f"{_label(figure)} ({across.unit})" if across.unit else _label(figure),
        y_label=f"{metric.label} ({scale.unit})" if scale.unit else metric.label,
        rows=tuple(
            {
                "x": x / across.divisor,
                "y": point.values[summary.deciding_metric] / scale.divisor,
                "series": "upper" if upper else "lower",
            }
            for x, point, upper in zip(known, split.points, split.is_upper, strict=True)
        ),
    )
