"""MAC addresses that several adapters of an audit share."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vnetbench.audit.inventory import Inventory, InventoryObject

MAC_PATTERN = re.compile(r"(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}")


def parse_mac(text: object) -> str | None:
    """Return a MAC address in lower case with colons, or None."""
    mac = text.strip().lower() if isinstance(text, str) else ""
    return mac.replace("-", ":") if MAC_PATTERN.fullmatch(mac) else None


def mark_duplicate_addresses(inventories: Iterable[Inventory]) -> None:
    """Set `mac_shared_with` of each adapter whose MAC address is known.

    Adapters of equal names are one adapter that several files describe. So are those of different platforms:
    an export and a .vmx file, for example.
    """
    first_by_mac: dict[tuple[str, str], tuple[Inventory, InventoryObject]] = {}
    for inventory in inventories:
        for adapter in inventory.of_kind("adapter"):
            mac = adapter.value("mac")
            if not isinstance(mac, str):
                continue
            source = adapter.facts["mac"].read_from
            owner, other = first_by_mac.setdefault((adapter.platform, mac), (inventory, adapter))
            if other.name == adapter.name:
                adapter.add("mac_shared_with", "none", source)
            else:
                adapter.add("mac_shared_with", f"{other.name} ({owner.target})", source)
