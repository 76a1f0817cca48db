"""Each rule finds its fault, and no other rule does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.audit.export_faults import VSPHERE_FAULTS, WINDOWS_FAULTS
from tests.audit.export_samples import change, make_export, make_windows_guest
from tests.audit.linux_faults import LINUX_FAULTS
from tests.audit.planting import TextFault, plant
from tests.audit.reading import rules_found
from tests.audit.vm_faults import KVM_FAULTS, VMX_FAULTS
from vnetbench.audit.rules import load_rules

pytestmark = pytest.mark.pure

TEXT_FAULTS = [*LINUX_FAULTS, *VMX_FAULTS, *KVM_FAULTS]


@pytest.mark.parametrize("fault", TEXT_FAULTS, ids=lambda fault: f"{fault[1]}-{fault[0]}")
def test_a_fault_in_a_text_is_found_by_its_rule_alone(fault: TextFault) -> None:
    rule, form, sample, replacements = fault
    assert rules_found(form, plant(sample, replacements)) == [rule]


@pytest.mark.parametrize(("rule", "changes"), VSPHERE_FAULTS, ids=lambda each: str(each)[:40])
def test_a_fault_in_an_export_of_vsphere_is_found_by_its_rule_alone(
    rule: str, changes: dict[str, Any]
) -> None:
    assert rules_found("vsphere", change(make_export(), changes)) == [rule]


@pytest.mark.parametrize(("rule", "changes"), WINDOWS_FAULTS, ids=lambda each: str(each)[:40])
def test_a_fault_of_a_windows_guest_is_found_by_its_rule_alone(rule: str, changes: dict[str, Any]) -> None:
    assert rules_found("windows", change(make_windows_guest(), changes)) == [rule]


def test_every_rule_has_a_planted_fault() -> None:
    planted = {fault[0] for fault in TEXT_FAULTS} | {rule for rule, _ in (*VSPHERE_FAULTS, *WINDOWS_FAULTS)}
    assert planted == set(load_rules())
    assert len(planted) >= 60
