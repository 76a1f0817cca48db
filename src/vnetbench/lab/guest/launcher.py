"""Starts guests: booted, or resumed from a snapshot of one that was, so that a shape is booted once."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import greet
from vnetbench.agents.transport import SocketTransport
from vnetbench.lab import netlink, registry
from vnetbench.lab.guest import network, snapshot
from vnetbench.lab.guest.hardware import Files, Hardware, Software, command_line
from vnetbench.lab.guest.qemu import Qemu
from vnetbench.lab.guest.qemu_process import Machine, MachineEnded
from vnetbench.lab.guest.qmp import MonitorError
from vnetbench.lab.guest.snapshot import NotResumed
from vnetbench.lab.guest.topology import BRIDGE, ROUTER, Guest, GuestTestbed

BOOT, RESUME = "boot", "resume"
BOOTING_TIMEOUT_S = 240.0
"""Under TCG a boot takes some 14 s of a CPU, and many guests may share few."""
GREETING_TIMEOUT_S = 60.0
"""Of a resumed guest, which takes half a second where it has a CPU."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Parts:
    """What every guest is made of, whatever its testbed."""

    qemu: Qemu
    software: Software


@dataclass(frozen=True)
class Running:
    """A guest at work."""

    guest: Guest
    machine: Machine
    transport: SocketTransport
    agent: AgentClient
    started_by: str
    """`boot` or `resume`."""
    started_s: float
    """From starting QEMU until the agent answered."""

    def close(self) -> None:
        """End it."""
        self.machine.close()
        self.agent.close()


class Starter:
    """Starts the guests of testbeds, and remembers what cannot be kept as a file."""

    def __init__(self, parts: Parts, say: Say, keeps: bool = True) -> None:
        """`say` takes a sentence for the user; without `keeps` every guest boots."""
        self._parts = parts
        self._say = say
        self._keeps = keeps
        self._not_kept: set[Hardware] = set()

    def start(self, testbed: GuestTestbed, hardware: Hardware) -> list[Running]:
        """All guests of a testbed, each told who it is. Raises TrialFailed, AgentError, BenchError."""
        running = self._all(testbed, hardware)
        try:
            for each in running:
                greet(each.agent)
            told = [
                (each, each.agent.send("guest.configure", **_who(testbed, each.guest))) for each in running
            ]
            for each, future in told:
                each.agent.wait(future, "guest.configure")
        except BaseException:
            close_all(running)
            raise
        return running

    def _all(self, testbed: GuestTestbed, hardware: Hardware) -> list[Running]:
        if not (self._keeps and hardware.can_be_kept) or hardware in self._not_kept:
            return self._side_by_side(testbed, hardware, None)
        path = snapshot.place(self._parts.qemu.version, hardware, self._parts.software)
        is_new = not path.exists()
        try:
            if is_new:
                self._boot_and_keep(testbed, hardware, path)
            return self._side_by_side(testbed, hardware, path)
        except MonitorError as error:
            self._not_kept.add(hardware)
            self._say(f"guests with {testbed.shape.adapter} boot each time: {error}")
        except NotResumed as error:
            path.unlink(missing_ok=True)
            if is_new:
                self._not_kept.add(hardware)
            self._say(f"a snapshot did not resume and was thrown away: {error}")
        return self._all(testbed, hardware)

    def _boot_and_keep(self, testbed: GuestTestbed, hardware: Hardware, path: Path) -> None:
        """Boot one guest alone, keep it as a file, and end it: all guests of its kind come from there.

        Raises MonitorError where QEMU cannot keep it.
        """
        running = self._one(testbed, testbed.guests[0], hardware, None, [])
        try:
            # The bench leaves first: in the snapshot nobody is there.
            running.transport.close()
            began = time.monotonic()
            snapshot.save(running.machine, path)
            self._say(
                f"a guest with {testbed.shape.adapter} booted in {running.started_s:.1f} s"
                f" and was kept in {time.monotonic() - began:.1f} s; more of its kind resume from it"
            )
        finally:
            running.close()

    def _side_by_side(self, testbed: GuestTestbed, hardware: Hardware, path: Path | None) -> list[Running]:
        starting: list[Machine] = []
        with ThreadPoolExecutor(len(testbed.guests)) as pool:
            pending = [
                pool.submit(self._one, testbed, guest, hardware, path, starting) for guest in testbed.guests
            ]
            try:
                wait(pending)
            except BaseException:
                # The user leaves: what still waits for a guest must not keep them.
                for future in pending:
                    future.cancel()
                for machine in starting:
                    machine.kill("it was given up")
                raise
        faults = [fault for future in pending if (fault := future.exception())]
        if faults:
            close_all(future.result() for future in pending if not future.exception())
            raise faults[0]
        return [future.result() for future in pending]

    def _one(
        self,
        testbed: GuestTestbed,
        guest: Guest,
        hardware: Hardware,
        path: Path | None,
        starting: list[Machine],
    ) -> Running:
        """One guest, resumed from `path` or booted; its machine is in `starting` as soon as there is one."""
        files = Files(registry.folder(testbed.name), guest.name)
        began = time.monotonic()
        with network.plugs(testbed, guest) as plugs:
            command = command_line(
                self._parts.qemu.path, hardware, self._parts.software, plugs, files, waiting=path is not None
            )
            command = ["ip", "netns", "exec", testbed.switch_namespace, *command]
            opened = [descriptor for plug in plugs for descriptor in plug.descriptors]
            machine = Machine(command, files, testbed.name, opened)
        starting.append(machine)
        try:
            if path is not None:
                snapshot.resume(machine, path)
            transport = reach_agent(machine, GREETING_TIMEOUT_S if path else BOOTING_TIMEOUT_S)
        except MachineEnded as error:
            machine.close()
            raise (NotResumed(str(error)) if path else error) from error
        except BaseException:
            machine.close()
            raise
        how, took_s = RESUME if path else BOOT, time.monotonic() - began
        return Running(guest, machine, transport, AgentClient(guest.name, transport), how, took_s)


def reach_agent(machine: Machine, timeout_s: float) -> SocketTransport:
    """The line to a guest's agent once it answers; raises MachineEnded with the console's last lines."""
    name = machine.files.name
    try:
        return SocketTransport(machine.files.agent, machine.how_it_ended, timeout_s)
    except TimeoutError:
        machine.kill(f"its agent did not answer within {timeout_s:g} s")
        raise MachineEnded(f"{name}: {machine.how_it_ended()}") from None
    except OSError:
        raise MachineEnded(f"{name}: {machine.how_it_ended()}") from None


def close_all(running: Iterable[Running]) -> None:
    """End guests, all at once."""
    ending = list(running)
    for each in ending:
        each.machine.kill("it was ended")
    for each in ending:
        each.close()


def _who(testbed: GuestTestbed, guest: Guest) -> dict[str, object]:
    """What `guest.configure` tells a guest. No two guests read one clock."""
    forwarding = testbed.shape.role if testbed.shape.role in (ROUTER, BRIDGE) else "none"
    return {
        "host_name": guest.name,
        "clock": f"{testbed.name}/{guest.name}/{secrets.token_hex(8)}",
        "forwarding": forwarding,
        "interfaces": [
            {
                "match": {"index": number}, "name": nic.interface, "mac": nic.mac or None,
                "addresses": list(nic.addresses), "up": True, "neighbours": _neighbours(testbed, guest, side),
            }
            for number, (side, nic) in enumerate(zip("ab", guest.nics, strict=False))
        ],
    }  # fmt: skip


def _neighbours(testbed: GuestTestbed, guest: Guest, side: str) -> list[dict[str, str]]:
    """Whom a router need not ask for on one side: nobody may answer while frames come."""
    if testbed.shape.role != ROUTER:
        return []
    (end,) = (vm for vm in testbed.vms if vm.pair == guest.pair and vm.side == side)
    mac = netlink.mac_of(*end.device.place)
    return [{"address": address, "mac": mac} for address in (end.address, end.address6)]
