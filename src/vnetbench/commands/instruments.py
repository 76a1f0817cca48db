"""What measures a study: chosen by its testbed, with all that it needs made ready beforehand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from rich.console import Console

from vnetbench.agents.client import AgentError
from vnetbench.agents.launch import check_agent
from vnetbench.campaign.iperf3_instrument import HostsInstrument
from vnetbench.campaign.instrument import Instrument, LabInstrument
from vnetbench.errors import BenchError
from vnetbench.lab import privilege
from vnetbench.lab.netns import open_vswitch
from vnetbench.lab.netns.topology import OPEN_VSWITCH
from vnetbench.lab.guest.lab import QemuLab, check_placement, shape_of
from vnetbench.lab.guest.prerequisites import Ready, fetch, get_ready
from vnetbench.lab.hosts.testbed import HostsLab
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.search import mlrsearch
from vnetbench.study.factors.registry import complete
from vnetbench.study.labs import HOSTS, IMPORTED, IPERF3, QEMU
from vnetbench.study.model import Plan, Study

Say = Callable[[str], None]
MakeInstrument = Callable[[Say], Instrument]
"""Takes what tells the user a sentence."""


def prepared(study: Study, plan: Plan, console: Console, accelerator: str | None = None) -> MakeInstrument:
    """What makes the instrument of a study; raises BenchError where nothing could be measured with it.

    `accelerator` is what ran the guests of an earlier session of the campaign.
    """
    testbed, title = study.testbed, study.title
    if testbed.lab == IMPORTED:
        raise BenchError(
            f'lab = "{IMPORTED}" says that the trials are another tool\'s: there is nothing to measure here',
            fix="vnetbench show and report read what was imported; vnetbench import makes another file",
        )
    if study.search is not None and study.search.method == "mlrsearch":
        mlrsearch.installed()
    # Hosts are reached from where the user is, with the user's own rights.
    if testbed.kind == IPERF3:
        check_agent()
        with closing(HostsInstrument(testbed)) as instrument:
            instrument.greet()
        return lambda say: HostsInstrument(testbed)
    if testbed.lab == HOSTS:
        check_agent()
        hosts = HostsLab(testbed, title)
        _try(hosts)
        return lambda say: LabInstrument(hosts, testbed)
    if testbed.lab == QEMU:
        ready = _guests(study, plan, console)
        if accelerator not in (None, ready.accelerator.name):
            raise BenchError(
                f"the campaign began with guests under {accelerator}, and here they run under "
                f"{ready.accelerator.name}: these figures do not go together",
                fix="begin a new campaign (vnetbench run, another -o), or resume where it began",
            )
        return lambda say: LabInstrument(QemuLab(testbed, title, ready, say), testbed)
    if any(level == OPEN_VSWITCH for f in study.factors if f.name == "vswitch" for level in f.levels):
        open_vswitch.installed()
    privilege.enter_for_run()
    check_agent()
    return lambda say: LabInstrument(NetnsLab(testbed, title), testbed)


def _try(hosts: HostsLab) -> None:
    """Raise BenchError for hosts that cannot be measured between."""
    try:
        hosts.raise_bed("check", hosts.shape({})).close()
    except AgentError as error:
        raise BenchError(
            f"the agent does not run there: {error.message}",
            where=error.endpoint,
            fix="vnetbench doctor --ssh shows how far it gets",
        ) from error


def _guests(study: Study, plan: Plan, console: Console) -> Ready:
    levels = [complete(t.factors, study.workload, study.testbed.kind) for t in plan.treatments]
    for each in levels:
        check_placement(each, study.testbed)
    shapes = list(dict.fromkeys(shape_of(each, study.testbed) for each in levels))
    # A namespace of our own has no way to where kernels are fetched from.
    fetch(shape.adapter for shape in shapes)
    privilege.enter_for_run()
    check_agent()
    ready = get_ready(shapes)
    console.print(ready.in_words(), soft_wrap=True, markup=False)
    return ready
