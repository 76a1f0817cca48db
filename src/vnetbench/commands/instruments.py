"""Choose the instrument that measures a study, and prepare what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

from rich.console import Console

from vnetbench.agents.client import AgentError
from vnetbench.agents.launch import check_agent_binary
from vnetbench.campaign.instrument import Instrument, LabInstrument
from vnetbench.campaign.iperf3_instrument import Iperf3Instrument
from vnetbench.errors import BenchError
from vnetbench.lab import privilege
from vnetbench.lab.guest.lab import QemuLab, check_guest_pinning, guest_shape
from vnetbench.lab.guest.prerequisites import GuestPrerequisites, find_qemu_and_fetch_kernel, prepare_guests
from vnetbench.lab.hosts.testbed import HostsLab
from vnetbench.lab.libvirt.testbed import LibvirtLab
from vnetbench.lab.netns import open_vswitch
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.lab.netns.topology import OPEN_VSWITCH
from vnetbench.lab.vsphere.testbed import VsphereLab
from vnetbench.search import mlrsearch
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.factors.team_factors import teams_of_treatment
from vnetbench.study.factors.testbed_factors import VSWITCH
from vnetbench.study.labs import (
    EXISTING_MACHINE_LABS,
    HOSTS,
    IMPORTED_LAB,
    IPERF3_BACKEND,
    LIBVIRT,
    QEMU,
    VSPHERE,
)
from vnetbench.study.model import Plan, Study

_LABS_OF_EXISTING_MACHINES: Mapping[str, type[HostsLab]] = {
    HOSTS: HostsLab,
    LIBVIRT: LibvirtLab,
    VSPHERE: VsphereLab,
}

ReportMessage = Callable[[str], None]
InstrumentFactory = Callable[[ReportMessage], Instrument]
"""Creates an instrument. Its argument prints a message to the user."""


def prepare_instrument(
    study: Study, plan: Plan, console: Console, accelerator: str | None = None
) -> InstrumentFactory:
    """Prepare the testbed of a study and return a factory of its instrument.

    Args:
        study: The study.
        plan: Its treatments.
        console: Where messages are printed.
        accelerator: The accelerator that ran the guests in an earlier session of this campaign, if any.

    Raises:
        BenchError: The study cannot be measured on this machine.
    """
    testbed, title = study.testbed, study.title
    if testbed.lab == IMPORTED_LAB:
        raise BenchError(
            f'vnetbench cannot run a study with lab = "{IMPORTED_LAB}", because another tool ran its trials',
            fix="use vnetbench show or report to read the imported results",
        )
    if study.search is not None and study.search.method == "mlrsearch":
        mlrsearch.import_mlrsearch_library()
    # SSH and iperf3 run outside the user namespace, with the user's own identity.
    if testbed.backend == IPERF3_BACKEND:
        check_agent_binary()
        with closing(Iperf3Instrument(testbed)) as instrument:
            instrument.contact_server()
        return lambda say: Iperf3Instrument(testbed)
    if testbed.lab in EXISTING_MACHINE_LABS:
        check_agent_binary()
        hosts = make_lab_of_existing_machines(study)
        _check_hosts(hosts)
        return lambda say: LabInstrument(hosts, testbed)
    if testbed.lab == QEMU:
        ready = _prepare_guests(study, plan, console)
        if accelerator not in (None, ready.accelerator.name):
            raise BenchError(
                f"the campaign started with guests under {accelerator}, but here they run under "
                f"{ready.accelerator.name}, so the results would not be comparable",
                fix="start a new campaign (vnetbench run with another -o), or resume on the first machine",
            )
        return lambda say: LabInstrument(QemuLab(testbed, title, ready, say), testbed)
    if any(level == OPEN_VSWITCH for f in study.factors if f.name == VSWITCH.name for level in f.levels):
        open_vswitch.installed_version()
    privilege.acquire_network_rights()
    check_agent_binary()
    return lambda say: LabInstrument(NetnsLab(testbed, title), testbed)


def make_lab_of_existing_machines(study: Study) -> HostsLab:
    """Return the lab of a study of existing machines. It has connected to none yet."""
    return _LABS_OF_EXISTING_MACHINES[study.testbed.lab](study.testbed, study.title)


def _check_hosts(hosts_lab: HostsLab) -> None:
    """Check the hosts of a study; raise BenchError if an agent does not run."""
    try:
        hosts_lab.check_hosts()
    except AgentError as error:
        raise BenchError(
            f"the agent does not run on this host: {error.message}",
            where=error.endpoint,
            fix="run vnetbench doctor --ssh HOST to check the host",
        ) from error


def _prepare_guests(study: Study, plan: Plan, console: Console) -> GuestPrerequisites:
    levels = [complete_levels(t.factors, study.workload, study.testbed.backend) for t in plan.treatments]
    teams = [team for each in levels for team in teams_of_treatment(study.testbed, each)]
    if any(team.has_open_vswitch_far_end for team in teams):
        open_vswitch.installed_version()
    for each in levels:
        check_guest_pinning(each, study.testbed)
    shapes = list(dict.fromkeys(guest_shape(each, study.testbed) for each in levels))
    # Kernels are downloaded first: a user namespace has no route to the internet.
    find_qemu_and_fetch_kernel(shape.adapter for shape in shapes)
    privilege.acquire_network_rights()
    check_agent_binary()
    ready = prepare_guests(shapes)
    console.print(ready.summary(), soft_wrap=True, markup=False)
    return ready
