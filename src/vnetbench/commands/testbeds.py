"""The work of the command group `lab`: create, list, use and remove testbeds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.table import Table

from vnetbench.commands.lab import TESTBED_SETTING_NAMES
from vnetbench.commands.temporary_results import remove_leftover_results_folders
from vnetbench.errors import BenchError
from vnetbench.lab import netlink, privilege, registry
from vnetbench.lab.control_groups import PROCS_FILE_NAME
from vnetbench.lab.domains.journal import DomainRecord, list_domain_records
from vnetbench.lab.domains.restore import restore_left_domain
from vnetbench.lab.hosts import leftovers, ssh
from vnetbench.lab.netns import holder
from vnetbench.lab.netns.testbed import create_testbed
from vnetbench.lab.netns.topology import NetnsShape, namespace_name
from vnetbench.lab.orphaned_agents import end_stopped_agents_of_ended_benches
from vnetbench.study.factors.registry import FACTORS, complete_levels, parse_level
from vnetbench.study.factors.testbed_factors import VM_PAIRS, VSWITCH
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.problems import suggest_fix


def create(testbed_name: str, settings: Sequence[str], uplink: bool, shaper: str) -> None:
    """Create a testbed and verify its path. It stays until `lab down`."""
    levels = complete_levels(dict(_parse_setting(setting) for setting in settings))
    _enter_testbed_namespaces(create=True)
    shape = NetnsShape(str(VSWITCH.read_level(levels)), int(VM_PAIRS.read_level(levels)), uplink)
    testbed = create_testbed(testbed_name, shape, "lab up")
    try:
        effective = testbed.set_knobs_and_prove_paths(levels, TestbedSpec(uplink=uplink, shaper=shaper))
    except BaseException:
        testbed.close()
        raise
    testbed.detach()
    _make_console().print(_make_endpoint_table(testbed.topology.describe()))
    first, second = testbed.topology.endpoints[0], testbed.topology.endpoints[1]
    click.echo(
        f"\nPackets of {effective['path_mtu_proved']} bytes (the MTU) pass in both directions. Commands to "
        "try:"
    )
    click.echo(f"  vnetbench lab exec {testbed_name} {first.name} -- ip -br address")
    if shutil.which("ping"):
        click.echo(f"  vnetbench lab exec {testbed_name} {first.name} -- ping -c 3 {second.address}")
    click.echo(f"  vnetbench lab down {testbed_name}")


def print_testbeds() -> None:
    """Print the testbeds of this machine and the leftovers on hosts."""
    entries = registry.list_registered_and_leftover_testbeds() if _enter_testbed_namespaces() else []
    on_hosts, vms = leftovers.list_agent_folder_records(), list_domain_records()
    if not entries and not on_hosts and not vms:
        click.echo("There are no testbeds.")
        return
    _print_changed_vms(vms)
    if on_hosts:
        table = _make_table("On host", "Created by", "In use", "Folder")
        for left in on_hosts:
            host = f"{left.host} ({left.destination or 'local'})"
            table.add_row(host, left.purpose, "a campaign" if left.is_in_use else "no", left.folder)
        _make_console().print(table)
    if not entries:
        return
    table = _make_table("Testbed", "Created by", "In use", "Endpoints")
    for entry in entries:
        used = "a campaign" if entry.is_in_use else "no" if entry.owner else "until lab down"
        table.add_row(
            entry.name,
            entry.purpose,
            used,
            ", ".join(e["name"] for e in _read_endpoint_descriptions(entry.description)),
        )
    _make_console().print(table)


def execute(testbed_name: str, endpoint: str, command: Sequence[str]) -> NoReturn:
    """Replace this process with a command that runs on an endpoint of a testbed."""
    _enter_namespaces_or_fail(testbed_name)
    guests = registry.find_testbed(testbed_name).description.get("guests")
    if isinstance(guests, list) and endpoint in guests:
        raise BenchError(
            f"{endpoint} is a guest, and guests contain no program but the agent",
            where=testbed_name,
            fix=f"read its console log: {registry.ensure_testbed_folder(testbed_name) / endpoint}.console",
        )
    prefix = namespace_name(testbed_name, "")
    parts = sorted(n.removeprefix(prefix) for n in netlink.list_namespaces() if n.startswith(prefix))
    if endpoint not in parts:
        raise BenchError(
            f"{testbed_name} has no endpoint {endpoint}, only {', '.join(parts)}",
            where=testbed_name,
            fix=f"vnetbench lab exec {testbed_name} {min(parts, default='a1')} -- COMMAND",
        )
    if shutil.which(command[0]) is None:
        raise BenchError(
            "the program was not found", where=command[0], fix="install the program, or write its full path"
        )
    # Processes that the command starts inherit this variable, so that `lab down` ends them too.
    os.environ[registry.PROCESS_LABEL] = testbed_name
    os.execvp("ip", ["ip", "netns", "exec", namespace_name(testbed_name, endpoint), *command])


def remove(names: Sequence[str], remove_all: bool) -> int:
    """Remove testbeds and end the processes in them; return 1 if a process does not end."""
    if not names and not remove_all:
        raise BenchError(
            "no testbed is named",
            fix="name a testbed (vnetbench lab down NAME), or use --all. vnetbench lab ls lists the testbeds",
        )
    if remove_all:
        return 0 if _try_to_remove_unused_testbeds() else 1
    _enter_namespaces_or_fail(names[0])
    is_clean = True
    for name in names:
        entry = registry.find_testbed(name)
        if entry.is_in_use:
            raise BenchError(
                f"a campaign uses this testbed (process {entry.owner.split(':')[0]})", where=name,
                fix="stop the campaign with Ctrl-C in its terminal",
            )  # fmt: skip
        if _try_to_remove_testbed(name):
            click.echo(f"Removed {name}.")
        else:
            is_clean = False
    _end_empty_holder()
    return 0 if is_clean else 1


def clean() -> int:
    """Remove what no running campaign uses, also on hosts; return 1 if something could not be removed."""
    # ssh cannot identify the user inside a user namespace, so hosts are cleaned outside only.
    is_clean = privilege.is_in_user_namespace() or _try_to_clean_hosts()
    # The VMs come after the hosts: a VM that is shut down cannot be reached over SSH.
    is_clean &= _try_to_restore_vms()
    if ended := end_stopped_agents_of_ended_benches():
        click.echo(f"Ended {ended} stopped {'agents' if ended > 1 else 'agent'} of killed campaigns.")
    if removed := remove_leftover_results_folders():
        click.echo(f"Removed the results of {removed} killed {'checks' if removed > 1 else 'check'}.")
    is_clean &= _try_to_remove_unused_testbeds()
    return 0 if is_clean else 1


def _try_to_clean_hosts() -> bool:
    """Remove leftovers on hosts, and return whether all that are not in use are gone."""
    ssh.remove_leftover_socket_folders()
    is_clean = True
    for left in leftovers.list_agent_folder_records():
        if left.is_in_use:
            click.echo(f"Kept {left}, because process {left.owner.split(':')[0]} uses it.")
            continue
        try:
            leftovers.restore_host_and_remove_agent_folder(left)
            click.echo(f"Removed {left}.")
        except BenchError as error:
            is_clean = False
            click.echo(f"Cannot remove {left}:\n  {error}", err=True)
    return is_clean


def _try_to_restore_vms() -> bool:
    """Restore the VMs that killed campaigns left changed, and return whether that succeeded for all."""
    is_clean = True
    for record in list_domain_records():
        if isinstance(record, BenchError):
            is_clean = False
            click.echo(str(record), err=True)
        elif record.is_in_use:
            click.echo(f"Kept the settings of {record}: process {record.owner.split(':')[0]} uses it.")
        else:
            try:
                if restore_left_domain(record):
                    click.echo(f"Restored {record}.")
            except BenchError as error:
                is_clean = False
                click.echo(f"Cannot restore {record}:\n  {error}", err=True)
    return is_clean


def _print_changed_vms(records: Sequence[DomainRecord | BenchError]) -> None:
    if not records:
        return
    table = _make_table("Changed VM", "Changed by", "In use", "Connection")
    for record in records:
        if isinstance(record, BenchError):
            click.echo(str(record), err=True)
        else:
            used = "a campaign" if record.is_in_use else "no"
            table.add_row(record.domain, record.purpose, used, record.connection)
    if table.row_count:
        _make_console().print(table)


def _try_to_remove_testbed(testbed_name: str) -> bool:
    """Remove a testbed, print the control groups that remain, and return whether none does."""
    remaining_groups = registry.remove_testbed_and_list_remaining_groups(testbed_name)
    for group in remaining_groups:
        click.echo(
            f"Cannot remove the control group {group} of the testbed {testbed_name}: "
            "a process in it does not end.\n"
            f"  fix: end the processes listed in {group / PROCS_FILE_NAME}, then run vnetbench lab clean",
            err=True,
        )
    return not remaining_groups


def _try_to_remove_unused_testbeds() -> bool:
    """Remove all testbeds that no campaign uses, and return whether all of them are gone."""
    if not _enter_testbed_namespaces():
        ended = registry.terminate_processes_without_holder()
        click.echo(f"Ended {ended} of removed testbeds." if ended else "No testbed needs to be removed.")
        return True
    entries = registry.list_registered_and_leftover_testbeds()
    unused = [entry.name for entry in entries if not entry.is_in_use]
    removed = [name for name in unused if _try_to_remove_testbed(name)]
    if removed or not unused:
        click.echo(f"Removed {', '.join(removed)}." if removed else "No testbed needs to be removed.")
    for entry in entries:
        if entry.is_in_use:
            click.echo(f"Kept the testbed {entry.name}, because process {entry.owner.split(':')[0]} uses it.")
    _end_empty_holder()
    return removed == unused


def _end_empty_holder() -> None:
    if privilege.is_in_user_namespace() and not registry.list_registered_and_leftover_testbeds():
        holder.stop_holder()


def _enter_testbed_namespaces(*, create: bool = False) -> bool:
    """Enter the namespaces of the user's testbeds; return False if there are none and `create` is False."""
    if privilege.has_root_outside_user_namespace():
        return True
    if privilege.is_in_user_namespace():
        privilege.restore_working_folder()
        return True
    if create:
        privilege.check_user_namespaces()
    pid = holder.find_or_start_holder() if create else holder.find_holder()
    if pid is None:
        return False
    privilege.restart_in_namespaces(pid, {holder.HOLDER_FILE_ENV: str(holder.holder_file())})
    return True


def _enter_namespaces_or_fail(testbed_name: str) -> None:
    if not _enter_testbed_namespaces():
        raise BenchError(
            f"there is no testbed named {testbed_name}",
            fix=f"create the testbed: vnetbench lab up {testbed_name}",
        )


def _parse_setting(setting: str) -> tuple[str, Level]:
    name, equals, text = setting.partition("=")
    name = name.strip()
    if not equals:
        what = f"{setting!r} does not have the form FACTOR=LEVEL"
    elif name in FACTORS and name not in TESTBED_SETTING_NAMES:
        what = f"{name} is a setting of a trial, not of a testbed"
    elif name not in TESTBED_SETTING_NAMES:
        what = f"{name} is not a setting of a testbed"
    else:
        return name, parse_level(name, text.strip())
    raise BenchError(
        what,
        where="--set",
        fix=suggest_fix(name, TESTBED_SETTING_NAMES, otherwise=f"one of {', '.join(TESTBED_SETTING_NAMES)}"),
    )


def _read_endpoint_descriptions(description: dict[str, Any]) -> list[dict[str, Any]]:
    return list(description.get("endpoints", []))


def _make_endpoint_table(description: dict[str, Any]) -> Table:
    table = _make_table("Endpoint", "Interface", "Address", "Namespace")
    for e in _read_endpoint_descriptions(description):
        table.add_row(e["name"], e["interface"], e["address"], e["namespace"])
    return table


def _make_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _make_console() -> Console:
    return Console(highlight=False, emoji=False)
