"""The command `guest`: what guests are made of, got and kept.

What it does is in `guest_needs`, imported when it is done: `vnetbench --help` needs only the sentences here.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from vnetbench.lab.guest import hardware
from vnetbench.lab.guest.topology import GuestShape
from vnetbench.study.factors.guest_factors import ADAPTERS

_KEPT = tuple(name for name in ADAPTERS if GuestShape(name).hardware(hardware.TCG).can_be_kept)
"""The adapters that a guest can be kept with; a `vf` also needs a study to name its `vf_of`."""


@click.group()
def guest() -> None:
    """Guests of the lab qemu: virtual machines with real adapters and their real drivers."""


@guest.command()
@click.argument("adapters", nargs=-1, type=click.Choice(_KEPT))
@click.option("--again", is_flag=True, help="Fetch the kernel anew, and forget the guests that were kept.")
def prepare(adapters: Sequence[str], again: bool) -> None:
    """Fetch and build what guests need, boot one with each of ADAPTERS and keep it. `run` does so too."""
    from vnetbench.commands import guest_setup

    guest_setup.prepare(adapters, again)
