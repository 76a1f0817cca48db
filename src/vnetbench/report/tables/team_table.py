"""The links of a testbed's team: what each carried in both directions, next to the predicted flows."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.estimate.team_traffic import DIRECTIONS, DirectionTraffic
from vnetbench.quantity import format_count_with_noun
from vnetbench.report.tables.columns import Column
from vnetbench.wording.factor_text import factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

TEAM_TABLE_TITLE = "Links of the team"
TEAM_TABLE_NOTE = (
    "One trial of each treatment, the one nearest to the median: the share of the team's bytes on each link, "
    "in percent, in the order of the links. Flows: how many flows the policy and the state of the team just "
    "before the load put on each link; +: the state did not show the link of all flows."
)
_BARS = " ▁▂▃▄▅▆▇█"
"""Bars of a share from 0 to 1; a link that carries anything has one."""
_LINKS_IN_ONE_LINE = 4
_TREATMENT_WIDTH = 26
_MAX_ADVICE_SENTENCES = 5


@dataclass(frozen=True)
class _Row:
    """One direction of a team in the typical trial of a treatment."""

    treatment: str
    direction: str
    links: Sequence[DirectionTraffic]
    has_open_flows: bool
    """Whether the team's state did not show the link of some flow."""


def team_columns(summary: CampaignSummary) -> list[Column]:
    """Return the columns of the table, with two rows for each treatment; empty without a team."""
    names = factor_names(varying_factors(summary.treatments, summary.factors))
    rows = [
        _Row(
            treatment_phrase(treatment.factors, names) or team.policy,
            direction,
            [getattr(link, direction) for link in team.links],
            bool(team.open_flows.get(direction)),
        )
        for treatment in summary.treatments
        if (point := find_typical_trial(treatment, summary.deciding_metric)) is not None
        for team in point.teams
        for direction in DIRECTIONS
    ]
    if not rows:
        return []
    treatments = tuple(_wrap_name(row.treatment, row.direction) for row in rows)
    directions = tuple((row.direction,) for row in rows)
    shares = tuple(_wrap_links(row.links, map(_format_share, row.links), has_bars=True) for row in rows)
    flows = tuple(
        _wrap_links(row.links, (_format_flows(link, has_open_flows=row.has_open_flows) for link in row.links))
        for row in rows
    )
    return [
        Column("treatment", "Treatment", "", treatments, False),
        Column("data_direction", "Direction", "", directions, False),
        Column("share", "Each link", "% of bytes", shares, False),
        Column("predicted_flows", "Flows", "predicted", flows, False),
    ]


def team_advice(summary: CampaignSummary) -> list[str]:
    """Return what would spread the flows of the drawn trials better, each sentence once."""
    typical = (find_typical_trial(treatment, summary.deciding_metric) for treatment in summary.treatments)
    treatments_by_sentence: Counter[str] = Counter(
        sentence for point in typical if point for team in point.teams for sentence in set(team.advice)
    )
    return [
        f"{sentence} ({format_count_with_noun(count, 'treatment')})"
        for sentence, count in treatments_by_sentence.most_common(_MAX_ADVICE_SENTENCES)
    ]


def _wrap_name(treatment: str, direction: str) -> tuple[str, ...]:
    """Return the first line of the name for the first direction's row, and the others for the second's."""
    first, *others = textwrap.wrap(treatment, _TREATMENT_WIDTH)
    return (first,) if direction == DIRECTIONS[0] else (*others,) or ("",)


def find_typical_trial(treatment: TreatmentSummary, metric: str) -> TrialPoint | None:
    """Return the first of the trials with a team whose deciding metric is nearest to the median."""
    points = [point for point in treatment.points if point.teams]
    estimate = treatment.metrics.get(metric)
    if not points or estimate is None:
        return points[0] if points else None
    return min(points, key=lambda point: abs(point.values.get(metric, float("inf")) - estimate.value))


def _wrap_links(
    links: Sequence[DirectionTraffic], texts: Iterable[str], *, has_bars: bool = False
) -> tuple[str, ...]:
    """Return the texts of the links with a few in each line, each line with its bars in front."""
    cells = list(texts)
    lines = []
    for start in range(0, len(cells), _LINKS_IN_ONE_LINE):
        part = slice(start, start + _LINKS_IN_ONE_LINE)
        bars = "".join(map(_draw_bar, links[part])).ljust(_LINKS_IN_ONE_LINE) + " " if has_bars else ""
        lines.append(bars + " ".join(cells[part]))
    return tuple(lines)


def _draw_bar(link: DirectionTraffic) -> str:
    steps = len(_BARS) - 1
    return _BARS[0] if not link.share else _BARS[max(1, round(steps * link.share))]


def _format_share(link: DirectionTraffic) -> str:
    return "  –" if link.share is None else f"{100 * link.share:3.0f}"


def _format_flows(link: DirectionTraffic, *, has_open_flows: bool) -> str:
    if link.predicted_flows is None:
        return " ?"
    return f"{link.predicted_flows:2d}" + ("+" if has_open_flows else "")
