"""What the command `lab` does: testbeds made, told and removed, with what a killed bench left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from vnetbench.commands.lab import BED_FACTORS
from vnetbench.errors import BenchError
from vnetbench.lab import netlink, privilege, registry
from vnetbench.lab.hosts import ssh
from vnetbench.lab.hosts import leftovers
from vnetbench.lab.netns import holder
from vnetbench.lab.cpu_quota import PROCESSES
from vnetbench.lab.netns.topology import Shape, namespace
from vnetbench.lab.netns.testbed import raise_bed
from vnetbench.study.factors.registry import FACTORS, complete, parse_level
from vnetbench.study.model import Level, TestbedAsked
from vnetbench.study.problems import suggest


def up(name: str, settings: Sequence[str], uplink: bool, shaper: str) -> None:
    """Build a testbed and prove its path; it stays until `lab down`."""
    levels = complete(dict(_level(setting) for setting in settings))
    _enter(begin=True)
    shape = Shape(str(levels["vswitch"]), int(levels["pairs"]), uplink)
    bed = raise_bed(name, shape, "lab up")
    try:
        found = bed.apply(levels, TestbedAsked(uplink=uplink, shaper=shaper))
    except BaseException:
        bed.close()
        raise
    bed.leave()
    _console().print(_endpoints_table(bed.testbed.as_facts()))
    first, second = bed.testbed.endpoints[0], bed.testbed.endpoints[1]
    click.echo(f"\nMTU {found['path_mtu_proved']} proved both ways. Try:")
    click.echo(f"  vnetbench lab exec {name} {first.name} -- ip -br address")
    if shutil.which("ping"):
        click.echo(f"  vnetbench lab exec {name} {first.name} -- ping -c 3 {second.address}")
    click.echo(f"  vnetbench lab down {name}")


def tell() -> None:
    """Print the testbeds of this machine."""
    entries = registry.entries() if _enter() else []
    on_hosts = leftovers.entries()
    if not entries and not on_hosts:
        click.echo("there is no testbed")
        return
    if on_hosts:
        table = _table("On host", "Made by", "In use", "Folder")
        for left in on_hosts:
            host = f"{left.host} ({left.destination or 'local'})"
            table.add_row(host, left.purpose, "a campaign" if left.in_use else "no", left.folder)
        _console().print(table)
    if not entries:
        return
    table = _table("Testbed", "Made by", "In use", "Endpoints")
    for entry in entries:
        used = "a campaign" if entry.in_use else "no" if entry.owner else "until lab down"
        table.add_row(
            entry.name, entry.purpose, used, ", ".join(e["name"] for e in _endpoints(entry.description))
        )
    _console().print(table)


def execute(name: str, endpoint: str, command: Sequence[str]) -> None:
    """Become the command, on an endpoint of a testbed."""
    _enter_for(name)
    guests = registry.entry(name).description.get("guests")
    if isinstance(guests, list) and endpoint in guests:
        raise BenchError(
            f"{endpoint} is a guest, which has no programs but the agent",
            where=name,
            fix=f"what its kernel says: {registry.folder(name) / endpoint}.console",
        )
    prefix = namespace(name, "")
    parts = sorted(n.removeprefix(prefix) for n in netlink.namespaces() if n.startswith(prefix))
    if endpoint not in parts:
        raise BenchError(
            f"{name} has no endpoint {endpoint} (it has: {', '.join(parts)})",
            where=name,
            fix=f"vnetbench lab exec {name} {min(parts, default='a1')} -- COMMAND",
        )
    if shutil.which(command[0]) is None:
        raise BenchError(
            "there is no such program", where=command[0], fix="install it, or give its whole path"
        )
    # What it starts carries the testbed's name, so that `lab down` ends it too.
    os.environ[registry.PROCESS_LABEL] = name
    os.execvp("ip", ["ip", "netns", "exec", namespace(name, endpoint), *command])


def down(names: Sequence[str], everything: bool) -> int:
    """Remove testbeds, and what runs in them; 1 where a process does not end."""
    if not names and not everything:
        raise BenchError(
            "which testbed?", fix="vnetbench lab down NAME, or --all; vnetbench lab ls lists them"
        )
    if everything:
        return 0 if _remove_unused() else 1
    _enter_for(names[0])
    is_clean = True
    for name in names:
        entry = registry.entry(name)
        if entry.in_use:
            raise BenchError(
                f"a campaign is at work on it (process {entry.owner.split(':')[0]})", where=name,
                fix="stop that with Ctrl-C where it runs",
            )  # fmt: skip
        if _remove(name):
            click.echo(f"{name} removed")
        else:
            is_clean = False
    _end_empty_holder()
    return 0 if is_clean else 1


def clean() -> int:
    """Remove what no campaign at work uses, also on hosts; 1 where something of that stays."""
    # Not inside the namespaces of a user: ssh would not know there who the user is.
    is_clean = privilege.is_inside() or _clean_hosts()
    is_clean &= _remove_unused()
    return 0 if is_clean else 1


def _clean_hosts() -> bool:
    """Whether no host is left with anything that is not in use."""
    ssh.remove_left()
    is_clean = True
    for left in leftovers.entries():
        if left.in_use:
            click.echo(f"left alone: {left}, in use by process {left.owner.split(':')[0]}")
            continue
        try:
            leftovers.clean(left)
            click.echo(f"removed: {left}")
        except BenchError as error:
            is_clean = False
            click.echo(f"not removed: {left}\n  {error}", err=True)
    return is_clean


def _remove(name: str) -> bool:
    """Whether nothing is left of a testbed; what is, is told."""
    stays = registry.remove(name)
    for group in stays:
        click.echo(
            f"not removed: {group} of {name}: a process in it does not end\n"
            f"  fix: vnetbench lab clean, once those that {group / PROCESSES} names are gone",
            err=True,
        )
    return not stays


def _remove_unused() -> bool:
    """Whether nothing is left of what no campaign uses."""
    if not _enter():
        ended = registry.end_orphans()
        click.echo(f"ended {ended} left over from testbeds that are gone" if ended else "nothing to remove")
        return True
    entries = registry.entries()
    unused = [entry.name for entry in entries if not entry.in_use]
    removed = [name for name in unused if _remove(name)]
    if removed or not unused:
        click.echo(f"removed: {', '.join(removed)}" if removed else "nothing to remove")
    for entry in entries:
        if entry.in_use:
            click.echo(f"left alone: {entry.name}, in use by process {entry.owner.split(':')[0]}")
    _end_empty_holder()
    return removed == unused


def _end_empty_holder() -> None:
    if privilege.is_inside() and not registry.entries():
        holder.end()


def _enter(*, begin: bool = False) -> bool:
    """Get to where the user's testbeds are; False when there is no such place, and none is to be made."""
    if privilege.has_root():
        return True
    if privilege.is_inside():
        privilege.return_to_folder()
        return True
    if begin:
        privilege.check_user_namespaces()
    pid = holder.find_or_begin() if begin else holder.find()
    if pid is None:
        return False
    privilege.enter(pid, {holder.FILE: str(holder.holder_file())})
    return True


def _enter_for(name: str) -> None:
    if not _enter():
        raise BenchError(f"there is no testbed named {name} (there are: none)", fix="vnetbench lab up NAME")


def _level(setting: str) -> tuple[str, Level]:
    name, sign, text = setting.partition("=")
    name = name.strip()
    if not sign:
        wrong = f"{setting!r} is not FACTOR=LEVEL"
    elif name in FACTORS and name not in BED_FACTORS:
        wrong = f"{name} is set trial by trial, not in a testbed"
    elif name not in BED_FACTORS:
        wrong = f"{name} is no setting of a testbed"
    else:
        return name, parse_level(name, text.strip())
    raise BenchError(
        wrong, where="--set", fix=suggest(name, BED_FACTORS, otherwise=f"one of {', '.join(BED_FACTORS)}")
    )


def _endpoints(description: dict[str, Any]) -> list[dict[str, Any]]:
    return list(description.get("endpoints", []))


def _endpoints_table(description: dict[str, Any]) -> Table:
    table = _table("Endpoint", "Interface", "Address", "Namespace")
    for e in _endpoints(description):
        table.add_row(e["name"], e["interface"], e["address"], e["namespace"])
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _console() -> Console:
    return Console(highlight=False)
