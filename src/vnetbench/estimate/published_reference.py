"""A published table as the summary of a campaign, so that reports can show it."""

from __future__ import annotations

from vnetbench.errors import BenchError
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.published.catalog import TABLE_NAMES
from vnetbench.published.tables import PublishedRow, ValueWithRange, load_table
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.study.model import FactorLevels, Precision, Timing
from vnetbench.study.problems import suggest_fix

PUBLISHED_TABLE_PATH_PREFIX = "reference:"
"""Prefix of the name of a published table where a results file is expected."""
PUBLISHED_STATUS = "published"
"""Status of a published campaign, and `state` of its treatments."""


def published_table_summary(name: str) -> CampaignSummary:
    """Return a published table as a summary: a treatment for each row, without trials.

    Raises:
        BenchError: There is no table of this name.
    """
    if name not in TABLE_NAMES:
        raise BenchError(
            f'"{name[:60]}" is not a published table',
            where=f"{PUBLISHED_TABLE_PATH_PREFIX}{name[:60]}",
            fix=suggest_fix(name, TABLE_NAMES, otherwise=f"use one of {', '.join(TABLE_NAMES)}"),
        )
    source = load_table(name)
    factors = dict.fromkeys(factor for row in source.rows for factor in row.levels)
    return CampaignSummary(
        path=f"{PUBLISHED_TABLE_PATH_PREFIX}{name}",
        title=source.title,
        question="",
        workload=source.workload,
        study_text="",
        overrides=(),
        seed=0,
        status=PUBLISHED_STATUS,
        started_at="",
        elapsed_s=0.0,
        required_precision=Precision(),
        timing=Timing(),
        factors=tuple(
            FactorLevels(
                factor,
                tuple(dict.fromkeys(row.levels[factor] for row in source.rows if factor in row.levels)),
            )
            for factor in factors
        ),
        treatments=tuple(_treatment_summary(index, row) for index, row in enumerate(source.rows)),
        testbed_backend=IMPORTED_LAB,
        deciding_metric=source.metric,
        represented_table=source,
    )


def _treatment_summary(index: int, row: PublishedRow) -> TreatmentSummary:
    metrics = {name: _estimate_of_published_value(value) for name, value in row.values.items()}
    return TreatmentSummary(index, row.levels, {}, PUBLISHED_STATUS, metrics, ())


def _estimate_of_published_value(value: ValueWithRange) -> Estimate:
    return Estimate(
        value.value, value.minimum, value.maximum, confidence=0.0, trial_count=0, is_published=True
    )
