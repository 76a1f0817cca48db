"""Whether guests still live: one that says nothing, and does not answer either, is ended."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from vnetbench.agents.transport import SocketTransport
from vnetbench.lab.guest.qemu_process import Machine

LOOK_EVERY_S = 1.0
ASK_AFTER, HUNG_AFTER = 3, 8
"""Looks in a row at which nothing had come. A guest at work sends samples, so it is never asked."""


@dataclass
class _Watched:
    machine: Machine
    transport: SocketTransport
    heard: int = 0
    silent: int = 0


class Watch:
    """Looks at guests again and again, from a thread of its own. It lives, and must be closed."""

    def __init__(self) -> None:
        self._guests: list[_Watched] = []
        self._lock = threading.Lock()
        self._is_paused = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch over guests", daemon=True)
        self._thread.start()

    def add(self, machine: Machine, transport: SocketTransport) -> None:
        """Watch one more guest."""
        with self._lock:
            self._guests.append(_Watched(machine, transport))

    def pause(self, is_paused: bool) -> None:
        """While guests are stopped they are not expected to say anything."""
        with self._lock:
            self._is_paused = is_paused
            for guest in self._guests:
                guest.silent = 0

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        # Looks are counted, not seconds: a bench that was itself stopped finds no guest silent for it.
        while not self._closing.wait(LOOK_EVERY_S):
            with self._lock:
                for guest in () if self._is_paused else self._guests:
                    _look(guest)


def _look(guest: _Watched) -> None:
    if guest.transport.heard != guest.heard:
        guest.heard, guest.silent = guest.transport.heard, 0
        return
    guest.silent += 1
    if guest.silent == ASK_AFTER:
        guest.transport.ask_for_a_sign()
    elif guest.silent == HUNG_AFTER:
        guest.machine.kill(f"it gave no sign of life for {HUNG_AFTER * LOOK_EVERY_S:g} s, and was ended")
