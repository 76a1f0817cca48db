"""What the tests of the audit share: inventories from texts, and the rules that find something."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from vnetbench.audit.duplicates import mark_duplicate_addresses
from vnetbench.audit.files.libvirt import read_domain
from vnetbench.audit.files.proxmox import read_config
from vnetbench.audit.files.vmx import read_vmx
from vnetbench.audit.files.vsphere import read_inventory
from vnetbench.audit.finding import AuditResult
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.judge import judge
from vnetbench.audit.linux.collect import read_linux_listing
from vnetbench.audit.rules import load_rules
from vnetbench.audit.windows.guest import read_windows_guest

_READERS: Mapping[str, Callable[[str, str], Inventory]] = {
    "linux": read_linux_listing,
    "vmx": read_vmx,
    "libvirt": read_domain,
    "proxmox": read_config,
    "vsphere": lambda text, where: read_inventory(json.loads(text), where),
    "windows": lambda text, where: read_windows_guest(json.loads(text), where),
}


def read_sample(form: str, sample: Any) -> Inventory:
    """Return the inventory of a sample: a text, or a JSON value."""
    text = sample if isinstance(sample, str) else json.dumps(sample)
    inventory = _READERS[form](text, f"sample.{form}")
    mark_duplicate_addresses([inventory])
    return inventory


def audit_sample(form: str, sample: Any) -> AuditResult:
    """Return what all rules say about a sample."""
    return judge([read_sample(form, sample)], list(load_rules().values()))


def rules_found(form: str, sample: Any) -> list[str]:
    """Return the rules that find something, sorted, without duplicates."""
    return sorted({finding.rule.id for finding in audit_sample(form, sample).findings})
