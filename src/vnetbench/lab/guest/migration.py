"""Migrates a running guest to another QEMU process of the same testbed.

The agent in the guest moves with it. Its virtio port has a socket in each QEMU, and the bench is connected to
both: the guest never sees a disconnection, after which a new agent would serve the port. While the guest
moves, the bench keeps its requests back; what the agent sent before is still in the old socket.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from vnetbench import cleanup
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.guest.launcher import RunningGuest
from vnetbench.lab.guest.migration_ports import MigrationPorts
from vnetbench.lab.guest.qemu_process import QemuProcess
from vnetbench.lab.guest.qmp import MonitorError

MAX_CANCEL_WAIT_S = 5.0
"""Time for QEMU to cancel a migration."""
POLL_INTERVAL_S = 0.01
MAX_HOLD_WAIT_S = 5.0
"""Time for the guest to read the requests that it has been sent before it moves."""
_COMPLETED, _RUNNING = "completed", "running"
_FAILED = ("failed", "cancelled")

StartTarget = Callable[[RunningGuest, MigrationPorts], QemuProcess]
"""Starts the QEMU that waits for a guest."""
Adopt = Callable[[RunningGuest, QemuProcess], None]
"""Makes a QEMU the process of a guest, in place of the one before."""


@dataclass(frozen=True)
class MigrationReport:
    """What the old QEMU reports about a completed migration (query-migrate of the QMP reference)."""

    total_ms: int
    downtime_ms: int
    """From stopping the guest until its state was sent. Loading the state is not included."""
    setup_ms: int
    transferred_bytes: int
    memory_bytes: int
    rounds: int
    """Passes over the guest's memory."""
    downtime_limit_ms: int
    bandwidth_limit_bytes_per_s: int

    @classmethod
    def from_qmp(cls, info: Mapping[str, Any], parameters: Mapping[str, Any]) -> MigrationReport:
        """Return the report of the replies to query-migrate and query-migrate-parameters.

        Raises:
            TrialFailed: A value is missing.
        """
        try:
            memory = info["ram"]
            return cls(
                int(info["total-time"]),
                int(info["downtime"]),
                int(info["setup-time"]),
                int(memory["transferred"]),
                int(memory["total"]),
                int(memory["dirty-sync-count"]),
                int(parameters["downtime-limit"]),
                int(parameters["max-bandwidth"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TrialFailed(f"QEMU's report of the migration has no {error}") from error


class GuestMigration:
    """The migration of one guest. Close it after use, in any state."""

    def __init__(
        self, source: RunningGuest, ports: MigrationPorts, start_target: StartTarget, adopt: Adopt
    ) -> None:
        """Describe the migration of `source` to a QEMU with these ports."""
        self.source = source
        self.ports = ports
        self.target: QemuProcess | None = None
        self.report: MigrationReport | None = None
        """QEMU's numbers; None until the guest has moved."""
        self._start_target, self._adopt = start_target, adopt
        self._agent_socket: socket.socket | None = None
        self._has_started = False

    @property
    def name(self) -> str:
        """The guest's name."""
        return self.source.guest.name

    def prepare(self) -> None:
        """Start the new QEMU and connect to the agent's port there; raises QemuEnded or BenchError."""
        self.ports.add()
        self.target = self._start_target(self.source, self.ports)
        self._agent_socket = socket.socket(socket.AF_UNIX)
        self._agent_socket.connect(str(self.target.files.agent_socket))
        uri = f"unix:{self.target.files.migration_socket}"
        self.target.monitor.execute("migrate-incoming", uri=uri)

    def start(self) -> None:
        """Start the migration, which then runs by itself; raises TrialFailed."""
        assert self.target is not None
        try:
            self.source.transport.hold_writes(MAX_HOLD_WAIT_S)
        except OSError as error:
            raise TrialFailed(f"{self.name} cannot migrate: {error}") from error
        self._has_started = True
        uri = f"unix:{self.target.files.migration_socket}"
        self.source.process.monitor.execute("migrate", uri=uri)

    def has_completed(self) -> bool:
        """Return whether the guest runs in the new QEMU; raises TrialFailed if QEMU gave up."""
        assert self.target is not None
        info = self.source.process.monitor.execute("query-migrate")
        if (status := info.get("status")) in _FAILED:
            reason = info.get("error-desc") or self._target_end_reason()
            raise TrialFailed(f"the migration of {self.name} {status}: {reason}")
        if status != _COMPLETED:
            return False
        return bool(self.target.monitor.execute("query-status")["status"] == _RUNNING)

    def hand_over(self) -> None:
        """Let the testbed continue with the new QEMU, and end the old one."""
        assert self.target is not None and self._agent_socket is not None
        monitor = self.source.process.monitor
        self.report = MigrationReport.from_qmp(
            monitor.execute("query-migrate"), monitor.execute("query-migrate-parameters")
        )
        self.source.transport.continue_at(self._agent_socket, self.target.end_reason)
        self.source.transport.release_writes()
        self._agent_socket = None
        self._adopt(self.source, self.target)
        self.source.process.close()

    def describe_progress(self) -> str:
        """Return how far the migration is, for the message about one that does not end."""
        try:
            info = self.source.process.monitor.execute("query-migrate")
        except MonitorError as error:
            return str(error)
        remaining = int((info.get("ram") or {}).get("remaining", 0))
        return f"status {info.get('status')}, {remaining >> 20} MiB of memory to go"

    def close(self) -> None:
        """Rename the new ports if the guest has moved, else end the new QEMU and let the guest continue."""
        if self._has_started and self.report is None:
            with suppress(TrialFailed):  # The next use of the guest reports that its QEMU does not answer.
                self._cancel()
        if self.report is not None:
            self.ports.replace_old()
            return
        cleanup.run_all_despite_errors((self._end_target, self._release_writes, self.ports.remove))

    def _cancel(self) -> None:
        """Let the guest continue in the old QEMU; in the new one if it has left. Raises TrialFailed."""
        monitor = self.source.process.monitor
        monitor.execute("migrate_cancel")
        deadline_s = time.monotonic() + MAX_CANCEL_WAIT_S
        while (status := monitor.execute("query-migrate").get("status")) not in (*_FAILED, _COMPLETED):
            _wait_until(deadline_s, f"the migration of {self.name} cannot be cancelled (status {status})")
        if status != _COMPLETED:
            if monitor.execute("query-status")["status"] != _RUNNING:
                monitor.execute("cont")
            return
        while not self.has_completed():
            _wait_until(deadline_s, f"{self.name} does not run in the QEMU to which it migrated")
        self.hand_over()

    def _end_target(self) -> None:
        if self._agent_socket is not None:
            self._agent_socket.close()
            self._agent_socket = None
        if self.target is not None:
            self.target.close()
            self.target = None

    def _release_writes(self) -> None:
        with suppress(OSError):
            self.source.transport.release_writes()

    def _target_end_reason(self) -> str:
        assert self.target is not None
        return self.target.end_reason()


def _wait_until(deadline_s: float, message: str) -> None:
    """Wait for the next look at a state; raises TrialFailed after the deadline."""
    if time.monotonic() > deadline_s:
        raise TrialFailed(message)
    time.sleep(POLL_INTERVAL_S)
