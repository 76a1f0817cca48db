"""What Open vSwitch 3.1 prints about LACP and moved addresses."""

from __future__ import annotations

import pytest

from vnetbench.lab.netns.team_readings import parse_lacp_show, parse_mac_moves

pytestmark = pytest.mark.pure

LACP_SHOW = """\
---- team-sw0 ----
  status: active negotiated
  sys_id: 5e:0d:3c:3b:5a:46
  sys_priority: 65534
  aggregation key: 1
  lacp_time: fast

member: sw0-link0: current attached
  port_id: 1
  partner sys_id: da:54:46:2e:70:41
  partner key: 2

member: sw0-link1: defaulted detached
  port_id: 2
  partner sys_id: 00:00:00:00:00:00
  partner key: 0
"""


def test_each_link_has_its_partner_and_aggregator() -> None:
    lacp = parse_lacp_show(LACP_SHOW)
    first, second = (lacp.link_by_interface[name] for name in ("sw0-link0", "sw0-link1"))
    assert lacp.is_negotiated
    assert (first.status, first.is_attached, first.partner_key) == ("current", True, 2)
    assert (second.status, second.is_attached) == ("defaulted", False)
    assert (first.partner_mac, second.partner_mac) == ("da:54:46:2e:70:41", "00:00:00:00:00:00")


def test_two_passive_ends_negotiate_nothing() -> None:
    lacp = parse_lacp_show("---- team-sw0 ----\n  status: passive\n  sys_id: 5e:0d:3c:3b:5a:46\n")
    assert (lacp.is_negotiated, lacp.link_by_interface) == (False, {})
    assert not parse_lacp_show("").is_negotiated


def test_moves_of_addresses_are_counted_where_the_switch_counts_them() -> None:
    assert parse_mac_moves("  Total number of port moved MAC entries  : 42\n") == 42
    assert parse_mac_moves("  Total number of learned MAC entries  : 42\n") is None
