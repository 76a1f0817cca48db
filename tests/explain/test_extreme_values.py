"""Odd figures break no explanation: figures of 0, that hardly differ, huge, below zero, or missing."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bench.corpus.keep import KEPT, PACKED
from bench.corpus.store import labelled
from tests.explain.comparisons.simulated import simulated
from vnetbench.commands.summaries import read_file
from vnetbench.estimate.summarize import estimate_metrics
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.model import CONFIDENCE_WORDS
from vnetbench.report.export.campaign_json import explanation_json
from vnetbench.report.text.narrative import build_narrative
from vnetbench.study.model import Level

# A warning would be printed in the middle of what a person reads.
pytestmark = [pytest.mark.pure, pytest.mark.filterwarnings("error")]

CAMPAIGNS = 150
ONE_RUN_OF = 6
"""So many of the small corpus: each has other workloads, testbeds and causes."""
ODD_SHARES = (0.02, 0.2, 0.7)
"""Of all figures of a campaign."""
BETWEEN_0_AND_1 = ("score", "p", "share", "chance", "auc", "distance")
"""Figures of `explain --json` that are chances or shares."""


def streams_of(levels: Mapping[str, Level]) -> float:
    return 1e9 * float(levels["streams"])


def with_evidence_of(campaign: CampaignSummary, real: CampaignSummary) -> CampaignSummary:
    """The same evidence in all trials, so that they differ only in what is made odd."""
    evidence = real.treatments[0].points[0].evidence
    treatments = (
        replace(each, points=tuple(replace(point, evidence=evidence) for point in each.points))
        for each in campaign.treatments
    )
    return replace(campaign, treatments=tuple(treatments))


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Sequence[CampaignSummary]:
    """Real ones, and for each a simulated one of several treatments, the first without any scatter."""
    folder = tmp_path_factory.mktemp("unpacked")
    found = []
    for number, run in enumerate(labelled(KEPT)[::ONE_RUN_OF]):
        path = folder / run.path.name
        path.write_bytes(gzip.decompress(run.path.with_name(run.path.name + PACKED).read_bytes()))
        real = read_file(path)
        factors, scatter = {"streams": (1, 2, 4, 8), "mtu": (1500, 9000)}, 0.01 * number
        generator = np.random.default_rng(number)
        large = simulated(generator, factors, streams_of, noise=scatter, of_blocks=scatter)
        found += [real, with_evidence_of(large, real)]
    return found


def odd(random: Random, value: float) -> float:
    """A figure that is far off, or just not the same."""
    return random.choice(
        [
            0.0,
            1e-15,
            value * (1 + 1e-15),
            value * 1e-9,
            value * 1e9,
            1e18,
            value * random.lognormvariate(0, 5),
            100.0,
            -1.0,
        ]
    )


def with_odd_figures(campaign: CampaignSummary, random: Random) -> CampaignSummary:
    """The campaign with some figures odd, some missing, trials missing, and trials without rest."""
    share = random.choice(ODD_SHARES)

    def figures(all_of_them: Mapping[str, float]) -> dict[str, float]:
        return {
            name: odd(random, value) if random.random() < share / 2 else value
            for name, value in all_of_them.items()
            if random.random() > share / 4
        }

    def trial(point: TrialPoint) -> TrialPoint:
        values = {name: abs(value) for name, value in figures(point.values).items()}  # no rate is below zero
        steady = random.random() > share / 2
        return replace(point, values=values, evidence=figures(point.evidence), has_steady_state=steady)

    def treatment(of: TreatmentSummary) -> TreatmentSummary:
        points = tuple(trial(point) for point in of.points if random.random() > share / 5)
        metrics = estimate_metrics([point.values for point in points], campaign.precision)
        return replace(of, points=points, metrics=metrics)

    return replace(campaign, treatments=tuple(map(treatment, campaign.treatments)))


def out_of_bounds(told: object, name: str = "") -> Iterator[str]:
    """What of `explain --json` cannot be."""
    if isinstance(told, dict):
        low, high = told.get("low"), told.get("high")
        if low is not None and high is not None and low > high:
            yield f"{name}: {low} to {high}"
        for key, value in told.items():
            yield from out_of_bounds(value, key)
    elif isinstance(told, list):
        for value in told:
            yield from out_of_bounds(value, name)
    elif isinstance(told, str):
        if (name == "certainty" and told not in CONFIDENCE_WORDS) or re.search(r"\b(nan|inf)\b", told):
            yield f"{name}: {told}"
    elif isinstance(told, float) and name in BETWEEN_0_AND_1 and not 0 <= told <= 1:
        yield f"{name}: {told}"


@pytest.mark.parametrize("seed", range(CAMPAIGNS))
def test_extreme_values_give_only_valid_numbers(
    campaigns: Sequence[CampaignSummary], seed: int
) -> None:
    random = Random(seed)
    campaign = with_odd_figures(random.choice(campaigns), random)

    # Raises ValueError for a figure that JSON does not have.
    told = json.loads(explanation_json(campaign, build_narrative(campaign)))

    assert not list(out_of_bounds(told))
    assert told["answer"]


def test_invalid_numbers_are_detected() -> None:
    told = {"says": "times inf", "suspects": [{"score": 1.5, "certainty": "sure"}], "low": 2.0, "high": 1.0}

    assert len(list(out_of_bounds(told))) == 4
