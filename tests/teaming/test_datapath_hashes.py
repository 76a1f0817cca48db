"""Hashes that Open vSwitch 3.1.0 (Debian 12, userspace datapath) showed in `ovs-appctl dpctl/dump-flows`."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from vnetbench.teaming.flows import ICMP, ICMPV6, SCTP, TCP, UDP, Flow
from vnetbench.teaming.policies.open_vswitch import hash_of_userspace_datapath
from vnetbench.teaming.team import make_team

pytestmark = pytest.mark.pure

IPV4 = ("58.38.48.89", "162.112.179.56", 42143, 38208)
IPV6 = (
    "fdcb:5c74:3f98:e277:4cbd:87ad:5c90:a958",
    "fd3e:7d1b:c7a2:ea20:b2f1:4c94:2e05:319a",
    6388,
    37646,
)


@pytest.mark.parametrize(
    ("ends", "protocol", "dp_hash"),
    [
        (IPV4, TCP, 0x622E7200),
        (IPV4, UDP, 0x2BF72B62),
        (IPV4, SCTP, 0x24906B93),
        (IPV4, ICMP, 0x9B2DAC96),
        # Of TCP and UDP, the datapath hashes the number of the fragment header, so both have one hash.
        (IPV6, TCP, 0x5CA9633A),
        (IPV6, UDP, 0x5CA9633A),
        (IPV6, SCTP, 0x0B92516A),
        (IPV6, ICMPV6, 0x0577B7A2),
    ],
)
def test_the_hash_of_a_first_fragment_is_the_one_that_the_datapath_showed(
    ends: tuple[str, str, int, int], protocol: int, dp_hash: int
) -> None:
    source, destination, source_port, destination_port = ends
    flow = Flow(
        ip_address(source),
        ip_address(destination),
        source_port=source_port,
        destination_port=destination_port,
        protocol=protocol,
        is_fragmented=True,
    )
    assert hash_of_userspace_datapath(flow, make_team(3)) == dp_hash
