"""What a campaign stores about two fresh guests: their names, and the audit of their settings."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.audit.stored import read_stored_audit


def check_audit_of_guests(facts: Mapping[str, Mapping[str, object]], adapter: str) -> None:
    """Assert that both guests were audited, with their paravirtual adapters and no wrong setting."""
    assert (facts["a1"]["hostname"], facts["b1"]["hostname"]) == ("a1", "b1")
    audit = read_stored_audit(facts)
    assert audit is not None and not audit.unread
    assert {each.target for each in audit.inventories} == {f"{name} ({adapter})" for name in ("a1", "b1")}
    for inventory in audit.inventories:
        (item,) = inventory.of_kind("interface")
        assert {"driver", "mtu", "tso", "gro", "rx_ring_max"} <= set(item.facts)
        assert item.value("emulated_model") == "none"
    assert not audit.serious_findings, "a fresh guest has no wrong setting"
