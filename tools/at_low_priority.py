#!/usr/bin/env python3
"""Run a command that gets only CPU time that nothing else wants.

Usage: tools/at_low_priority.py COMMAND [ARGUMENT...]

Where the kernel gives each session an equal share of the CPUs (autogroups, sched(7)), a nice value counts
only within a session. Agents have sessions of their own, so the command gets one too, with the lowest share.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

LOWEST_PRIORITY = 19
PASSED_ON_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""A signal of the terminal does not reach another session, so this program passes it on, as SIGTERM."""


def run_at_low_priority(command: list[str]) -> int:
    """Run a command and return its exit status; 128 and the number of the signal that ended it.

    The signals are blocked, so none is lost between the start of the command and the wait for its end.
    """
    awaited = {signal.SIGCHLD, *PASSED_ON_SIGNALS}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    process = subprocess.Popen(
        # The command ends with this program, also after a SIGKILL.
        ["setpriv", "--pdeathsig", "TERM", *command],
        close_fds=False,
        start_new_session=True,
        preexec_fn=_prepare_command,
    )
    while process.poll() is None:
        if signal.sigwait(awaited) in PASSED_ON_SIGNALS:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _prepare_command() -> None:
    """Give the command, in its new process, the lowest priority and the default signals."""
    os.nice(LOWEST_PRIORITY)
    # Kernels without autogroups have no such file.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(LOWEST_PRIORITY), encoding="ascii")
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


if __name__ == "__main__":
    sys.exit(run_at_low_priority(sys.argv[1:]))
