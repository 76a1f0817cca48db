"""Fixtures with the synthetic campaigns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.campaigns import (
    empty_campaign,
    jumbo_campaign,
    mixed_campaign,
    placement_campaign,
    requests_campaign,
    single_campaign,
    surface_campaign,
)
from tests.report.frame_campaigns import (
    bursts_campaign,
    forwarding_campaign,
    loss_campaign,
    soak_campaign,
    throughput_campaign,
)
from vnetbench.estimate.summary import CampaignSummary


@pytest.fixture(scope="session")
def jumbo() -> CampaignSummary:
    return jumbo_campaign()


@pytest.fixture(scope="session")
def jumbo_slower() -> CampaignSummary:
    """Return the same study on another machine with a newer kernel, 20 % slower."""
    after = jumbo_campaign(seed=2, faster=0.8)
    host = {
        **after.facts["host"],
        "kernel": {"release": "6.19.0-amd64", "version": "#1 SMP", "machine": "x86_64"},
        "hostname": "other",
        "pid": 12,
    }
    return replace(after, path="after.vnb", facts={**after.facts, "host": host})


@pytest.fixture(scope="session")
def surface() -> CampaignSummary:
    return surface_campaign()


@pytest.fixture(scope="session")
def placement() -> CampaignSummary:
    return placement_campaign()


@pytest.fixture(scope="session")
def single() -> CampaignSummary:
    return single_campaign()


@pytest.fixture(scope="session")
def empty() -> CampaignSummary:
    return empty_campaign()


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> CampaignSummary:
    return mixed_campaign(tmp_path_factory.mktemp("mixed"))


@pytest.fixture(scope="session")
def requests() -> CampaignSummary:
    return requests_campaign()


@pytest.fixture(scope="session")
def throughput() -> CampaignSummary:
    return throughput_campaign()


@pytest.fixture(scope="session")
def forwarding() -> CampaignSummary:
    return forwarding_campaign()


@pytest.fixture(scope="session")
def loss() -> CampaignSummary:
    return loss_campaign()


@pytest.fixture(scope="session")
def bursts() -> CampaignSummary:
    return bursts_campaign()


@pytest.fixture(scope="session")
def soak() -> CampaignSummary:
    return soak_campaign()
