"""The command group `guest`.

The work is in `guest_setup`, which is imported only when a command runs, so that `vnetbench --help` is fast.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from vnetbench.lab.guest import hardware
from vnetbench.lab.guest.topology import GuestShape
from vnetbench.study.factors.guest_factors import ADAPTERS

_SNAPSHOT_ADAPTERS = tuple(name for name in ADAPTERS if GuestShape(name).hardware(hardware.TCG).can_snapshot)
"""Adapters whose guests can be saved and resumed. `vf` also needs a study that names its `vf_interface`."""


@click.group("guest")
def guest_group() -> None:
    """Prepare the virtual machines (guests) of the lab qemu."""


@guest_group.command()
@click.argument("adapters", nargs=-1, type=click.Choice(_SNAPSHOT_ADAPTERS))
@click.option("--again", is_flag=True, help="Download the kernel again and discard the saved guests.")
def prepare(adapters: Sequence[str], again: bool) -> None:
    """Download and build what guests need, then boot and save one guest for each of ADAPTERS.

    `run` does the same when a study needs a guest.
    """
    from vnetbench.commands import guest_setup

    guest_setup.prepare(adapters, again)
