"""Testbeds of existing VMs, whatever their hypervisor: changed for a treatment, and measured as hosts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from vnetbench import cleanup
from vnetbench.lab.domains.changed_vms import ChangedVms
from vnetbench.lab.domains.loaded_adapters import check_loaded_adapters
from vnetbench.lab.hosts.connection import ConnectedHost
from vnetbench.lab.hosts.testbed import HostEndpoint, HostsLab, HostsTestbed
from vnetbench.study.model import Level, TestbedSpec

START_TIME_LIMIT_S = 300.0
"""Time limit from the start of a VM until SSH reaches its guest."""


class ExistingVmTestbed(HostsTestbed):
    """A running testbed of VMs and hosts. `ExistingVmLab.create_testbed` makes it."""

    def __init__(
        self,
        connected: Sequence[ConnectedHost],
        endpoints: tuple[HostEndpoint, ...],
        vms: ChangedVms[Any],
    ) -> None:
        super().__init__(connected, endpoints)
        self._vms = vms

    def set_knobs_and_prove_paths(self, factors: Mapping[str, Level], spec: TestbedSpec) -> dict[str, Any]:
        """See Testbed."""
        drivers = check_loaded_adapters(self._vms.adapter_macs, self.endpoints, self.agents)
        # Something else may have changed or restarted a VM meanwhile, so each trial reads it.
        effective = {"vm_driver": drivers, **self._vms.read_back(self.endpoints, factors)}
        return {**super().set_knobs_and_prove_paths(factors, spec), **effective}

    def describe(self) -> Mapping[str, object]:
        """See Testbed."""
        return {**super().describe(), "lab": self._vms.lab, "vms": self._vms.describe()}


class ExistingVmLab(HostsLab, ABC):
    """Changes the VMs of one study, and connects to them. A lab of this kind has one hypervisor.

    The VMs stay changed from testbed to testbed, so that they restart less often.
    """

    def __init__(self, spec: TestbedSpec, purpose: str) -> None:
        """Use the connection and the hosts of a study's testbed section."""
        super().__init__(spec, purpose)
        self._connection = spec.connection or ""
        self._vms: ChangedVms[Any] | None = None

    @abstractmethod
    def testbed_shape(self, factors: Mapping[str, Level]) -> Hashable:
        """See Lab. VMs restart only when the shape changes."""

    @abstractmethod
    def _open_vms(self) -> ChangedVms[Any]:
        """Connect to the hypervisor; raises BenchError. No VM is added yet."""

    @abstractmethod
    def _check_vms(self) -> bool:
        """Return whether all VMs run; raises BenchError if one cannot be used. It changes nothing."""

    def check_hosts(self) -> None:
        """See HostsLab. Changes nothing, so it reaches no host if a VM is shut down."""
        if self._check_vms():
            super().check_hosts()

    def create_testbed(self, name: str, shape: Hashable) -> HostsTestbed:
        """See Lab. Restores what an earlier campaign left, changes the VMs, and waits for their guests."""
        if self._vms is None:
            self._vms = self._open_vms()
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
            (lambda: HostsLab.remove_unfinished_testbeds(self, name_prefix), self._restore_vms)
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
        return ExistingVmTestbed(connected, endpoints, self._vms)
