"""Simulated campaigns for statements: any levels and means, trials in blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.report.campaigns import campaign
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.estimate.team_traffic import DirectionTraffic, LinkTraffic, TeamTraffic
from vnetbench.statements.check import check_statements
from vnetbench.statements.statement import Verdict
from vnetbench.study.model import FactorLevels, Level, Timing

Means = Mapping[str, float | tuple[float, float]]
"""Metric to the mean of its trials, or to two alternating means."""


@dataclass(frozen=True)
class SimulationOptions:
    """Properties of all trials of a simulated campaign."""

    workload: str = "tcp_stream"
    kind: str = "netns"
    trials: int = 9
    spread: float = 0.02
    duration_s: float = 1.0
    warmup_s: float = 0.0
    set_warmup_s: float | None = None
    goal: float = 1e-4
    uplink: bool = False
    seed: int = 0
    teams: tuple[TeamTraffic, ...] = ()


def simulated_campaign(
    rows: Sequence[tuple[Mapping[str, Level], Means]], way: SimulationOptions | None = None
) -> CampaignSummary:
    """Return a campaign with a treatment for each row of levels and means."""
    way = way or SimulationOptions()
    treatments = [_treatment(index, levels, means, way) for index, (levels, means) in enumerate(rows)]
    names = dict.fromkeys(name for levels, _ in rows for name in levels)
    factors = [
        FactorLevels(name, tuple(dict.fromkeys(levels[name] for levels, _ in rows if name in levels)))
        for name in names
    ]
    return replace(
        campaign("Made up", "", factors, treatments),
        workload=way.workload,
        testbed_backend=way.kind,
        timing=Timing(warmup_s=way.set_warmup_s),
        testbed={"shape": {"uplink": way.uplink}},
        deciding_metric="throughput_fps" if way.workload == "frames" else "goodput_bps",
    )


def goodputs(
    factor: str, means: Mapping[Level, float | tuple[float, float]], **others: Level
) -> list[tuple[Mapping[str, Level], Means]]:
    """Return rows over one factor, in Gbit/s."""
    return [({factor: level, **others}, {"goodput_bps": _times(mean, 1e9)}) for level, mean in means.items()]


def forwarded(
    factor: str, means: Mapping[Level, float], **others: Level
) -> list[tuple[Mapping[str, Level], Means]]:
    """Return rows over one factor, in thousands of frames per second."""
    return [
        ({factor: level, "frame_size": 64, **others}, {"throughput_fps": mean * 1e3})
        for level, mean in means.items()
    ]


def simulated_team(policy: str, predicted_flows: int | None = 1) -> TeamTraffic:
    """Return a team of four links that carry the same."""
    traffic = DirectionTraffic(10**6, 1000, 0.25, predicted_flows)
    links = tuple(LinkTraffic(f"link{number}", 10**9, traffic, traffic) for number in range(4))
    return TeamTraffic("uplinks", policy, "off", links)


def team_links_used(
    policy: str,
    used: float | tuple[float, float],
    *,
    trials: int = 9,
    predicted_flows: int | None = 1,
    **levels: Level,
) -> CampaignSummary:
    """Return a campaign over a team of four links with this policy, which uses so many of them."""
    teams = (simulated_team(policy, predicted_flows),)
    rows = [({"pairs": 1, "streams": 8, **levels}, {"team_links_used_forward": used, "goodput_bps": 1e9})]
    return simulated_campaign(rows, SimulationOptions(spread=0.0, trials=trials, teams=teams))


def verdict(statement: str, summary: CampaignSummary) -> Verdict:
    """Return the campaign's verdict on a statement."""
    (result,) = [each for each in check_statements([summary]) if each.statement.id == statement]
    (of_file,) = result.conclusive_or_all_verdicts
    return of_file


def _treatment(
    index: int, levels: Mapping[str, Level], means: Means, way: SimulationOptions
) -> TreatmentSummary:
    points = [_point(index, block, means, way) for block in range(way.trials)]
    metrics = {name: estimate_median([point.values[name] for point in points], 0.95) for name in means}
    return TreatmentSummary(index, levels, {}, "precision", metrics, tuple(points))


def _point(index: int, block: int, means: Means, way: SimulationOptions) -> TrialPoint:
    random = np.random.default_rng([way.seed, index, block])
    values = {
        name: (mean[block % 2] if isinstance(mean, tuple) else mean)
        * float(np.exp(random.normal(0, way.spread)))
        for name, mean in means.items()
    }
    answer = {
        "goal": way.goal, "throughput_fps": values.get("throughput_fps", 0.0), "low_fps": 0.0,
        "high_fps": 0.0, "limited_by": "device", "confidence": None,
    }  # fmt: skip
    return TrialPoint(
        trial_id=1 + index + 100 * block,
        block=block,
        since_campaign_start_s=60.0 * (index + 50 * block),
        duration_s=way.duration_s,
        warmup_s=way.warmup_s,
        has_steady_state=True,
        values=values,
        time_series=(1.0, 1.0),
        teams=way.teams,
        search_result={"goal_results": [answer], "direction_count": 1} if way.workload == "frames" else {},
    )


def _times(mean: float | tuple[float, float], unit: float) -> float | tuple[float, float]:
    return (mean[0] * unit, mean[1] * unit) if isinstance(mean, tuple) else mean * unit
