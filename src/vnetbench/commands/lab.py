"""The command `lab`: testbeds to play in, and the removal of what a killed bench left.

What it does is in `testbeds`, imported when it is done: `vnetbench --help` needs only the sentences here.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

BED_FACTORS = (
    "pairs", "vswitch", "mtu", "link_rate", "tso", "gso", "uso", "gro", "checksum_offload", "queues",
    "irq_cpus",
)  # fmt: skip
"""The factors that are settings of a testbed; the others belong to a trial."""


@click.group()
def lab() -> None:
    """A testbed to play in: namespaces as VMs on a virtual switch."""


@lab.command()
@click.argument("name")
@click.option(
    "--set", "settings", multiple=True, metavar="FACTOR=LEVEL", help=f"Any of {', '.join(BED_FACTORS)}."
)
@click.option(
    "--uplink", is_flag=True, help="Two virtual switches joined by an uplink, a VM of each pair on each."
)
@click.option("--shaper", type=click.Choice(["tbf", "htb"]), default="tbf", help="What shapes link_rate.")
def up(name: str, settings: Sequence[str], uplink: bool, shaper: str) -> None:  # fmt: skip
    """Build the testbed NAME; it stays until `lab down`."""
    from vnetbench.commands import testbeds

    testbeds.up(name, settings, uplink, shaper)


@lab.command("ls")
def list_testbeds() -> None:
    """List the testbeds of this machine."""
    from vnetbench.commands import testbeds

    testbeds.tell()


@lab.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("endpoint")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def execute(name: str, endpoint: str, command: Sequence[str]) -> None:
    """Run COMMAND on an ENDPOINT (a1, b1, …; sw: the virtual switch) of the testbed NAME."""
    from vnetbench.commands import testbeds

    testbeds.execute(name, endpoint, command)


@lab.command()
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every testbed that no campaign uses.")
def down(names: Sequence[str], everything: bool) -> int:
    """Remove testbeds, and what runs in them.

    Exits with 1 where a process does not end.
    """
    from vnetbench.commands import testbeds

    return testbeds.down(names, everything)


@lab.command()
def clean() -> int:
    """Remove every testbed that no campaign at work uses, also what a killed bench left on hosts.

    Exits with 1 where a host cannot be reached, something cannot be put back there, or a process stays.
    """
    from vnetbench.commands import testbeds

    return testbeds.clean()
