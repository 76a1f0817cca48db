"""What the audit of a campaign reads of two fresh guests."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.audit.stored import read_stored_audit


def check_audit_of_guests(facts: Mapping[str, Mapping[str, object]], adapter: str) -> None:
    """Assert that both guests were read, with their paravirtual adapters and no wrong setting."""
    audit = read_stored_audit(facts)
    assert audit is not None and not audit.unread
    assert {each.target for each in audit.inventories} == {f"{name} ({adapter})" for name in ("a1", "b1")}
    for inventory in audit.inventories:
        (item,) = inventory.of_kind("interface")
        assert {"driver", "mtu", "tso", "gro", "rx_ring_max"} <= set(item.facts)
        assert item.value("emulated_model") == "none"
    assert not audit.serious_findings, "a fresh guest has no wrong setting"
