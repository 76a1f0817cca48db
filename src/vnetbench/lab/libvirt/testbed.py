"""The lab `libvirt`: existing VMs with the hardware of a treatment, measured as hosts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import closing

from vnetbench.lab.domains.testbed import ExistingVmLab
from vnetbench.lab.libvirt.domains import find_domain
from vnetbench.lab.libvirt.hardware import requested_hardware
from vnetbench.lab.libvirt.vms import LibvirtVms, find_adapter_mac
from vnetbench.libvirt_connection import open_connection
from vnetbench.study.model import Level


class LibvirtLab(ExistingVmLab):
    """Changes the VMs of one study at libvirt, and connects to them."""

    def testbed_shape(self, factors: Mapping[str, Level]) -> Hashable:
        """See ExistingVmLab. The hardware."""
        return requested_hardware(factors)

    def _open_vms(self) -> LibvirtVms:
        return LibvirtVms(self._connection)

    def _check_vms(self) -> bool:
        are_running = True
        with closing(open_connection(self._connection, read_only=False)) as connection:
            for spec in self._hosts:
                if spec.domain:
                    domain = find_domain(connection, spec.domain)
                    find_adapter_mac(domain, spec)
                    are_running &= bool(domain.isActive())
        return are_running
