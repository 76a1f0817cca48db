"""How findings and their figures are written: headline, value, range over the trials, threshold, proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vnetbench.estimate.evidence import FIGURES
from vnetbench.estimate.evidence.figure import Figure
from vnetbench.explain.model import Exhibit, Finding, Proof, Suspect
from vnetbench.quantity import Scale, format_interval, scale_for
from vnetbench.wording.figures import metric_of, noun_of, ratio_text
from vnetbench.wording.labels import counted, treatment_phrase


@dataclass(frozen=True)
class ExhibitText:
    """One figure of evidence in words, every number of it in one unit."""

    label: str
    value: str
    unit: str
    range: str
    """`98.7 to 99.4`, over the trials; the value alone where all trials are alike."""
    threshold: str
    """`for ≥ 95`: it speaks for the cause from 95 on; `against < 50`; empty where it only illustrates."""
    counters: tuple[str, ...]
    """What it is made of, by the names of docs/protocol.md."""

    @property
    def figure(self) -> str:
        """Value and unit together: `99.1 % of one CPU`."""
        return f"{self.value} {self.unit}".rstrip()


def exhibit_text(exhibit: Exhibit) -> ExhibitText:
    """The exhibit as it is shown in a terminal, on the page and in Markdown."""
    figure, scale = figure_of(exhibit.figure), scale_of_exhibit(exhibit)
    low, high = (_number(each, figure, scale) for each in (exhibit.low, exhibit.high))
    return ExhibitText(
        label=figure.label,
        value=_number(exhibit.value, figure, scale),
        unit=scale.unit,
        range=low if low == high else f"{low} to {high}",
        threshold=_threshold(exhibit, scale),
        counters=figure.counters,
    )


def headline(finding: Finding) -> tuple[str, str]:
    """The first sentence of what a finding says, and the rest."""
    first, stop, rest = finding.says.partition(". ")
    return (f"{first}.", rest) if stop else (first, "")


def is_told(suspect: Suspect, finding: Finding) -> bool:
    """Whether the finding's own words name the suspect, and how sure it is."""
    return suspect.cause.says.lower() in finding.says.lower()


def proof_text(proof: Proof) -> str:
    """`with 4 MiB socket buffer goodput times 1.85 [1.80, 1.90], 8 blocks (jumbo.proof.vnb)`."""
    found = proof.experiment
    setting = treatment_phrase(found.setting, tuple(found.setting))
    was = treatment_phrase(found.levels, [name for name in found.setting if name in found.levels])
    return (
        f"{setting} instead of {was}: {noun_of(found.metric)} times {ratio_text(found.ratio)}, "
        f"in {counted(found.blocks, 'block')} ({Path(found.path).name})"
    )


def figure_of(name: str) -> Figure:
    """The figure of that name; of a metric that stands as evidence, what is known of the metric."""
    if name in FIGURES:
        return FIGURES[name]
    metric = metric_of(name)
    return Figure(name, metric.unit, metric.label[:1].lower() + metric.label[1:], metric.meaning, ())


def scale_of_exhibit(exhibit: Exhibit) -> Scale:
    """One unit for all numbers of the exhibit."""
    shown = (exhibit.value, exhibit.low, exhibit.high, exhibit.threshold or 0.0)
    return scale_for(figure_of(exhibit.figure).unit, max(map(abs, shown)))


def _threshold(exhibit: Exhibit, scale: Scale) -> str:
    if exhibit.threshold is None:
        return ""
    return f"{exhibit.speaks} {'<' if exhibit.is_low else '≥'} {exhibit.threshold / scale.divisor:.4g}"


def _number(value: float, figure: Figure, scale: Scale) -> str:
    return format_interval(value, None, None, figure.unit, scale=scale).value
