"""Testbeds of the lab `libvirt`: existing VMs with the hardware of a treatment, measured as hosts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from vnetbench import cleanup
from vnetbench.lab.hosts.connection import ConnectedHost
from vnetbench.lab.hosts.testbed import HostEndpoint, HostsLab, HostsTestbed
from vnetbench.lab.libvirt.hardware import VmHardware, requested_hardware
from vnetbench.lab.libvirt.vms import ChangedVms
from vnetbench.study.labs import LIBVIRT
from vnetbench.study.model import Level, TestbedSpec

START_TIME_LIMIT_S = 300.0
"""Time limit from the start of a VM until SSH reaches its guest."""


class LibvirtTestbed(HostsTestbed):
    """A running testbed of VMs and hosts. `LibvirtLab.create_testbed` makes it."""

    def __init__(
        self, connected: Sequence[ConnectedHost], endpoints: tuple[HostEndpoint, ...], vms: ChangedVms
    ) -> None:
        super().__init__(connected, endpoints)
        self._vms = vms

    def set_knobs_and_prove_paths(self, factors: Mapping[str, Level], spec: TestbedSpec) -> dict[str, Any]:
        """See Testbed."""
        pinned = self._vms.pin(self.endpoints, factors)
        return {**super().set_knobs_and_prove_paths(factors, spec), **pinned}

    def describe(self) -> Mapping[str, object]:
        """See Testbed."""
        return {**super().describe(), "lab": LIBVIRT, "vms": self._vms.describe()}

    def close(self) -> None:
        """See Testbed. The agents end before their VMs restart."""
        cleanup.run_all_despite_errors((super().close, self._vms.restore))


class LibvirtLab(HostsLab):
    """Changes the VMs of one study, and connects to them."""

    def __init__(self, spec: TestbedSpec, purpose: str) -> None:
        """Use the connection and the hosts of a study's testbed section."""
        super().__init__(spec, purpose)
        self._uri = spec.connection or ""
        self._vms: ChangedVms | None = None

    def testbed_shape(self, factors: Mapping[str, Level]) -> Hashable:
        """See Lab. VMs restart only when the hardware changes."""
        return requested_hardware(factors)

    def create_testbed(self, name: str, shape: Hashable) -> HostsTestbed:
        """See Lab. Restores what an earlier campaign left, changes the VMs, and waits for their guests."""
        assert isinstance(shape, VmHardware)
        self._vms = vms = ChangedVms(self._uri)
        try:
            vms.change(self._hosts, shape, name, self._purpose)
            if vms.were_started:
                self._allow_time_to_start(START_TIME_LIMIT_S)
            return super().create_testbed(name, shape)
        except BaseException as error:
            try:
                vms.restore()
            except Exception as other:
                error.add_note(f"the VMs could not be restored (run vnetbench lab clean): {other}")
            raise

    def _make_testbed(
        self, connected: Sequence[ConnectedHost], endpoints: tuple[HostEndpoint, ...]
    ) -> HostsTestbed:
        assert self._vms is not None
        return LibvirtTestbed(connected, endpoints, self._vms)
