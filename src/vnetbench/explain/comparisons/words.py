"""How findings between treatments name treatments, factors and figures."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.model import Ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import format_interval
from vnetbench.study.factors.registry import FACTORS
from vnetbench.wording.factor_text import names_of, treatment_phrase
from vnetbench.wording.treatment_names import name_of, varying_factors

_MOST_NAMED = 3
"""So many treatments are named in a sentence; of more the number is given."""


def others_of(summary: CampaignSummary, treatment: TreatmentSummary, factor: str) -> str:
    """The treatment by the other factors that vary; empty where this is the only one."""
    varying = [
        name for name in names_of(varying_factors(summary.treatments, summary.factors)) if name != factor
    ]
    return treatment_phrase(treatment.factors, varying) if varying else ""


def named(summary: CampaignSummary, treatments: Sequence[TreatmentSummary]) -> str:
    """A few treatments by their names, many by their number and the first of them."""
    names = "; ".join(name_of(summary, each) for each in treatments[:_MOST_NAMED])
    return names if len(treatments) <= _MOST_NAMED else f"{len(treatments)} treatments ({names}; …)"


def percent(share: float, low: float | None = None, high: float | None = None) -> str:
    """A share of 1 with its interval in whole per cents: `71 [64, 78] %`."""
    interval = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{100 * share:.0f}{interval} %"


def times(ratio: Ratio) -> str:
    """`1.42 [1.38, 1.46]`; the value alone where too few trials give no interval."""
    return format_interval(ratio.value, ratio.low, ratio.high, "1").text


def ends_of(ratio: Ratio) -> dict[str, float]:
    """Its interval as a row of a picture has it."""
    return {} if ratio.low is None or ratio.high is None else {"low": ratio.low, "high": ratio.high}


def is_numeric(factor: str) -> bool:
    """Whether the factor's levels are numbers, a word at most beside them."""
    return factor in FACTORS and FACTORS[factor].is_numeric
