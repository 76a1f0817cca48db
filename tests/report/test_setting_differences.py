"""Audited settings that differ between two campaigns, which `compare` names first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.explain.comparisons.simulated import campaign
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.stored import AUDIT_FACTS_SUBJECT, machine_to_json
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.setting_differences import SettingDifference, compare_settings

pytestmark = pytest.mark.pure


def machine(name: str, *, tso: bool = True, cpus: int = 4, interface: str = "eth0") -> Inventory:
    inventory = Inventory(name)
    inventory.add_object("machine", "machine", "linux").add("cpus", cpus, "test")
    adapter = inventory.add_object("interface", interface, "linux")
    for fact, value in {"tso": tso, "cpus": cpus, "rx_crc_ppm": 0.5 * cpus}.items():
        adapter.add(fact, value, "test")
    return inventory


def audited(*machines: Inventory) -> CampaignSummary:
    stored = {each.target: machine_to_json(each) for each in machines}
    return replace(campaign([], []), facts={AUDIT_FACTS_SUBJECT: stored} if stored else {})


def differences(before: CampaignSummary, after: CampaignSummary) -> tuple[SettingDifference, ...]:
    return compare_settings(before, after).differences


def test_equal_settings_do_not_differ() -> None:
    assert differences(audited(machine("web-01")), audited(machine("web-01"))) == ()


def test_a_setting_of_an_interface_differs_with_both_values() -> None:
    assert differences(audited(machine("web-01", tso=False)), audited(machine("web-01"))) == (
        SettingDifference("web-01, eth0: tso", "off", "on"),
    )


def test_counters_and_facts_of_the_machine_at_its_interfaces_are_left_out() -> None:
    assert differences(audited(machine("web-01", cpus=2)), audited(machine("web-01"))) == (
        SettingDifference("web-01: cpus", "2", "4"),
    )


def test_an_interface_of_one_campaign_only_is_present_or_not() -> None:
    assert differences(audited(machine("web-01")), audited(machine("web-01", interface="eth1"))) == (
        SettingDifference("web-01, eth0", "present", ""),
        SettingDifference("web-01, eth1", "", "present"),
    )


def test_guests_with_different_adapters_are_compared_with_each_other() -> None:
    assert differences(audited(machine("a1 (e1000)", tso=False)), audited(machine("a1 (vmxnet3)"))) == (
        SettingDifference("a1, eth0: tso", "off", "on"),
    )


def test_a_campaign_without_an_audit_is_named() -> None:
    compared = compare_settings(audited(machine("web-01")), audited())
    assert (compared.audited_campaigns, compared.differences) == (("before",), ())
