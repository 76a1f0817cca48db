"""What a campaign changes on existing machines, reported before it changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from vnetbench.commands.instruments import make_lab_of_existing_machines
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.file.load import load_study
from vnetbench.study.labs import EXISTING_MACHINE_LABS, EXISTING_VM_LABS
from vnetbench.study.model import Plan, Study
from vnetbench.study.plan import make_plan


def print_plan(study_path: Path, overrides: Sequence[str], seed: int | None, console: Console) -> None:
    """Print the treatments of a study and what a campaign changes. It reaches no other machine."""
    study = load_study(study_path.absolute(), overrides)
    plan = make_plan(study, seed)
    count = len(plan.treatments)
    console.print(f"{count} treatment{'' if count == 1 else 's'}. Nothing was started.")
    if study.testbed.lab not in EXISTING_MACHINE_LABS:
        console.print(f"The lab {study.testbed.lab} creates its own testbeds and changes no other machine.")
    elif study.testbed.lab not in EXISTING_VM_LABS:
        console.print("The campaign changes settings inside the hosts, and restores them. It restarts none.")
    print_vm_changes(study, plan, console)


def print_vm_changes(study: Study, plan: Plan, console: Console) -> None:
    """Print which VMs a campaign changes and restarts; print nothing for other labs."""
    for line in list_vm_changes(study, plan):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def list_vm_changes(study: Study, plan: Plan) -> list[str]:
    """Return which VMs a campaign changes and restarts, as lines; empty for labs without existing VMs."""
    testbed = study.testbed
    if testbed.lab not in EXISTING_VM_LABS:
        return []
    lab = make_lab_of_existing_machines(study)
    settings: dict[str, None] = {}
    for treatment in plan.treatments:
        levels = complete_levels(treatment.factors, study.workload, testbed.backend)
        try:
            settings[str(lab.testbed_shape(levels))] = None
        except TreatmentRefused as error:
            settings[f"refused: {error.what}"] = None
    names = ", ".join(str(host.domain) for host in testbed.existing_endpoints if host.domain)
    return [
        f"The campaign changes and restarts these VMs of {testbed.connection}: {names}",
        *(f"  {each}" for each in settings),
        "  A VM is shut down and started when its settings change, at most once a trial. At the end it is"
        " restored.",
    ]
