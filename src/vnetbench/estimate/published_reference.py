"""A published table as the summary of a campaign, so that reports show it beside others."""

from __future__ import annotations

from vnetbench.errors import BenchError
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.published.tables import PublishedRow, ValueRange, load_table
from vnetbench.published.catalog import TABLE_NAMES
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import FactorLevels, Precision, Timing
from vnetbench.study.problems import suggest

PREFIX = "reference:"
"""Before the name of a published table, wherever a results file may be named."""
PUBLISHED = "published"
"""Status of such a campaign, and what stopped its treatments."""


def reference_summary(name: str) -> CampaignSummary:
    """The published table of that name; a treatment each figure, without trials. Raises BenchError."""
    if name not in TABLE_NAMES:
        raise BenchError(
            f'"{name[:60]}" is no published table',
            where=f"{PREFIX}{name[:60]}",
            fix=suggest(name, TABLE_NAMES, otherwise=f"write one of {', '.join(TABLE_NAMES)}"),
        )
    source = load_table(name)
    names = dict.fromkeys(factor for figure in source.rows for factor in figure.levels)
    return CampaignSummary(
        path=f"{PREFIX}{name}",
        title=source.title,
        question="",
        workload=source.workload,
        study_text="",
        overrides=(),
        seed=0,
        status=PUBLISHED,
        started="",
        elapsed_s=0.0,
        precision=Precision(),
        timing=Timing(),
        factors=tuple(
            FactorLevels(
                factor,
                tuple(dict.fromkeys(f.levels[factor] for f in source.rows if factor in f.levels)),
            )
            for factor in names
        ),
        treatments=tuple(_treatment(place, figure) for place, figure in enumerate(source.rows)),
        kind=IMPORTED,
        main_metric=source.metric,
        reference=source,
    )


def _treatment(index: int, figure: PublishedRow) -> TreatmentSummary:
    metrics = {name: _estimate(spread) for name, spread in figure.values.items()}
    return TreatmentSummary(index, figure.levels, {}, PUBLISHED, metrics, ())


def _estimate(spread: ValueRange) -> Estimate:
    return Estimate(spread.mean, spread.minimum, spread.maximum, confidence=0.0, trials=0, is_published=True)
