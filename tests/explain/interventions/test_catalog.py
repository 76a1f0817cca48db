"""The catalog: which changes are offered for a treatment, in which order, and by which ratio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from vnetbench.explain.interventions.catalog import (
    LARGEST_CPU_SHARE,
    SMALLEST_CPU_SHARE,
    Intervention,
    list_interventions,
)
from vnetbench.explain.interventions.resources import RESOURCES
from vnetbench.explain.interventions.treatment_state import TreatmentState
from vnetbench.explain.rules import load_rules
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS, NETNS
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_RR, TCP_STREAM, UDP_STREAM

pytestmark = pytest.mark.pure

CPU_BOUND: Mapping[str, float] = {"sender_running": 0.9, "receiver_running": 0.1}


def state(levels: Mapping[str, Level], workload: str = TCP_STREAM, noise: float = 0.02) -> TreatmentState:
    return TreatmentState(
        complete_levels(levels, workload),
        {"tso": True, "gso": True, "gro": False},
        CPU_BOUND,
        cpu_capacity_by_vm=(1.0, 0.8),
        rate_per_stream_bps=10e9,
        noise=noise,
    )


def changes(
    levels: Mapping[str, Level], workload: str = TCP_STREAM, has_root: bool = True, noise: float = 0.02
) -> list[Intervention]:
    return list(list_interventions(state(levels, workload, noise), workload, NETNS, has_root))


def levels_of(interventions: list[Intervention], factor: str) -> list[tuple[Level, float | None]]:
    return [
        (each.changed_levels[factor], each.resource_ratio)
        for each in interventions
        if factor in each.changed_levels
    ]


def test_streams_and_sizes_change_in_both_directions() -> None:
    offered = changes({"streams": 4, "message_size": 65536, "socket_buffer": 262144})
    assert levels_of(offered, "streams") == [(8, 2.0), (2, 0.5)]
    assert levels_of(offered, "message_size") == [(131072, 2.0), (32768, 0.5)]
    assert levels_of(offered, "socket_buffer") == [(524288, 2.0), (131072, 0.5)]


def test_an_odd_number_of_streams_is_not_halved_and_automatic_buffers_stay() -> None:
    offered = changes({"streams": 1})
    assert levels_of(offered, "streams") == [(2, 2.0)]
    assert levels_of(offered, "socket_buffer") == []


def test_smaller_requests_and_datagrams_count_as_more_of_the_resource() -> None:
    assert levels_of(changes({"request_size": 1000}, TCP_RR), "request_size") == [(2000, 0.5), (500, 2.0)]
    assert levels_of(changes({"datagram_size": 64}, UDP_STREAM), "datagram_size") == [(128, 0.5), (32, 2.0)]


def test_each_vm_loses_a_share_of_the_cpu_time_that_it_can_use() -> None:
    offered = {each.resource: each for each in changes({"direction": "forward"}, noise=0)}
    sender, receiver = offered["sender_cpu_time"], offered["receiver_cpu_time"]
    assert sender.changed_levels == {"cpu_quota": "85 %/none"}
    assert receiver.changed_levels == {"cpu_quota": "none/68 %"}
    assert sender.resource_ratio == receiver.resource_ratio == pytest.approx(LARGEST_CPU_SHARE)


def test_the_direction_decides_which_vm_is_the_sender() -> None:
    offered = {each.resource: each for each in changes({"direction": "reverse"}, noise=0)}
    assert offered["sender_cpu_time"].changed_levels == {"cpu_quota": "none/68 %"}
    both = {each.resource: each for each in changes({"direction": "both"}, noise=0)}
    assert both["vm_cpu_time"].changed_levels == {"cpu_quota": "85 %/68 %"}


def test_a_noisy_treatment_gets_a_larger_change_within_bounds() -> None:
    ratios = [
        next(each.resource_ratio for each in changes({}, noise=noise) if each.resource == "sender_cpu_time")
        for noise in (0.0, 0.05, 0.5)
    ]
    assert ratios == [LARGEST_CPU_SHARE, 0.78, SMALLEST_CPU_SHARE]


def test_without_root_only_what_the_load_and_the_user_namespace_can_change_is_offered() -> None:
    factors = {name for each in changes({}, has_root=False) for name in each.changed_levels}
    assert "streams" in factors and not factors & {"cpu_quota", "irq_cpus"}


def test_hosts_are_not_shaped_and_get_no_quota() -> None:
    offered = list_interventions(state({"link_rate": 10**9}), TCP_STREAM, HOSTS, has_root=True)
    assert not {name for each in offered for name in each.changed_levels} & {"link_rate", "cpu_quota"}


def test_a_link_rate_is_raised_lowered_and_removed_but_never_invented() -> None:
    offered = levels_of(changes({"link_rate": 10**9}), "link_rate")
    assert set(offered) == {(1200000000, 1.2), (900000000, 0.9), ("none", None)}
    assert levels_of(changes({}), "link_rate") == []


def test_a_limit_that_the_study_sets_is_offered_whatever_the_time_accounting_says() -> None:
    link = next(each for each in changes({"link_rate": 10**9}) if each.resource == "link_rate")
    assert link.time_share > 0


def test_interventions_on_resources_with_the_largest_share_of_time_come_first() -> None:
    offered = changes({"streams": 4, "link_rate": 10**9}, noise=0)
    first = {each.resource: position for position, each in reversed(list(enumerate(offered)))}
    assert first["sender_cpu_time"] < first["receiver_cpu_time"] < first["link_rate"]


def test_the_first_intervention_on_a_resource_comes_before_the_second_on_another() -> None:
    resources = [each.resource for each in changes({"streams": 4})]
    assert len(set(resources[: len(set(resources))])) == len(set(resources))


def test_a_treatment_without_time_accounting_is_offered_everything() -> None:
    unknown = replace(state({"streams": 4}), time_shares={})
    assert all(
        each.time_share == 1.0 for each in list_interventions(unknown, TCP_STREAM, NETNS, has_root=True)
    )


def test_every_cause_of_a_resource_has_a_rule() -> None:
    assert {cause for each in RESOURCES.values() for cause in each.causes} <= set(load_rules())


def test_every_intervention_names_a_known_resource() -> None:
    assert {each.resource for each in changes({"streams": 4, "link_rate": 10**9, "link_delay": 0.01})} <= set(
        RESOURCES
    )
