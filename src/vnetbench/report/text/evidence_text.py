"""Evidence as text: label, value, range over the trials, threshold, and the result of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.metric import YES_OR_NO_UNIT, EvidenceMetric
from vnetbench.explain.model import CandidateCause, EvidenceItem, ExperimentResult, Finding
from vnetbench.explain.phrases import format_yes_no_median, is_plain_count
from vnetbench.quantity import Scale, choose_scale, format_count_with_noun, format_interval
from vnetbench.wording.estimate_text import find_metric, format_ratio, metric_noun
from vnetbench.wording.factor_text import treatment_phrase


@dataclass(frozen=True)
class EvidenceText:
    """The texts of one evidence item, with all of its numbers in one unit."""

    label: str
    value_without_unit: str
    unit: str
    range: str
    """The range over the trials, `98.7 to 99.4`; a single value if all trials are equal."""
    threshold: str
    """`supports > 95`, `contradicts < 50`; empty for an item without a threshold."""
    counters: tuple[str, ...]
    """The counters behind the value, by their names in docs/protocol.md."""

    @property
    def value_with_unit(self) -> str:
        """The value and its unit: `99.1 % of one CPU`."""
        return f"{self.value_without_unit} {self.unit}".rstrip()


def format_evidence(item: EvidenceItem) -> EvidenceText:
    """Return the texts of an evidence item for the terminal, the page and Markdown."""
    metric, scale = find_evidence_metric(item.metric), evidence_scale(item)
    value, low, high = _value_min_max_texts(item, metric, scale)
    return EvidenceText(
        label=metric.label,
        value_without_unit=value,
        unit="" if metric.unit == YES_OR_NO_UNIT else scale.unit,
        range=low if low == high else f"{low} to {high}",
        threshold=_threshold_text(item, metric, scale),
        counters=metric.counters,
    )


def split_first_sentence(finding: Finding) -> tuple[str, str]:
    """Return the first sentence of a finding and the rest."""
    first, stop, rest = finding.text.partition(". ")
    return (f"{first}.", rest) if stop else (first, "")


def is_named_in_finding(candidate: CandidateCause, finding: Finding) -> bool:
    """Return whether the text of the finding already names the candidate cause.

    A cause without evidence items counts as named if the finding is about this cause.
    """
    if not candidate.evidence and finding.details.get("cause") == candidate.cause.name:
        return True
    return candidate.cause.description.lower() in finding.text.lower()


def needs_confidence_label(candidate: CandidateCause, finding: Finding) -> bool:
    """Return whether to show the confidence: not for a cause that the finding states as measured."""
    return not is_named_in_finding(candidate, finding) or candidate.confidence in finding.text


def format_experiment_result(result: ExperimentResult) -> str:
    """Return what an experiment changed, and the ratio of the metric with its interval."""
    experiment = result.experiment
    setting = treatment_phrase(experiment.changed_levels, tuple(experiment.changed_levels))
    changed = [name for name in experiment.changed_levels if name in experiment.base_levels]
    base = treatment_phrase(experiment.base_levels, changed)
    return (
        f"{setting} instead of {base}: {metric_noun(experiment.metric)} ×{format_ratio(experiment.ratio)} "
        f"in {format_count_with_noun(experiment.shared_block_count, 'block')} "
        f"({Path(experiment.results_path).name})"
    )


def find_evidence_metric(name: str) -> EvidenceMetric:
    """Return the evidence metric of that name; a metric of the campaign is converted to one."""
    if name in EVIDENCE_METRICS:
        return EVIDENCE_METRICS[name]
    metric = find_metric(name)
    label = metric.label[:1].lower() + metric.label[1:]
    return EvidenceMetric(name, metric.unit, label, metric.meaning, ())


def evidence_scale(item: EvidenceItem) -> Scale:
    """Return the unit for the value and the range of an evidence item."""
    largest = item.value or max(abs(item.low), abs(item.high))
    return choose_scale(find_evidence_metric(item.metric).unit, largest)


def _threshold_text(item: EvidenceItem, metric: EvidenceMetric, scale: Scale) -> str:
    """Return the threshold, with its unit if that differs from the value's: `supports > 20 /s`."""
    if item.threshold is None:
        return ""
    if metric.unit == YES_OR_NO_UNIT:
        return f"{item.role} {'no' if item.applies_below_threshold else 'yes'}"
    threshold_scale = choose_scale(metric.unit, item.threshold) if item.threshold else scale
    number = item.threshold / threshold_scale.divisor
    digits = f"{number:.0f}" if number == round(number) else f"{number:.3g}"
    unit = "" if threshold_scale == scale else f" {threshold_scale.unit}"
    return f"{item.role} {'<' if item.applies_below_threshold else '>'} {digits}{unit}"


def _value_min_max_texts(item: EvidenceItem, metric: EvidenceMetric, scale: Scale) -> list[str]:
    """Return the texts of the value, the minimum and the maximum."""
    values = (item.value, item.low, item.high)
    if metric.unit == YES_OR_NO_UNIT:
        return [format_yes_no_median(each) for each in values]
    if is_plain_count(metric.unit, *values):
        return [f"{each:.0f}" for each in values]
    return [format_interval(each, None, None, metric.unit, scale=scale).value for each in values]
