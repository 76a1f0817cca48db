"""Starts guests. Only the first guest of a shape boots; the others resume from its snapshot."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vnetbench import cleanup
from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import check_protocol_version
from vnetbench.agents.transport import SocketTransport
from vnetbench.lab import netlink, registry
from vnetbench.lab.endpoint import SIDES
from vnetbench.lab.guest import network, snapshot
from vnetbench.lab.guest.hardware import (
    NEW_GENERATION,
    BootImages,
    Hardware,
    QemuRuntimeFiles,
    qemu_command,
)
from vnetbench.lab.guest.qemu import Qemu
from vnetbench.lab.guest.qemu_process import QemuEnded, QemuProcess
from vnetbench.lab.guest.qmp import MonitorError
from vnetbench.lab.guest.snapshot import ResumeFailed
from vnetbench.lab.guest.topology import BRIDGE, ROUTER, Guest, GuestTopology

BOOT, RESUME = "boot", "resume"
BOOT_TIMEOUT_S = 240.0
"""Time limit of a boot, which takes some 14 s of CPU time under TCG while many guests may share few CPUs."""
RESUME_TIMEOUT_S = 60.0
"""Time limit of resuming a guest, which takes half a second if it has a CPU."""

Notify = Callable[[str], None]


@dataclass(frozen=True)
class GuestSoftware:
    """The software that every guest of every testbed uses."""

    qemu: Qemu
    boot_images: BootImages


@dataclass(frozen=True)
class RunningGuest:
    """A running guest."""

    guest: Guest
    process: QemuProcess
    transport: SocketTransport
    agent: AgentClient
    start_method: str
    """`boot` or `resume`."""
    start_duration_s: float
    """Time from starting QEMU until the agent answered."""

    def close(self) -> None:
        """End the guest."""
        cleanup.run_all_despite_errors((self.process.close, self.agent.close))


class GuestLauncher:
    """Starts the guests of testbeds and remembers which hardware supports no snapshots."""

    def __init__(self, software: GuestSoftware, notify: Notify, uses_snapshots: bool = True) -> None:
        """Start guests with this software; `notify` receives messages for the user."""
        self._software = software
        self._notify = notify
        self._uses_snapshots = uses_snapshots
        self._without_snapshot: set[Hardware] = set()

    def start(self, topology: GuestTopology, hardware: Hardware) -> list[RunningGuest]:
        """Start and configure all guests of a testbed. Raises TrialFailed, AgentError or BenchError."""
        running = self._launch_all(topology, hardware)
        try:
            for each in running:
                check_protocol_version(each.agent)
            pending = [
                (each, each.agent.send("guest.configure", **_guest_configuration(topology, each.guest)))
                for each in running
            ]
            for each, future in pending:
                each.agent.wait(future, "guest.configure")
        except BaseException:
            close_guests(running)
            raise
        return running

    def start_migration_target(
        self, topology: GuestTopology, hardware: Hardware, guest: Guest, file_stem: str, generation_id: str
    ) -> QemuProcess:
        """Start a QEMU that waits for a running guest.

        Args:
            topology: The testbed.
            hardware: The guest's hardware.
            guest: The guest, with the ports of the new QEMU.
            file_stem: Name of the new QEMU and its files.
            generation_id: The generation id of the guest.

        Raises:
            QemuEnded: QEMU does not start.
            BenchError: The system refuses.
        """
        return self._start_qemu(topology, guest, hardware, file_stem, True, generation_id)

    def _launch_all(self, topology: GuestTopology, hardware: Hardware) -> list[RunningGuest]:
        if not (self._uses_snapshots and hardware.can_snapshot) or hardware in self._without_snapshot:
            return self._launch_in_parallel(topology, hardware, None)
        path = snapshot.snapshot_path(self._software.qemu.version, hardware, self._software.boot_images)
        is_new = not path.exists()
        try:
            if is_new:
                self._boot_and_snapshot(topology, hardware, path)
            return self._launch_in_parallel(topology, hardware, path)
        except MonitorError as error:
            self._without_snapshot.add(hardware)
            self._notify(
                f"guests with {topology.shape.adapter} boot every time, because a guest cannot be saved "
                f"({error})"
            )
        except ResumeFailed as error:
            path.unlink(missing_ok=True)
            if is_new:
                self._without_snapshot.add(hardware)
            self._notify(f"discarded the snapshot of a guest that could not be resumed ({error})")
        return self._launch_all(topology, hardware)

    def _boot_and_snapshot(self, topology: GuestTopology, hardware: Hardware, snapshot_path: Path) -> None:
        """Boot one guest, save its state, and end it; all guests of the same hardware resume from there.

        Raises:
            MonitorError: if QEMU cannot save the state.
        """
        running = self._launch_guest(topology, topology.guests[0], hardware, None, [])
        try:
            # Disconnect first, so that the snapshot holds no connection.
            running.transport.close()
            began = time.monotonic()
            snapshot.save_snapshot(running.process, snapshot_path)
            self._notify(
                f"booted a guest with {topology.shape.adapter} in {running.start_duration_s:.1f} s and "
                f"saved it in {time.monotonic() - began:.1f} s; other guests with this adapter resume from "
                "the saved guest"
            )
        finally:
            running.close()

    def _launch_in_parallel(
        self, topology: GuestTopology, hardware: Hardware, snapshot_path: Path | None
    ) -> list[RunningGuest]:
        started: list[QemuProcess] = []
        with ThreadPoolExecutor(len(topology.guests)) as pool:
            pending = [
                pool.submit(self._launch_guest, topology, guest, hardware, snapshot_path, started)
                for guest in topology.guests
            ]
            try:
                wait(pending)
            except BaseException:
                # The user interrupts: end the guests, for which the pool's threads would wait.
                for future in pending:
                    future.cancel()
                for process in started:
                    process.kill("the start of the guest was interrupted")
                raise
        errors = [error for future in pending if (error := future.exception())]
        if errors:
            close_guests(future.result() for future in pending if not future.exception())
            raise errors[0]
        return [future.result() for future in pending]

    def _launch_guest(
        self,
        topology: GuestTopology,
        guest: Guest,
        hardware: Hardware,
        snapshot_path: Path | None,
        started: list[QemuProcess],
    ) -> RunningGuest:
        """Resume one guest from `path` or boot it; its process is in `started` as soon as it runs."""
        began = time.monotonic()
        process = self._start_qemu(topology, guest, hardware, guest.name, snapshot_path is not None)
        started.append(process)
        try:
            if snapshot_path is not None:
                snapshot.resume_snapshot(process, snapshot_path)
            transport = connect_agent(process, RESUME_TIMEOUT_S if snapshot_path else BOOT_TIMEOUT_S)
        except QemuEnded as error:
            process.close()
            raise (ResumeFailed(str(error)) if snapshot_path else error) from error
        except BaseException:
            process.close()
            raise
        method, duration_s = RESUME if snapshot_path else BOOT, time.monotonic() - began
        return RunningGuest(guest, process, transport, AgentClient(guest.name, transport), method, duration_s)

    def _start_qemu(
        self,
        topology: GuestTopology,
        guest: Guest,
        hardware: Hardware,
        file_stem: str,
        awaits_snapshot: bool,
        generation_id: str = NEW_GENERATION,
    ) -> QemuProcess:
        files = QemuRuntimeFiles(registry.ensure_testbed_folder(topology.testbed_name), file_stem)
        with network.open_backends(topology, guest) as backends:
            command = qemu_command(
                self._software.qemu.path,
                hardware,
                self._software.boot_images,
                backends,
                files,
                awaits_snapshot=awaits_snapshot,
                is_sandboxed=self._software.qemu.has_sandbox,
                generation_id=generation_id,
            )
            command = ["ip", "netns", "exec", topology.switch_namespace, *command]
            opened = [descriptor for plug in backends for descriptor in plug.file_descriptors]
            return QemuProcess(command, files, topology.testbed_name, opened)


def connect_agent(process: QemuProcess, timeout_s: float) -> SocketTransport:
    """Connect to a guest's agent; raises QemuEnded with the console's last lines."""
    name = process.files.file_stem
    try:
        return SocketTransport(process.files.agent_socket, process.end_reason, timeout_s)
    except TimeoutError:
        process.kill(f"the agent of the guest did not answer within {timeout_s:g} s")
        raise QemuEnded(f"{name}: {process.end_reason()}") from None
    except OSError:
        raise QemuEnded(f"{name}: {process.end_reason()}") from None


def close_guests(running: Iterable[RunningGuest]) -> None:
    """End guests, all at once."""
    ending = list(running)
    cleanup.run_all_despite_errors(
        (
            *(partial(each.process.kill, "it was ended") for each in ending),
            *(each.close for each in ending),
        )
    )


def _guest_configuration(topology: GuestTopology, guest: Guest) -> dict[str, object]:
    """Return the parameters of `guest.configure`. Each guest gets a clock of its own."""
    # Members of a team must not be bridged: their links would form a loop.
    has_forwarding = topology.shape.role in (ROUTER, BRIDGE) and topology.team is None
    forwarding = topology.shape.role if has_forwarding else "none"
    return {
        "host_name": guest.name,
        "clock": f"{topology.testbed_name}/{guest.name}/{secrets.token_hex(8)}",
        "forwarding": forwarding,
        "interfaces": [
            {
                "match": {"index": number},
                "name": nic.guest_interface,
                "mac": nic.mac or None,
                "addresses": list(nic.addresses_with_prefix_length),
                "up": True,
                "neighbours": _static_neighbours(topology, guest, number),
            }
            for number, nic in enumerate(guest.nics)
        ],
    }


def _static_neighbours(topology: GuestTopology, guest: Guest, nic_number: int) -> list[dict[str, str]]:
    """Return the permanent neighbours of a router on one side, which may not answer during a trial."""
    if topology.shape.role != ROUTER:
        return []
    side = SIDES[nic_number]
    (endpoint,) = (vm for vm in topology.vms if vm.pair == guest.pair and vm.side == side)
    mac = netlink.interface_mac(*endpoint.device.location)
    return [{"address": address, "mac": mac} for address in (endpoint.address, endpoint.ipv6_address)]
