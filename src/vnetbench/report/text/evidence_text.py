"""How findings and their figures are written: headline, value, range over the trials, threshold, proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.metric import YES_OR_NO, EvidenceMetric
from vnetbench.explain.model import EvidenceItem, Finding, ExperimentResult, CandidateCause
from vnetbench.explain.phrases import is_count, yes_or_no
from vnetbench.quantity import Scale, format_interval, choose_scale
from vnetbench.wording.estimate_text import find_metric, metric_noun, format_ratio
from vnetbench.wording.factor_text import pluralize, treatment_phrase


@dataclass(frozen=True)
class EvidenceText:
    """One figure of evidence in words, every number of it in one unit."""

    label: str
    value: str
    unit: str
    range: str
    """`98.7 to 99.4`, over the trials; the value alone where all trials are alike."""
    threshold: str
    """`for > 95`: it speaks for the cause above 95; `against < 50`; empty where it only illustrates."""
    counters: tuple[str, ...]
    """What it is made of, by the names of docs/protocol.md."""

    @property
    def figure(self) -> str:
        """Value and unit together: `99.1 % of one CPU`."""
        return f"{self.value} {self.unit}".rstrip()


def format_evidence(exhibit: EvidenceItem) -> EvidenceText:
    """The exhibit as it is shown in a terminal, on the page and in Markdown."""
    figure, scale = find_evidence_metric(exhibit.metric), evidence_scale(exhibit)
    value, low, high = _value_texts(exhibit, figure, scale)
    return EvidenceText(
        label=figure.label,
        value=value,
        unit="" if figure.unit == YES_OR_NO else scale.unit,
        range=low if low == high else f"{low} to {high}",
        threshold=_threshold_text(exhibit, figure, scale),
        counters=figure.counters,
    )


def split_headline(finding: Finding) -> tuple[str, str]:
    """The first sentence of what a finding says, and the rest."""
    first, stop, rest = finding.text.partition(". ")
    return (f"{first}.", rest) if stop else (first, "")


def is_named_in_finding(suspect: CandidateCause, finding: Finding) -> bool:
    """Whether the finding's own words name the suspect, and how sure it is; what they count needs no more."""
    is_counted = not suspect.evidence and finding.details.get("cause") == suspect.cause.name
    return is_counted or suspect.cause.description.lower() in finding.text.lower()


def needs_confidence_label(suspect: CandidateCause, finding: Finding) -> bool:
    """Whether a word tells how sure a suspect is: not of what the finding says as measured, without one."""
    return not is_named_in_finding(suspect, finding) or suspect.confidence in finding.text


def format_experiment_result(proof: ExperimentResult) -> str:
    """`with 4 MiB socket buffer goodput times 1.85 [1.80, 1.90], 8 blocks (jumbo.proof.vnb)`."""
    found = proof.experiment
    setting = treatment_phrase(found.changed_levels, tuple(found.changed_levels))
    was = treatment_phrase(found.base_levels, [name for name in found.changed_levels if name in found.base_levels])
    return (
        f"{setting} instead of {was}: {metric_noun(found.metric)} times {format_ratio(found.ratio)}, "
        f"in {pluralize(found.shared_blocks, 'block')} ({Path(found.results_path).name})"
    )


def find_evidence_metric(name: str) -> EvidenceMetric:
    """The figure of that name; of a metric that stands as evidence, what is known of the metric."""
    if name in EVIDENCE_METRICS:
        return EVIDENCE_METRICS[name]
    metric = find_metric(name)
    return EvidenceMetric(name, metric.unit, metric.label[:1].lower() + metric.label[1:], metric.meaning, ())


def evidence_scale(exhibit: EvidenceItem) -> Scale:
    """One unit for value and range: that of the value, as sentences have it."""
    return choose_scale(
        find_evidence_metric(exhibit.metric).unit, exhibit.value or max(abs(exhibit.low), abs(exhibit.high))
    )


def _threshold_text(exhibit: EvidenceItem, figure: EvidenceMetric, scale: Scale) -> str:
    """With its unit where that is another than the value's: `for > 20 /s` of 6.28 k/s."""
    if exhibit.threshold is None:
        return ""
    if figure.unit == YES_OR_NO:
        return f"{exhibit.role} {'no' if exhibit.supports_when_low else 'yes'}"
    own = choose_scale(figure.unit, exhibit.threshold) if exhibit.threshold else scale
    number = exhibit.threshold / own.divisor
    digits = f"{number:.0f}" if number == round(number) else f"{number:.3g}"
    unit = "" if own == scale else f" {own.unit}"
    return f"{exhibit.role} {'<' if exhibit.supports_when_low else '>'} {digits}{unit}"


def _value_texts(exhibit: EvidenceItem, figure: EvidenceMetric, scale: Scale) -> list[str]:
    """Value, least and most."""
    found = (exhibit.value, exhibit.low, exhibit.high)
    if figure.unit == YES_OR_NO:
        return [yes_or_no(each) for each in found]
    if is_count(figure.unit, *found):
        return [f"{each:.0f}" for each in found]
    return [format_interval(each, None, None, figure.unit, scale=scale).value for each in found]
