"""Testbeds of the lab `vsphere`: existing VMs with the settings of a treatment, measured as hosts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from vnetbench import cleanup
from vnetbench.lab.domains.loaded_adapters import check_loaded_adapters
from vnetbench.lab.hosts.connection import ConnectedHost
from vnetbench.lab.hosts.testbed import HostEndpoint, HostsLab, HostsTestbed
from vnetbench.lab.vsphere.settings import VmSettings, requested_settings
from vnetbench.lab.vsphere.vms import ChangedVms, is_running
from vnetbench.study.labs import VSPHERE
from vnetbench.study.model import Level, TestbedSpec

START_TIME_LIMIT_S = 300.0
"""Time limit from the start of a VM until SSH reaches its guest."""


class VsphereTestbed(HostsTestbed):
    """A running testbed of VMs and hosts. `VsphereLab.create_testbed` makes it."""

    def __init__(
        self, connected: Sequence[ConnectedHost], endpoints: tuple[HostEndpoint, ...], vms: ChangedVms
    ) -> None:
        super().__init__(connected, endpoints)
        self._vms = vms

    def set_knobs_and_prove_paths(self, factors: Mapping[str, Level], spec: TestbedSpec) -> dict[str, Any]:
        """See Testbed."""
        drivers = check_loaded_adapters(self._vms.adapter_macs, self.endpoints, self.agents)
        # Something else may have changed a VM meanwhile, so each trial reads its settings.
        effective = {"vm_settings": self._vms.read_settings(), "vm_driver": drivers}
        return {**super().set_knobs_and_prove_paths(factors, spec), **effective}

    def describe(self) -> Mapping[str, object]:
        """See Testbed."""
        return {**super().describe(), "lab": VSPHERE, "vms": self._vms.describe()}


class VsphereLab(HostsLab):
    """Changes the VMs of one study, and connects to them.

    The VMs stay changed from testbed to testbed, so that they restart less often.
    """

    def __init__(self, spec: TestbedSpec, purpose: str) -> None:
        """Use the connection and the hosts of a study's testbed section."""
        super().__init__(spec, purpose)
        self._connection = spec.connection or ""
        self._vms: ChangedVms | None = None

    def testbed_shape(self, factors: Mapping[str, Level]) -> Hashable:
        """See Lab. VMs restart only when the settings change."""
        return requested_settings(factors)

    def check_hosts(self) -> None:
        """See HostsLab. Changes nothing, so it reaches no host if a VM is shut down."""
        are_running = [is_running(self._connection, spec) for spec in self._hosts if spec.domain]
        if all(are_running):
            super().check_hosts()

    def create_testbed(self, name: str, shape: Hashable) -> HostsTestbed:
        """See Lab. Restores what an earlier campaign left, changes the VMs, and waits for their guests."""
        assert isinstance(shape, VmSettings)
        if self._vms is None:
            self._vms = ChangedVms(self._connection)
            try:
                self._vms.add(self._hosts, name, self._purpose)
            except BaseException:
                self._restore_vms()
                raise
        if self._vms.change(shape):
            self._allow_time_to_start(START_TIME_LIMIT_S)
        return super().create_testbed(name, shape)

    def remove_unfinished_testbeds(self, name_prefix: str) -> None:
        """See Lab. Restores the VMs."""
        cleanup.run_all_despite_errors(
            (lambda: super(VsphereLab, self).remove_unfinished_testbeds(name_prefix), self._restore_vms)
        )

    def _restore_vms(self) -> None:
        if self._vms is not None:
            vms, self._vms = self._vms, None
            vms.restore()

    def _make_testbed(
        self, connected: Sequence[ConnectedHost], endpoints: tuple[HostEndpoint, ...]
    ) -> HostsTestbed:
        if self._vms is None:
            return super()._make_testbed(connected, endpoints)
        return VsphereTestbed(connected, endpoints, self._vms)
