"""Tests of the interface and addresses of hosts, chosen from what they report."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.hosts.addresses import (
    LoadInterface,
    PairHost,
    choose_interfaces_of_one_machine,
    choose_routed_interfaces,
    usable_addresses,
)
from vnetbench.lab.netlink import InterfaceAddress
from vnetbench.study.model import ExistingEndpointSpec

WEB_1 = """\
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: ens160    inet 192.0.2.11/24 brd 192.0.2.255 scope global ens160\\       valid_lft forever
2: ens160    inet6 fe80::1/64 scope link \\       valid_lft forever preferred_lft forever
3: ens192    inet6 2001:db8::99/64 scope global temporary dynamic \\       valid_lft 5sec
3: ens192    inet6 2001:db8::b/64 scope global \\       valid_lft forever preferred_lft forever
3: ens192    inet 10.0.0.11/24 brd 10.0.0.255 scope global ens192\\       valid_lft forever
4: wg0    inet 10.9.0.1 peer 10.9.0.2/32 scope global wg0\\       valid_lft forever
"""
WEB_2 = WEB_1.replace("2.11/", "2.12/").replace("0.0.11/", "0.0.12/").replace("::b/", "::c/")
LINKS = {"192": "ens160", "10.0": "ens192", "2001": "ens192", "127": "lo"}


def make_host(
    spec: ExistingEndpointSpec,
    listing: str,
    ssh_address: str = "",
    extra_routes: Mapping[str, str] | None = None,
) -> PairHost:
    """Return a host with a route by each of its links; `extra_routes` lead to single addresses."""

    def route(to: str, source: str | None) -> InterfaceAddress:
        (link,) = (link for start, link in LINKS.items() if to.startswith(start))
        own = [address for interface, address in usable_addresses(listing) if interface == link]
        address = source or next(a for a in own if (":" in a) == (":" in to))
        return InterfaceAddress((extra_routes or {}).get(to, link), address)

    return PairHost(spec, listing, ssh_address, route)


def web_1(interface: str | None = None, address: str | None = None) -> PairHost:
    return make_host(
        ExistingEndpointSpec("web-01", "web-01", interface=interface, address=address), WEB_1, "192.0.2.11"
    )


def web_2(interface: str | None = None, address: str | None = None) -> PairHost:
    return make_host(
        ExistingEndpointSpec("web-02", "web-02", interface=interface, address=address), WEB_2, "192.0.2.12"
    )


def test_by_default_load_uses_the_interface_of_the_ssh_connection() -> None:
    found = choose_routed_interfaces(web_1(), web_2())
    assert found == (
        LoadInterface("ens160", "192.0.2.11", "", has_any_ipv6_address=True),
        LoadInterface("ens160", "192.0.2.12", "", has_any_ipv6_address=True),
    )


def test_a_named_interface_decides_for_the_peer_too() -> None:
    for a, b in ((web_1(interface="ens192"), web_2()), (web_1(), web_2(address="10.0.0.12"))):
        assert choose_routed_interfaces(a, b) == (
            LoadInterface("ens192", "10.0.0.11", "2001:db8::b", has_any_ipv6_address=True),
            LoadInterface("ens192", "10.0.0.12", "2001:db8::c", has_any_ipv6_address=True),
        )


def test_a_named_ipv6_address_is_the_address_for_load() -> None:
    a, b = choose_routed_interfaces(web_1(address="2001:db8::b"), web_2(address="2001:db8::c"))
    assert (a.interface, a.primary_address, b.ipv6_address) == ("ens192", "2001:db8::b", "2001:db8::c")


def test_the_bench_machine_uses_its_route_to_the_host() -> None:
    here = make_host(ExistingEndpointSpec("here", is_bench_machine=True), WEB_1)
    for pair in (choose_routed_interfaces(here, web_2()), reversed(choose_routed_interfaces(web_2(), here))):
        assert [interface.primary_address for interface in pair] == ["192.0.2.11", "192.0.2.12"]


def test_link_local_and_temporary_addresses_are_ignored() -> None:
    found = usable_addresses(WEB_1, "ens192")
    assert found == [("ens192", "10.0.0.11"), ("ens192", "2001:db8::b")]
    assert usable_addresses(WEB_1, "wg0") == [("wg0", "10.9.0.1")]


@pytest.mark.parametrize(
    ("a", "what"),
    [
        (
            web_1(interface="ens999"),
            "the host has no interface ens999 with an address (it has: ens160, ens192, wg0)",
        ),
        (web_1(address="10.0.0.99"), "the host does not have the address 10.0.0.99"),
        (
            make_host(ExistingEndpointSpec("web-01", ssh_destination="web-01"), WEB_1),
            "the host does not report the address to which SSH connects",
        ),
        (
            make_host(
                ExistingEndpointSpec("web-01", ssh_destination="x", interface="ens192"),
                WEB_1,
                extra_routes={"10.0.0.12": "wg0"},
            ),
            "packets to 10.0.0.12 leave by wg0, not by ens192",
        ),
    ],
)
def test_an_interface_without_a_route_to_the_peer_is_refused_with_the_fix(a: PairHost, what: str) -> None:
    with pytest.raises(BenchError) as refused:
        choose_routed_interfaces(a, web_2(interface="ens192"))
    assert what in refused.value.what
    assert refused.value.where == "testbed.host web-01"
    assert refused.value.fix


def test_two_names_of_one_machine_are_refused() -> None:
    one = make_host(
        ExistingEndpointSpec("web-01", ssh_destination="a"),
        WEB_1,
        "192.0.2.11",
        extra_routes={"192.0.2.11": "lo"},
    )
    two = make_host(
        ExistingEndpointSpec("web-02", ssh_destination="b"),
        WEB_1,
        "192.0.2.11",
        extra_routes={"192.0.2.11": "lo"},
    )
    with pytest.raises(BenchError, match="both hosts of the pair are the same machine"):
        choose_routed_interfaces(one, two)


def test_two_interfaces_of_one_machine_need_neither_routes_nor_addresses() -> None:
    a, b = choose_interfaces_of_one_machine(web_1(interface="ens192"), web_1(interface="ens224"))
    assert a == LoadInterface("ens192", "10.0.0.11", "2001:db8::b", has_any_ipv6_address=True)
    assert b == LoadInterface("ens224", "198.19.0.1", "2001:2:0:1::1", has_any_ipv6_address=False)
    a, _ = choose_interfaces_of_one_machine(
        web_1(interface="ens192", address="10.9.9.9"), web_1(interface="ens224")
    )
    assert a.primary_address == "10.9.9.9"
