"""Settings of a guest from the facts of its agent, as real guests of the lab `qemu` reported them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from vnetbench.audit.inventory import Inventory
from vnetbench.audit.judge import judge
from vnetbench.audit.linux.agent_facts import read_agent_facts
from vnetbench.audit.rules import load_rules

pytestmark = pytest.mark.pure

VMXNET3: Mapping[str, Any] = {
    "adapter": "vmxnet3", "driver": "vmxnet3", "name": "eth0", "mtu": 1500,
    "offloads": ["tx_checksum", "rx_checksum", "gso", "tso", "gro", "lro"],
    "rings": {"rx": 1024, "tx": 512, "max_rx": 4096, "max_tx": 4096},
    "channels": {"combined": 1, "max_combined": 4, "rx": 0, "tx": 0, "max_rx": 0, "max_tx": 0},
}  # fmt: skip
E1000: Mapping[str, Any] = {
    "adapter": "e1000", "driver": "e1000", "name": "eth0", "mtu": 1500,
    "offloads": ["tx_checksum", "gso", "tso", "gro"],
    "rings": {"rx": 256, "tx": 256, "max_rx": 4096, "max_tx": 4096},
    "channels": None,
}  # fmt: skip
LOOPBACK: Mapping[str, Any] = {"name": "lo", "adapter": None}


def read_guest(interface: Mapping[str, Any], *, cpus: int = 2) -> Inventory:
    facts = {
        "hypervisor": "QEMU (TCG)",
        "cpu": {"count": cpus},
        "tcp": {"rmem": [4096, 131072, 1471744], "wmem": [4096, 16384, 1471744]},
        "interfaces": [LOOPBACK, interface],
    }
    return read_agent_facts(facts, "a1 (guest)")


def facts_of(inventory: Inventory, kind: str) -> dict[str, object]:
    (item,) = inventory.of_kind(kind)
    return {name: fact.value for name, fact in item.facts.items()}


def test_the_machine_has_its_buffers_and_its_hypervisor() -> None:
    assert facts_of(read_guest(VMXNET3), "machine") == {
        "hypervisor": "kvm", "cpus": 2, "tcp_receive_buffer_max": 1471744, "tcp_send_buffer_max": 1471744,
    }  # fmt: skip


def test_an_adapter_has_its_driver_offloads_rings_and_queues() -> None:
    facts = facts_of(read_guest(VMXNET3), "interface")
    assert (facts["driver"], facts["emulated_model"], facts["lro"]) == ("vmxnet3", "none", True)
    assert (facts["rx_ring"], facts["rx_ring_max"]) == (1024, 4096)
    assert (facts["queues"], facts["queues_useful"]) == (1, 2), "no more queues than CPUs are useful"


def test_an_offload_that_is_missing_counts_as_unknown_not_as_off() -> None:
    inventory = read_guest(E1000)
    (adapter,) = inventory.of_kind("interface")
    assert "rx_checksum" not in adapter.facts and "rx_checksum" in adapter.unreadable
    rules = {each.rule.id for each in judge([inventory], list(load_rules().values())).findings}
    assert rules == {"emulated_adapter_in_kvm_guest"}
