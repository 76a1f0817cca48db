"""The testbeds of this test run. Other runs have a /run of their own, but share the control groups."""

from __future__ import annotations

from vnetbench.lab import netlink, registry
from vnetbench.lab.netns.topology import namespace_name
from vnetbench.lab.registry import RegisteredTestbed


def list_own_testbeds() -> list[RegisteredTestbed]:
    """Return the testbeds that have an entry or a namespace in this /run."""
    found = registry.list_registered_and_leftover_testbeds()
    entries = {path.stem for path in registry.REGISTRY_FOLDER.glob("*.json")}
    namespaces = netlink.list_namespaces()
    return [
        each
        for each in found
        if each.name in entries or any(n.startswith(namespace_name(each.name, "")) for n in namespaces)
    ]
