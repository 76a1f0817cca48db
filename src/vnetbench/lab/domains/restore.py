"""Restores existing VMs through the lab that changed them."""

from __future__ import annotations

import importlib

from vnetbench.errors import BenchError
from vnetbench.lab.domains.journal import DomainRecord, restore_and_delete

_MODULE_BY_LAB = {"libvirt": "vnetbench.lab.libvirt.restore", "vsphere": "vnetbench.lab.vsphere.restore"}
"""Each module has `restore_domain(record)`. It needs an optional library, so it is imported on first use."""


def restore_left_domain(record: DomainRecord) -> bool:
    """Restore what a killed campaign changed; return False if a campaign uses the VM or restored it.

    Raises:
        BenchError: if the VM cannot be restored. The journal stays.
    """
    if record.lab not in _MODULE_BY_LAB:
        raise BenchError(
            f"this version has no lab {record.lab}",
            where=str(record),
            fix="run vnetbench lab clean with the version that changed the VM",
        )
    module = importlib.import_module(_MODULE_BY_LAB[record.lab])
    return restore_and_delete(record, module.restore_domain)
