"""Names of treatments: the levels of the factors that distinguish them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.factor_text import factor_names, treatment_phrase


class FactorOwner(Protocol):
    """A treatment, or a table row that stands for one."""

    @property
    def factors(self) -> Mapping[str, Level]:
        """Levels by factor name."""
        ...


def varying_factors(
    treatments: Sequence[FactorOwner], factors: Sequence[FactorLevels]
) -> tuple[FactorLevels, ...]:
    """Return the factors whose levels differ between the treatments, in the study's order."""
    return tuple(factor for factor in factors if _is_factor_varying(treatments, factor.name))


def _is_factor_varying(treatments: Sequence[FactorOwner], factor: str) -> bool:
    levels = (each.factors[factor] for each in treatments if factor in each.factors)
    first = next(levels, None)
    return any(level != first for level in levels)


def treatment_name(summary: CampaignSummary, treatment: TreatmentSummary) -> str:
    """Return the name of a treatment: its levels of the factors that vary in this campaign."""
    return treatment_phrase(
        treatment.factors, factor_names(varying_factors(summary.treatments, summary.factors))
    )
