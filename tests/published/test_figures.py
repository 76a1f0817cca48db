"""The published figures that a study may name: as they were published, in levels that studies have."""

from __future__ import annotations

import pytest

from vnetbench.published.figures import NAMES, Spread, published
from vnetbench.study.factors import FACTORS, parse_level
from vnetbench.study.workloads import WORKLOADS


@pytest.mark.parametrize("name", NAMES)
def test_every_level_is_one_that_a_study_can_have(name: str) -> None:
    found = published(name)
    assert found.figures and found.workload in WORKLOADS
    for figure in found.figures:
        assert figure.levels.keys() <= {*found.alike, *found.closer} <= FACTORS.keys()
        assert {
            factor: parse_level(factor, level) for factor, level in figure.levels.items()
        } == figure.levels


@pytest.mark.parametrize("name", NAMES)
def test_no_two_figures_are_of_the_same_thing(name: str) -> None:
    told = [frozenset(figure.levels.items()) for figure in published(name).figures]
    assert len(told) == len(set(told))


def test_a_row_of_packet_forwarding_is_read_as_published() -> None:
    # vhost,"4,4","#4,#6",bi,150940,141087,157335
    levels = {"adapter": "virtio-net-vhost", "queues": 4, "vcpu_pin": "4,6", "direction": "both"}
    (figure,) = [f for f in published("packet-forwarding-2011").figures if f.levels == levels]
    assert figure.spread == Spread(150940, 141087, 157335) and figure.setting == "4,4"


def test_a_blank_cell_is_no_level() -> None:
    virtual_functions = [
        f for f in published("packet-forwarding-2011").figures if f.levels["adapter"] == "vf"
    ]
    assert len(virtual_functions) == 10
    assert all("queues" not in figure.levels and figure.setting == "" for figure in virtual_functions)
