"""VMs of vSphere: find one, wait for its tasks, start it, shut it down, and put its errors into sentences."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.lab.vsphere.address import parse_address
from vnetbench.lab.vsphere.session import format_fault, import_vim, open_session

TASK_TIME_LIMIT_S = 300.0
SHUTDOWN_TIME_LIMIT_S = 180.0
"""Time limit for a guest to shut down after the request."""
_POLL_INTERVAL_S = 0.1
_RUNNING_TASK_STATES = ("queued", "running")
POWERED_ON, POWERED_OFF = "poweredOn", "poweredOff"


class MissingVm(BenchError):
    """The server has no such VM, or does not show it to this user."""


@contextmanager
def open_vm(connection: str, uuid: str, name: str) -> Iterator[Any]:
    """Log in and yield the VM with this UUID (`instanceUuid`).

    Raises:
        BenchError: the server refuses a step, or shows no such VM.
    """
    with open_session(parse_address(connection)) as content, errors_of_vm(name):
        vm = content.searchIndex.FindByUuid(None, uuid, True, True)
        if vm is None:
            raise _missing_vm(name)
        yield vm


@contextmanager
def errors_of_vm(name: str) -> Iterator[None]:
    """Raise BenchError for what the server reports of a VM."""
    vim = import_vim(name)
    from pyVmomi import vmodl

    try:
        yield
    except vmodl.fault.ManagedObjectNotFound:
        raise _missing_vm(name) from None
    except vim.fault.NoPermission as error:
        raise BenchError(
            f"the user lacks the privilege {error.privilegeId} on this VM",
            where=name,
            fix="give the user a role with this privilege on the VM and its network",
        ) from None
    except HTTPException:
        raise
    except (vim.fault.VimFault, vim.RuntimeFault) as error:
        raise BenchError(
            f"vSphere refuses: {format_fault(error)}",
            where=name,
            fix="try the same in vSphere Client, and look into the VM's tasks and events",
        ) from None


def find_vm_by_name(content: Any, name: str) -> Any:
    """Return the VM with a name.

    Raises:
        BenchError: there is none, there are several, or it is a template.
    """
    vim = import_vim(name)
    view = content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True)
    try:
        found = [vm for vm in view.view if vm.name == name]
    finally:
        view.DestroyView()
    if not found:
        raise _missing_vm(name)
    if len(found) > 1:
        raise BenchError(
            f"the server has {len(found)} VMs with this name", where=name, fix="rename all of them but one"
        )
    if found[0].config is None:
        raise BenchError(
            "the server has no settings of this VM, or the user may not read them",
            where=name,
            fix="connect the VM again if it is inaccessible, and give the user a role on it",
        )
    if found[0].config.template:
        raise BenchError(
            "this is a template, which cannot run", where=name, fix="deploy a VM from it, and name that"
        )
    return found[0]


def check_can_restart(vm: Any, name: str) -> None:
    """Check that a VM can be shut down and started.

    Raises:
        BenchError: it is suspended, or runs without VMware Tools.
    """
    if vm.runtime.powerState == POWERED_OFF:
        return
    if vm.runtime.powerState != POWERED_ON:
        raise BenchError(
            "the VM is suspended, and its saved state would be lost",
            where=name,
            fix="power it on, or shut it down first",
        )
    if vm.guest is None or vm.guest.toolsRunningStatus != "guestToolsRunning":
        raise BenchError(
            "VMware Tools do not run in the guest, so that it cannot be shut down",
            where=name,
            fix="install open-vm-tools (or VMware Tools) in the guest, or shut the VM down first",
        )


def finish(task: Any, name: str) -> None:
    """Wait for a task; raise what it failed with."""
    deadline = time.monotonic() + TASK_TIME_LIMIT_S
    while (info := task.info).state in _RUNNING_TASK_STATES:
        if time.monotonic() > deadline:
            raise BenchError(
                f"a task did not end within {TASK_TIME_LIMIT_S:g} s: {info.descriptionId}",
                where=name,
                fix="look into the VM's tasks, and answer the question that vSphere Client shows",
            )
        time.sleep(_POLL_INTERVAL_S)
    if info.state == "error":
        raise info.error


def finish_earlier_tasks(vm: Any, name: str) -> None:
    """Wait for the VM's tasks that a killed bench left running, whatever their result is."""
    deadline = time.monotonic() + TASK_TIME_LIMIT_S
    while any(task.info.state in _RUNNING_TASK_STATES for task in vm.recentTask):
        if time.monotonic() > deadline:
            raise BenchError(
                "the VM has a task that does not end", where=name, fix="look into the VM's tasks"
            )
        time.sleep(_POLL_INTERVAL_S)


def start(vm: Any, name: str) -> None:
    """Start a VM."""
    finish(vm.PowerOnVM_Task(None), name)


def shut_down(vm: Any, name: str) -> None:
    """Ask the guest to shut down, and wait until it has. The bench never cuts a VM's power.

    Raises:
        BenchError: it does not shut down, or the VM cannot be restarted.
    """
    if vm.runtime.powerState == POWERED_OFF:
        return
    _wait_for_tools(vm)
    check_can_restart(vm, name)
    vm.ShutdownGuest()
    deadline = time.monotonic() + SHUTDOWN_TIME_LIMIT_S
    while vm.runtime.powerState != POWERED_OFF:
        if time.monotonic() > deadline:
            raise BenchError(
                f"the VM did not shut down within {SHUTDOWN_TIME_LIMIT_S:g} s",
                where=name,
                fix="check that Shut Down Guest OS works in vSphere Client",
            )
        time.sleep(_POLL_INTERVAL_S)


def _wait_for_tools(vm: Any) -> None:
    """Wait for the tools of a guest that may still be booting; return after the time limit of a shutdown."""
    deadline = time.monotonic() + SHUTDOWN_TIME_LIMIT_S
    while vm.guest.toolsRunningStatus != "guestToolsRunning" and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL_S)


def _missing_vm(name: str) -> MissingVm:
    return MissingVm(
        "the server has no such VM that this user may see",
        where=name,
        fix="write the name as vSphere Client shows it, and give the user a role on the VM",
    )
