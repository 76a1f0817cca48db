"""The command group `lab`: create, list and remove testbeds by hand.

The work is in `testbeds`, which is imported only when a command runs, so that `vnetbench --help` is fast.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from vnetbench.study.factors.registry import FACTORS

TESTBED_SETTING_NAMES = tuple(factor.name for factor in FACTORS.values() if factor.is_testbed_setting)
"""Factors that are settings of a testbed. All other factors are settings of a trial."""


@click.group("lab")
def lab_group() -> None:
    """Create and use testbeds by hand: network namespaces as VMs on a virtual switch."""


@lab_group.command()
@click.argument("name")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FACTOR=LEVEL",
    help=f"One of {', '.join(TESTBED_SETTING_NAMES)}.",
)
@click.option(
    "--uplink",
    is_flag=True,
    help="Use two virtual switches with an uplink between them. Each pair has one VM on each switch.",
)
@click.option(
    "--shaper", type=click.Choice(["tbf", "htb"]), default="tbf", help="Queueing discipline for link_rate."
)
def up(name: str, settings: Sequence[str], uplink: bool, shaper: str) -> None:  # fmt: skip
    """Create the testbed NAME. It stays until `lab down`."""
    from vnetbench.commands import testbeds

    testbeds.create(name, settings, uplink, shaper)


@lab_group.command("ls")
def list_testbeds() -> None:
    """List the testbeds of this machine."""
    from vnetbench.commands import testbeds

    testbeds.print_testbeds()


@lab_group.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("endpoint")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def execute(name: str, endpoint: str, command: Sequence[str]) -> None:
    """Run COMMAND on an ENDPOINT (a1, b1, …, or sw for the virtual switch) of the testbed NAME."""
    from vnetbench.commands import testbeds

    testbeds.execute(name, endpoint, command)


@lab_group.command()
@click.argument("names", nargs=-1)
@click.option("--all", "remove_all", is_flag=True, help="Remove every testbed that no campaign uses.")
def down(names: Sequence[str], remove_all: bool) -> int:
    """Remove testbeds and end the processes in them.

    The exit code is 1 if a process does not end.
    """
    from vnetbench.commands import testbeds

    return testbeds.remove(names, remove_all)


@lab_group.command()
def clean() -> int:
    """Remove every testbed that no running campaign uses, and leftovers of killed campaigns on hosts.

    It also restores the VMs that killed campaigns of the lab libvirt changed.

    The exit code is 1 if a host or a hypervisor is unreachable, a setting cannot be restored, or a process
    does not end.
    """
    from vnetbench.commands import testbeds

    return testbeds.clean()
