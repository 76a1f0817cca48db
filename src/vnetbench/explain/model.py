"""What an explanation consists of: findings, their candidate causes and the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vnetbench.estimate.model import Experiment
from vnetbench.study.model import Level

CONFIRMED, REFUTED = "confirmed", "refuted"
CONFIDENCE_WORDS = (CONFIRMED, "very likely", "likely", "possible", REFUTED)
"""Words for confidence in a candidate cause, highest first.

`confirmed` and `refuted` need an experiment: a run with the candidate's setting. docs/explain.md gives the
measured accuracy of the other words.
"""
REPRESENTATIVE_INDEX_KEY = "representative"
"""Key in a finding's details: index of the treatment whose candidate causes the finding shows."""
SHORT_CAUSE_PHRASE_KEY = "cause_phrase"
"""Key in a limit's details: the cause as a clause of the answer."""
DELIVERED_LOAD_CLAUSE = "the network delivered the whole offered load"
DELIVERED_LOAD_KEY = "is_load_delivered"
"""Key in the details of a limit with a cause: whether the network delivered the whole offered load."""
MEASURED_SERIES_NAME = "measured"
"""Series of the measured rows in a `curve` chart. All other series are fitted laws."""


@dataclass(frozen=True)
class Cause:
    """A limit of a treatment, or a reason for unstable results, from the tables in `causes/`."""

    name: str
    family: str
    """`failures`, `cpu`, `window`, `packets`, `links`, `instability` or `instrument`."""
    description: str
    """A clause that can stand within a sentence: "the sending thread saturates its CPU"."""
    advice: str
    """How to remove the cause."""
    experiment_levels: Mapping[str, Level]
    """Factor and level of the run that would confirm the cause; empty if no setting can."""
    source: str
    """Publication or documentation that the rule is based on."""
    is_fault: bool = True
    """False for a limit that every unpaced run has, such as a saturated CPU."""


@dataclass(frozen=True)
class EvidenceItem:
    """One evidence metric over the treatment's trials."""

    metric: str
    """Name in `estimate.evidence.EVIDENCE_METRICS`, which has unit, meaning and counters."""
    value: float
    """Median of the trials. For two modes: median of the lower mode."""
    low: float
    high: float
    """Smallest and largest value of the same trials."""
    threshold: float | None
    """Value from which the metric supports or contradicts the cause; None if it only illustrates."""
    role: str = "supports"
    """`supports` or `contradicts` the cause."""
    applies_below_threshold: bool = False
    """True if the role applies below the threshold."""
    location: str = ""
    """Where the value was measured, in words: an interface and queue, a hop or a kernel; empty if unknown."""


@dataclass(frozen=True)
class SettingEvidence:
    """A setting that the audit of the campaign found wrong, and that can have the cause."""

    rule: str
    """Id of the audit rule."""
    problem: str
    """What is wrong, as a clause."""
    location: str
    """Machine and object: `web-01, ens192`."""
    found: str
    expected: str
    fix: str

    @property
    def text(self) -> str:
        """The setting as a sentence without its fix."""
        return f"{self.location}: {self.problem} (found {self.found}; expected {self.expected})"


@dataclass(frozen=True)
class ExperimentResult:
    """Outcome of a run with the candidate's setting."""

    verdict: str
    """`confirmed`, `refuted` or `inconclusive`."""
    experiment: Experiment


@dataclass(frozen=True)
class CandidateCause:
    """A possible cause with its score, confidence and evidence."""

    cause: Cause
    score: float
    """0 to 1. Ranks the candidates of one finding.

    Scores of causes of instability are not comparable with scores of limits (docs/show-json.md).
    """
    confidence: str
    """One of CONFIDENCE_WORDS."""
    evidence: tuple[EvidenceItem, ...]
    command: str = ""
    """Command of the run that would confirm the cause; empty if no command can."""
    experiment_result: ExperimentResult | None = None
    """None if no experiment was run."""
    settings: tuple[SettingEvidence, ...] = ()
    """Audited settings that are about the cause."""


@dataclass(frozen=True)
class EvidenceChart:
    """A small chart of the evidence, drawn by `report/charts/evidence_charts.py`."""

    chart_type: str
    """`time_series` (a metric over the blocks), `bars`, `modes` (a metric over another one, by mode),
    `effects` (ratios with intervals) or `curve` (a metric over a factor, with a fitted law)."""
    title: str
    x_label: str
    y_label: str
    """Axis labels with units."""
    rows: tuple[Mapping[str, str | float], ...]
    """`x`, `y`, and optionally `low`, `high`, `series` (MEASURED_SERIES_NAME: measured rows of a `curve`)."""
    threshold: float | None = None
    """Value of `y` from which it supports the cause, drawn as a line."""


@dataclass(frozen=True)
class Finding:
    """One statement about the results, with its evidence."""

    kind: str
    """`failed`, `limit`, `difference`, `unstable`, `factors`, `knee`, `best`, `surprise`, `instrument`,
    `idle CPUs`, `interventions` or `not explained`."""
    text: str
    """One to three sentences with values."""
    treatment_indices: tuple[int, ...] = ()
    """Indices of the treatments that the finding is about; empty for all treatments."""
    candidates: tuple[CandidateCause, ...] = ()
    """Candidate causes, most likely first."""
    chart: EvidenceChart | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    """Values for programs, such as fitted parameters with intervals, or ratios of effects."""


@dataclass(frozen=True)
class Explanation:
    """All findings about a campaign, most important first."""

    answer: tuple[str, ...]
    """One or two sentences for readers who do not know the counters."""
    findings: tuple[Finding, ...]
    is_limit_answered: bool = True
    """Whether `answer` names the limit of most treatments. False if no single limit applies."""
    failures: tuple[str, ...] = ()
    """The sentence about failed trials, which also begins `answer`; empty if none failed."""
