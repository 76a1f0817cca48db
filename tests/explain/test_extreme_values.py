"""Explanations of campaigns with extreme values: zero, nearly equal, huge, negative or missing ones."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bench.corpus.store import read_labelled_runs
from bench.corpus.test_data import PACKED_SUFFIX, TEST_CORPUS
from tests.explain.comparisons.simulated import simulated
from vnetbench.commands.summaries import read_summary_without_experiments
from vnetbench.estimate.summarize import estimate_metrics
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.model import CONFIDENCE_WORDS
from vnetbench.report.export.campaign_json import explanation_json
from vnetbench.report.text.narrative import build_narrative
from vnetbench.study.model import Level

# A warning would appear in the middle of the user's output.
pytestmark = [pytest.mark.pure, pytest.mark.filterwarnings("error")]

CAMPAIGNS = 150
ONE_RUN_OF = 6
"""Number of files from the small corpus, with different workloads, testbeds and causes."""
ODD_SHARES = (0.02, 0.2, 0.7)
"""Share of all values in a campaign."""
BETWEEN_0_AND_1 = ("score", "p", "share", "chance", "auc", "distance")
"""Keys in `explain --json` with probabilities or shares."""


def streams_of(levels: Mapping[str, Level]) -> float:
    return 1e9 * float(levels["streams"])


def with_evidence_of(campaign: CampaignSummary, real: CampaignSummary) -> CampaignSummary:
    """Give all trials the same evidence, so that they differ only in the extreme values."""
    evidence = real.treatments[0].points[0].evidence
    treatments = (
        replace(each, points=tuple(replace(point, evidence=evidence) for point in each.points))
        for each in campaign.treatments
    )
    return replace(campaign, treatments=tuple(treatments))


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Sequence[CampaignSummary]:
    """Return real campaigns, each with a simulated one whose first treatment has no noise."""
    folder = tmp_path_factory.mktemp("unpacked")
    result = []
    for number, run in enumerate(read_labelled_runs(TEST_CORPUS)[::ONE_RUN_OF]):
        path = folder / run.path.name
        path.write_bytes(gzip.decompress(run.path.with_name(run.path.name + PACKED_SUFFIX).read_bytes()))
        real = read_summary_without_experiments(path)
        factors, scatter = {"streams": (1, 2, 4, 8), "mtu": (1500, 9000)}, 0.01 * number
        generator = np.random.default_rng(number)
        large = simulated(generator, factors, streams_of, noise=scatter, of_blocks=scatter)
        result += [real, with_evidence_of(large, real)]
    return result


def odd(random: Random, value: float) -> float:
    """Return an extreme value, or a slightly different one."""
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


def with_extreme_values(campaign: CampaignSummary, random: Random) -> CampaignSummary:
    """Return the campaign with extreme and missing values, missing trials, and unsteady trials."""
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
        metrics = estimate_metrics([point.values for point in points], campaign.required_precision)
        return replace(of, points=points, metrics=metrics)

    return replace(campaign, treatments=tuple(map(treatment, campaign.treatments)))


def invalid_values(value: object, name: str = "") -> Iterator[str]:
    """Yield the invalid values in the output of `explain --json`."""
    if isinstance(value, dict):
        low, high = value.get("low"), value.get("high")
        if low is not None and high is not None and low > high:
            yield f"{name}: {low} to {high}"
        for key, each in value.items():
            yield from invalid_values(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from invalid_values(each, name)
    elif isinstance(value, str):
        if (name == "confidence" and value not in CONFIDENCE_WORDS) or re.search(r"\b(nan|inf)\b", value):
            yield f"{name}: {value}"
    elif isinstance(value, float) and name in BETWEEN_0_AND_1 and not 0 <= value <= 1:
        yield f"{name}: {value}"


@pytest.mark.parametrize("seed", range(CAMPAIGNS))
def test_extreme_values_give_only_valid_numbers(campaigns: Sequence[CampaignSummary], seed: int) -> None:
    random = Random(seed)
    campaign = with_extreme_values(random.choice(campaigns), random)

    # Raises ValueError for a number that JSON does not support.
    value = json.loads(explanation_json(campaign, build_narrative(campaign)))

    assert not list(invalid_values(value))
    assert value["answer"]


def test_invalid_numbers_are_detected() -> None:
    value = {
        "text": "times inf",
        "candidates": [{"score": 1.5, "confidence": "sure"}],
        "low": 2.0,
        "high": 1.0,
    }

    assert len(list(invalid_values(value))) == 4
