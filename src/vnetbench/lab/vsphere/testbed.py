"""The lab `vsphere`: existing VMs with the settings of a treatment, measured as hosts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from vnetbench.lab.domains.testbed import ExistingVmLab
from vnetbench.lab.vsphere.settings import requested_settings
from vnetbench.lab.vsphere.vms import VsphereVms, is_running
from vnetbench.study.model import Level


class VsphereLab(ExistingVmLab):
    """Changes the VMs of one study at vSphere, and connects to them."""

    def testbed_shape(self, factors: Mapping[str, Level]) -> Hashable:
        """See ExistingVmLab. The settings."""
        return requested_settings(factors)

    def _open_vms(self) -> VsphereVms:
        return VsphereVms(self._connection)

    def _check_vms(self) -> bool:
        # All VMs are checked, also after one that does not run.
        are_running = [is_running(self._connection, spec) for spec in self._hosts if spec.domain]
        return all(are_running)
