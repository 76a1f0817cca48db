"""Tests of the CPUs that the levels of `cpus`, `irq_cpus` and `thread_cpus` assign to VMs."""

from __future__ import annotations

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.cpus import (
    TesterAndDeviceCpus,
    assign_thread_cpus,
    assign_vm_cpus,
    partition_cpus,
    select_local_cpus,
    select_rps_cpus,
)
from vnetbench.lab.netns.topology import NetnsShape, make_topology

ENDPOINTS = make_topology("t-cpus", NetnsShape(pairs=2)).endpoints
FOUR = frozenset({0, 1, 2, 3})
TWO = frozenset({0, 1})


def test_any_assigns_every_cpu_to_every_vm() -> None:
    assert assign_vm_cpus("any", ENDPOINTS, FOUR) == dict.fromkeys(("a1", "b1", "a2", "b2"), FOUR)


def test_each_assigns_cpus_in_turn_and_starts_over() -> None:
    assert [sorted(c) for c in assign_vm_cpus("1 each", ENDPOINTS, FOUR).values()] == [[0], [1], [2], [3]]
    assert [sorted(c) for c in assign_vm_cpus("2 each", ENDPOINTS, TWO).values()] == [[0, 1]] * 4
    assert [sorted(c) for c in assign_vm_cpus("1 each", ENDPOINTS, TWO).values()] == [[0], [1], [0], [1]]


def test_lists_name_the_cpus_of_both_sides_or_of_each() -> None:
    assert assign_vm_cpus("1-2", ENDPOINTS, FOUR)["b2"] == {1, 2}
    found = assign_vm_cpus("0/2-3", ENDPOINTS, FOUR)
    assert [sorted(found[name]) for name in ("a1", "b1", "a2")] == [[0], [2, 3], [0]]


def test_missing_cpus_are_refused_by_number() -> None:
    with pytest.raises(BenchError, match="names CPU 4-5; this machine has 0-3"):
        assign_vm_cpus("3-5", ENDPOINTS, FOUR)
    with pytest.raises(BenchError, match=r"than this machine has \(2\)"):
        assign_vm_cpus("3 each", ENDPOINTS, TWO)


@pytest.mark.parametrize(
    ("cpus", "level", "expected"),
    [
        ("any", "any", [["0-3"] * 2] * 4),
        ("any", "spread", [["0", "1"], ["2", "3"], ["0", "1"], ["2", "3"]]),
        ("1 each", "spread", [["0"] * 2, ["1"] * 2, ["2"] * 2, ["3"] * 2]),
        ("0-1/2-3", "spread", [["0", "1"], ["2", "3"], ["0", "1"], ["2", "3"]]),
        ("any", "3", [["3"] * 2] * 4),
        ("any", "0-1/3", [["0", "1"], ["3", "3"]] * 2),
    ],
)
def test_threads_are_assigned_in_turn_by_their_level(
    cpus: str, level: str, expected: list[list[str]]
) -> None:
    vms = assign_vm_cpus(cpus, ENDPOINTS, FOUR)
    assert list(assign_thread_cpus(level, dict.fromkeys(vms, 2), ENDPOINTS, vms).values()) == expected


def test_threads_are_not_assigned_to_cpus_of_other_vms() -> None:
    vms = assign_vm_cpus("1 each", ENDPOINTS, FOUR)
    with pytest.raises(BenchError, match="names CPU 1; a1 has 0") as refused:
        assign_thread_cpus("0-1", dict.fromkeys(vms, 2), ENDPOINTS, vms)
    assert "'spread'" in str(refused.value.fix)


@pytest.mark.parametrize(
    ("level", "expected"), [("off", ""), ("own", "1"), ("apart", "0,2-3"), ("spread", "0-3"), ("2-3", "2-3")]
)
def test_receive_processing_is_assigned_by_its_level(level: str, expected: str) -> None:
    assert select_rps_cpus(level, ENDPOINTS[1], frozenset({1}), FOUR) == expected


def test_apart_is_refused_if_a_vm_has_every_cpu() -> None:
    with pytest.raises(BenchError, match="needs a CPU that a1 does not use"):
        select_rps_cpus("apart", ENDPOINTS[0], TWO, TWO)


def test_a_single_endpoint_gets_the_cpus_of_its_level() -> None:
    found = [select_local_cpus(level, FOUR) for level in ("any", "2 each", "1-2")]
    assert [sorted(cpus) for cpus in found] == [[0, 1, 2, 3], [0, 1], [1, 2]]
    for level in ("5 each", "4"):
        with pytest.raises(BenchError) as refused:
            select_local_cpus(level, FOUR)
        assert refused.value.fix


@pytest.mark.parametrize(
    ("level", "cpus", "online", "tester", "device"),
    [
        ("apart", "any", FOUR, {0, 1}, {2, 3}),
        ("apart", "any", frozenset({0, 1, 2}), {0, 1}, {2}),
        ("apart", "any", TWO, {0}, {1}),
        ("apart", "2-3", FOUR, {2, 3}, {0, 1}),
        ("3", "any", FOUR, {0, 1, 2}, {3}),
        ("0-3", "any", FOUR, set(FOUR), set(FOUR)),
        ("3", "0-1", FOUR, {0, 1}, {3}),
        ("any", "any", FOUR, set(FOUR), set()),
    ],
)
def test_device_and_tester_have_different_cpus_if_possible(
    level: str, cpus: str, online: frozenset[int], tester: set[int], device: set[int]
) -> None:
    found = partition_cpus(level, cpus, ENDPOINTS, online)
    assert found == TesterAndDeviceCpus(
        dict.fromkeys(("a1", "b1", "a2", "b2"), frozenset(tester)), frozenset(device)
    )


@pytest.mark.parametrize(
    ("level", "cpus", "online", "what"),
    [
        ("apart", "any", frozenset({0}), "no CPU is left for the device"),
        ("apart", "1 each", TWO, "no CPU is left for the device"),
        ("4", "any", FOUR, "device_cpus = '4' names CPU 4; this machine has 0-3"),
    ],
)
def test_a_device_without_a_cpu_is_refused(level: str, cpus: str, online: frozenset[int], what: str) -> None:
    with pytest.raises(BenchError, match=what) as refused:
        partition_cpus(level, cpus, ENDPOINTS, online)
    assert refused.value.fix


def test_the_fix_for_a_missing_cpu_names_levels_of_the_same_factor() -> None:
    with pytest.raises(BenchError) as refused_device:
        partition_cpus("4", "any", ENDPOINTS, FOUR)
    assert refused_device.value.fix == "name CPUs that this machine has, or write 'any' or 'apart'"
    with pytest.raises(BenchError) as refused_vm:
        partition_cpus("any", "4", ENDPOINTS, FOUR)
    assert refused_vm.value.fix == "name CPUs that this machine has, or write 'any' or '1 each'"
