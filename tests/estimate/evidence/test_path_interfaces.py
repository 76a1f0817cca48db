"""Which interfaces of a machine are on the load's path."""

from __future__ import annotations

import pytest

from tests.estimate.evidence.fixtures import trial_data, uniform_trial, with_totals
from tests.estimate.evidence.test_path_state import state
from vnetbench.estimate.evidence.path_interfaces import (
    Interface,
    count_stacked_interfaces,
    interfaces_on_path,
    list_interfaces,
)


def interface(name: str, kind: str = "", **fields: object) -> dict[str, object]:
    """Return an interface as an agent lists it."""
    return {
        "name": name,
        "kind": kind,
        "master": None,
        "lower": None,
        "rx_packets": 0,
        "tx_packets": 0,
        **fields,
    }


def interfaces(*listed: dict[str, object]) -> list[Interface]:
    trial = with_totals(uniform_trial(), "a1", path_state=state(interfaces=list(listed)))
    endpoint = next(e for e in trial_data(trial).steady_part.trial.endpoints if e.name == "a1")
    return list(list_interfaces(endpoint))


VLAN_OVER_BOND = (
    interface("eth0", master="bond0"),
    interface("eth1", master="bond0"),
    interface("bond0", "bond"),
    interface("bond0.7", "vlan", lower="bond0"),
    interface("bond0.8", "vlan", lower="bond0"),
    interface("eth9"),
)


def test_a_vlan_over_a_bond_passes_the_bond_and_its_parts_but_no_other_vlan() -> None:
    found = interfaces(*VLAN_OVER_BOND)
    assert interfaces_on_path(found, "bond0.7") == frozenset({"bond0.7", "bond0", "eth0", "eth1"})
    assert interfaces_on_path(found, "eth9") == frozenset({"eth9"})


def test_an_interface_that_filters_send_to_is_on_the_path() -> None:
    found = interfaces(
        interface("eth0", redirects_to=["ifb3"]), interface("ifb3", "ifb"), interface("ifb4", "ifb")
    )
    assert interfaces_on_path(found, "eth0") == frozenset({"eth0", "ifb3"})


def test_the_ports_of_a_bridge_are_on_the_path_of_the_bridge_but_not_of_each_other() -> None:
    ports = [interface(name, "veth", master="br0") for name in ("vm1", "vm2")]
    found = interfaces(interface("br0", "bridge"), interface("eth0", master="br0"), *ports)
    assert interfaces_on_path(found, "br0") == frozenset({"br0", "eth0", "vm1", "vm2"})
    assert interfaces_on_path(found, "vm1") == frozenset({"vm1", "br0"})


@pytest.mark.parametrize("start", ["vxlan7", "absent"])
def test_where_a_tunnel_without_a_lower_interface_leads_is_unknown(start: str) -> None:
    found = interfaces(interface("vxlan7", "vxlan"), interface("eth0"))
    assert interfaces_on_path(found, start) is None


def test_levels_are_counted_along_the_longest_way_down() -> None:
    found = interfaces(*VLAN_OVER_BOND)
    assert [count_stacked_interfaces(found, name) for name in ("bond0.7", "bond0", "eth0")] == [3, 2, 1]
    # Without a list, each packet is processed once.
    assert count_stacked_interfaces([], "eth0") == 1


def test_interfaces_that_point_at_each_other_are_followed_once() -> None:
    found = interfaces(interface("x", "vlan", lower="y"), interface("y", "vlan", lower="x"))
    assert interfaces_on_path(found, "x") == frozenset({"x", "y"})
    assert count_stacked_interfaces(found, "x") == 2
