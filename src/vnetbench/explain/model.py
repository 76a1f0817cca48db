"""What an explanation consists of: findings, the causes that they suspect, and the evidence for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vnetbench.estimate.model import Experiment
from vnetbench.study.model import Level

CONFIRMED, REFUTED = "confirmed", "refuted"
CONFIDENCE_WORDS = (CONFIRMED, "very likely", "likely", "possible", REFUTED)
"""How sure a suspicion is, surest first. `confirmed` and `refuted` need an experiment: a run in which what it
would change was changed. What the others are worth is measured: docs/explain.md."""
REPRESENTATIVE = "representative"
"""In a finding's details: the index of the treatment that its suspects are of."""
MEASURED_SERIES = "measured"
"""The series of a `curve` whose rows were measured; every other is a law that was fitted to them."""


@dataclass(frozen=True)
class Cause:
    """Something that can limit a treatment, or make it unstable; from the tables in `causes/`."""

    name: str
    family: str
    """`cpu`, `window`, `packets`, `links`, `instability`, `instrument`."""
    description: str
    """The sentence's middle: "the sending thread's CPU is full"."""
    advice: str
    """What would change it, as an advice."""
    setting: Mapping[str, Level]
    """The factor and level that would prove it; empty where no setting can."""
    source: str
    """Where the rule comes from."""
    is_fault: bool = True
    """False for limits that every machine has: a thread's CPU that is full while nothing is wrong with it."""


@dataclass(frozen=True)
class EvidenceItem:
    """One figure of evidence, over the treatment's trials."""

    metric: str
    """Its name in `estimate.evidence.FIGURES`, which says unit, meaning and counters."""
    value: float
    """The median of the trials; of two modes, of those in the lower one."""
    low: float
    high: float
    """The least and the most of the same trials."""
    threshold: float | None
    """From where on it speaks; None where it only illustrates."""
    role: str = "supports"
    """`supports` or `contradicts` the cause."""
    supports_when_low: bool = False
    """It speaks below its threshold."""


@dataclass(frozen=True)
class ExperimentResult:
    """What a run with the suspect's setting showed."""

    verdict: str
    """`confirmed`, `refuted`, or `not shown`."""
    experiment: Experiment


@dataclass(frozen=True)
class CandidateCause:
    """A cause that is suspected, how strongly, and why."""

    cause: Cause
    score: float
    """0 to 1; suspects of one finding are ranked by it. Of what makes trials differ it is another measure
    than the rules' score (docs/show-json.md), and not to be held against it."""
    confidence: str
    """One of CERTAINTIES."""
    evidence: tuple[EvidenceItem, ...]
    command: str = ""
    """The one command that would prove it; empty where none can."""
    experiment_result: ExperimentResult | None = None
    """None where nothing was run for it."""


@dataclass(frozen=True)
class EvidenceChart:
    """A small picture of the evidence: what `report/evidence_charts.py` draws."""

    chart_type: str
    """`course` (a metric over the blocks), `bars` (figures beside each other), `modes` (a metric over a
    figure, by mode), `effects` (ratios with intervals) or `curve` (a metric over a factor, with a law)."""
    title: str
    x_label: str
    y_label: str
    """Labels of the axes, with units."""
    rows: tuple[Mapping[str, str | float], ...]
    """`x`, `y`, where known `low`, `high`, and `series` (of what was measured of a `curve`: MEASURED)."""
    threshold: float | None = None
    """From where on `y` speaks for the cause: drawn as a line."""


@dataclass(frozen=True)
class Finding:
    """One thing said about results, with its evidence."""

    kind: str
    """`limit`, `difference`, `unstable`, `factors`, `knee`, `best`, `surprise`, `instrument`, `idle CPUs`,
    `not explained`."""
    text: str
    """One sentence or two, with figures."""
    treatments: tuple[int, ...] = ()
    """Indices of those that it is about; all of them where empty."""
    candidates: tuple[CandidateCause, ...] = ()
    """Ranked, the likeliest first; none where nothing is explained, or nothing is to be."""
    chart: EvidenceChart | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    """Figures that a program may want: of a fit its parameters with intervals, of effects the ratios."""


@dataclass(frozen=True)
class Explanation:
    """All that is said of a campaign, most important first."""

    answer: tuple[str, ...]
    """One or two sentences that somebody understands who has never seen a counter."""
    findings: tuple[Finding, ...]
