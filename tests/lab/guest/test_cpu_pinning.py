"""Tests of the CPUs of QEMU's threads, by level and as the kernel reports them."""

from __future__ import annotations

import os
import threading

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import PairSideOrEmpty
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.guest.cpu_pinning import (
    GuestThreads,
    assign_emulator_cpus,
    assign_vcpu_cpus,
    check_pinning,
    pin_threads,
)

ONLINE = frozenset(range(4))


def guest(name: str, vcpus: int = 1) -> GuestThreads:
    return GuestThreads(name, "b" if name.startswith("b") else "a", tuple(range(vcpus)), 100, (), ())


def cpus(level: str, *guests: GuestThreads) -> dict[str, list[int]]:
    """Return the CPU of each vCPU for a level that assigns one CPU each."""
    return {
        name: [next(iter(cpu)) for cpu in each]
        for name, each in assign_vcpu_cpus(level, guests, ONLINE).items()
    }


def test_spread_assigns_cpus_in_turn_guest_by_guest() -> None:
    assert cpus("spread", guest("a1", 2), guest("b1", 2), guest("a2")) == {
        "a1": [0, 1],
        "b1": [2, 3],
        "a2": [0],
    }


def test_all_guests_share_one_list_and_each_side_has_its_own_of_two() -> None:
    both = (guest("a1", 2), guest("b1", 2))
    assert cpus("1-2", *both) == {"a1": [1, 2], "b1": [1, 2]}
    assert cpus("0-2", *both) == {"a1": [0, 1], "b1": [2, 0]}
    assert cpus("0/2-3", *both, guest("b2")) == {"a1": [0, 0], "b1": [2, 3], "b2": [2]}


def test_any_assigns_all_cpus() -> None:
    assert assign_vcpu_cpus("any", [guest("a1")], ONLINE) == {"a1": [ONLINE]}


def test_the_emulator_shares_the_cpus_of_its_vcpus_or_avoids_them() -> None:
    vcpus = assign_vcpu_cpus("0-1", [guest("a1"), guest("b1")], ONLINE)
    assert assign_emulator_cpus("own", vcpus, ONLINE) == {"a1": {0}, "b1": {1}}
    assert assign_emulator_cpus("apart", vcpus, ONLINE) == {"a1": {2, 3}, "b1": {2, 3}}
    assert assign_emulator_cpus("3", vcpus, ONLINE) == {"a1": {3}, "b1": {3}}
    assert assign_emulator_cpus("any", vcpus, ONLINE) == {"a1": ONLINE, "b1": ONLINE}


def test_impossible_pinning_is_refused_before_any_guest_starts() -> None:
    both: list[tuple[str, PairSideOrEmpty]] = [("a1", "a"), ("b1", "b")]
    check_pinning("0-1/2-3", "own", both, 2, ONLINE)
    with pytest.raises(BenchError, match="names CPU 4-5"):
        check_pinning("0-1/4-5", "own", both, 2, ONLINE)
    with pytest.raises(BenchError, match="needs a CPU without a vCPU"):
        check_pinning("0-1/2-3", "apart", both, 2, ONLINE)


def test_missing_cpus_are_named() -> None:
    with pytest.raises(BenchError, match="names CPU 9; this machine has 0-3"):
        assign_vcpu_cpus("9", [guest("a1")], ONLINE)
    with pytest.raises(BenchError, match="names CPU 9"):
        assign_emulator_cpus("9", {"a1": [ONLINE]}, ONLINE)
    with pytest.raises(BenchError, match="needs a CPU without a vCPU"):
        assign_emulator_cpus("apart", {"a1": [ONLINE]}, ONLINE)


def test_threads_are_pinned_and_read_back() -> None:
    online = frozenset(os.sched_getaffinity(0))
    first = min(online)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        own = GuestThreads("a1", "a", (thread.native_id,), thread.native_id, (), (2**22,))
        assert pin_threads(str(first), "own", [own], online) == {
            "vcpu_pin": {"a1": [str(first)]},
            "emulator_pin": {"a1": str(first)},
        }
        assert os.sched_getaffinity(thread.native_id) == {first}
    finally:
        done.set()
        thread.join()


def test_a_refusal_of_the_kernel_names_the_thread() -> None:
    own = threading.get_native_id()
    with pytest.raises(TreatmentRefused) as refused:
        pin_threads("1000", "any", [GuestThreads("a1", "a", (own,), own, (), ())], frozenset({1000}))
    assert refused.value.where == "a1 vcpu0"
