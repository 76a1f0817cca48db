"""How a treatment is named: by the levels of the factors that tell it from the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.factor_text import factor_names, treatment_phrase


class FactorOwner(Protocol):
    """A treatment, or a line of a table that stands for one."""

    @property
    def factors(self) -> Mapping[str, Level]: ...


def varying_factors(
    treatments: Sequence[FactorOwner], factors: Sequence[FactorLevels]
) -> tuple[FactorLevels, ...]:
    """The factors that tell the rows apart, in the study's order; all others are the same everywhere."""
    return tuple(factor for factor in factors if _varies(treatments, factor.name))


def _varies(rows: Sequence[FactorOwner], factor: str) -> bool:
    levels = (row.factors[factor] for row in rows if factor in row.factors)
    first = next(levels, None)
    return any(level != first for level in levels)


def treatment_name(summary: CampaignSummary, treatment: TreatmentSummary) -> str:
    """The treatment by the factors that vary in this campaign."""
    return treatment_phrase(
        treatment.factors, factor_names(varying_factors(summary.treatments, summary.factors))
    )
