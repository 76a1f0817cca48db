"""The VMs of a study, whatever their hypervisor: change them, read them, and restore them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

from vnetbench import cleanup
from vnetbench.lab.domains import journal
from vnetbench.lab.domains.journal import DomainJournal, DomainRecord
from vnetbench.lab.endpoint import Endpoint
from vnetbench.study.model import ExistingEndpointSpec, Level


class ChangedVm(ABC):
    """One VM of a study, with its journal."""

    def __init__(self, spec: ExistingEndpointSpec, mac: str, kept: DomainJournal) -> None:
        self.spec = spec
        self.mac = mac
        """MAC address of the adapter that changes."""
        self.journal = kept

    @abstractmethod
    def check_request(self, requested: Any) -> None:
        """Record the VM's original settings, and check what is known of a request before the VM changes.

        Raises:
            TreatmentRefused: the VM cannot have it.
            BenchError: the hypervisor refuses to report the VM.
        """

    @abstractmethod
    def change(self, requested: Any) -> bool:
        """Give the VM what a treatment requests, start it, and return whether its guest is booting.

        Args:
            requested: The shape of a testbed, as the lab's `testbed_shape` returns it.

        Raises:
            TreatmentRefused: the VM cannot have it.
            BenchError: the hypervisor refuses another step, or a restart would lose something.
        """


VmT = TypeVar("VmT", bound=ChangedVm)


class ChangedVms(ABC, Generic[VmT]):
    """All VMs of a study. Restore them after use."""

    lab: str
    """The lab that changes them, as a study names it."""

    def __init__(self, connection: str, restore_domain: Callable[[DomainRecord], None]) -> None:
        """Use a hypervisor.

        Args:
            connection: The hypervisor, as the study names it.
            restore_domain: Restores the original settings of a record; raises BenchError if that fails.
        """
        self._connection = connection
        self._restore_domain = restore_domain
        self._vms: dict[str, VmT] = {}

    def add(self, hosts: Iterable[ExistingEndpointSpec], testbed_name: str, purpose: str) -> None:
        """Start the journals of the VMs of these hosts; what an earlier campaign left is restored first.

        Raises:
            BenchError: there is no such VM or adapter, it cannot be restarted, or another campaign uses it.
        """
        for spec in hosts:
            if spec.domain:
                identity, make_vm = self._find_vm(spec)
                record = journal.new_record(
                    self.lab, self._connection, spec.domain, identity, testbed_name, purpose
                )
                self._vms[spec.name] = make_vm(journal.open_journal(record, self._restore_domain))

    @abstractmethod
    def _find_vm(self, spec: ExistingEndpointSpec) -> tuple[str, Callable[[DomainJournal], VmT]]:
        """Return the identity of a host's VM, and what makes the VM from its journal. It changes nothing."""

    @property
    def adapter_macs(self) -> dict[str, str]:
        """The MAC addresses of the adapters that change, by host."""
        return {name: vm.mac for name, vm in self._vms.items()}

    def change(self, requested: Any) -> bool:
        """Give the VMs what a treatment requests and start them, all at the same time.

        No VM changes if the check of one fails.

        Returns:
            Whether a guest is booting.

        Raises:
            BenchError: a VM cannot have it, or the hypervisor refuses a step.
        """
        self._run_for_all(lambda vm: vm.check_request(requested))
        booting: list[bool] = []
        self._run_for_all(lambda vm: booting.append(vm.change(requested)))
        return any(booting)

    @abstractmethod
    def read_back(self, endpoints: Sequence[Endpoint], factors: Mapping[str, Level]) -> dict[str, object]:
        """Set what needs no restart, and return what the VMs have now, for the record of a trial.

        Raises:
            BenchError: the hypervisor refuses a step.
        """

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Return the VMs and what a study can change of them, for the results file."""

    def restore(self) -> None:
        """Restore all VMs; raises the first error. A VM that is not restored keeps its journal."""
        try:
            self._run_for_all(self._restore_vm)
        finally:
            self._vms.clear()

    def _restore_vm(self, vm: VmT) -> None:
        self._restore_domain(vm.journal.record)
        vm.journal.delete()

    def _run_for_all(self, step: Callable[[VmT], object]) -> None:
        """Run a step for all VMs at the same time; raise the first error when all have ended."""
        with ThreadPoolExecutor(len(self._vms) or 1) as pool:
            running = [pool.submit(partial(step, vm)) for vm in self._vms.values()]
        cleanup.run_all_despite_errors([each.result for each in running])
