"""Ends guests that hang: those that send nothing and do not answer a request either."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from vnetbench.agents.transport import SocketTransport
from vnetbench.lab.guest.qemu_process import QemuProcess

CHECK_INTERVAL_S = 1.0
PING_AFTER_CHECKS, HUNG_AFTER_CHECKS = 3, 8
"""Consecutive checks without data. A guest at work sends samples, so it is never pinged."""


@dataclass
class _WatchedGuest:
    process: QemuProcess
    transport: SocketTransport
    last_receive_count: int = 0
    consecutive_silent_checks: int = 0


class HungGuestKiller:
    """Checks guests periodically in a thread of its own. Close it after use."""

    def __init__(self) -> None:
        self._guests: list[_WatchedGuest] = []
        self._lock = threading.Lock()
        self._is_paused = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guest watchdog", daemon=True)
        self._thread.start()

    def add(self, process: QemuProcess, transport: SocketTransport) -> None:
        """Watch one more guest."""
        with self._lock:
            self._guests.append(_WatchedGuest(process, transport))

    def replace(self, old: QemuProcess, new: QemuProcess) -> None:
        """Watch the guest of a QEMU that has migrated to another one."""
        with self._lock:
            for guest in self._guests:
                if guest.process is old:
                    guest.process = new

    def set_paused(self, is_paused: bool) -> None:
        """Suspend or resume the checks, because paused guests send nothing."""
        with self._lock:
            self._is_paused = is_paused
            for guest in self._guests:
                guest.consecutive_silent_checks = 0

    def close(self) -> None:
        """Stop the checks."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        # Counts checks instead of seconds, so that a suspended bench takes no guest for hung.
        while not self._closing.wait(CHECK_INTERVAL_S):
            with self._lock:
                for guest in () if self._is_paused else self._guests:
                    _check_guest(guest)


def _check_guest(guest: _WatchedGuest) -> None:
    if guest.transport.receive_count != guest.last_receive_count:
        guest.last_receive_count, guest.consecutive_silent_checks = guest.transport.receive_count, 0
        return
    guest.consecutive_silent_checks += 1
    if guest.consecutive_silent_checks == PING_AFTER_CHECKS:
        guest.transport.request_heartbeat()
    elif guest.consecutive_silent_checks == HUNG_AFTER_CHECKS:
        seconds = HUNG_AFTER_CHECKS * CHECK_INTERVAL_S
        guest.process.kill(f"the agent sent nothing for {seconds:g} s, so the bench ended it")
