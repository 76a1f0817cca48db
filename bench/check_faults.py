"""How often `vnetbench check` names a fault first: `python -m bench.check_faults`.

The faults are causes of the red-team corpus, of its development part: ordinary tools make them from outside,
in the testbed of each part of the check. Run it as root under tools/in-lab.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from typing import Any

import click

from bench.redteam.causes import CAUSES
from bench.redteam.groups import confined
from bench.redteam.model import Label, Run, Shape
from bench.redteam.runner import inject_and_wait, make_label
from bench.redteam.target import die_with_parent

INTENSITY_BY_KIND = {
    "htb-switch-port": 1,
    "short-queue": 2,
    "loss-bridge": 1,
    "ack-path-receiver": 1,
    "quota-receiver": 1,
    "hog-unpinned": 2,
    "receive-buffer": 1,
    "offloads-sender": 1,
    "route-mtu": 1,
    "black-hole-bridge": 1,
    "filters-switch": 2,
    "pause-receiver": 1,
}
"""Kinds of faults, and the index of the intensity that the red team gave them."""
NO_FAULT = "none"
_END_TIMEOUT_S = 30.0


@click.command()
@click.option("--only", help="Kinds of faults, separated by commas.  [default: all, and none]")
@click.option("--normal", is_flag=True, help="Check at the normal depth, not with --quick.")
@click.option("--repeat", type=click.IntRange(1, 100), default=1, show_default=True)
def main(only: str | None, normal: bool, repeat: int) -> None:
    """Make each fault, check the lab, and print whether the first limit names the fault."""
    cpus = sorted(os.sched_getaffinity(0))
    named = made = 0
    with confined(cpus):
        for kind in (only.split(",") if only else [*INTENSITY_BY_KIND, NO_FAULT]) * repeat:
            label, document = _check_with_fault(
                kind, tuple(cpus), ["check"] if normal else ["check", "--quick"]
            )
            causes = [limit["cause"] for limit in document["limits"]]
            is_named = bool(causes) and label is not None and causes[0] in label.accepted
            if label is None:
                outcome = "no fault"
            elif label.error:
                outcome = f"not made ({label.error})"
            else:
                made, named = made + 1, named + is_named
                outcome = "named first" if is_named else "not first"
            limits = ", ".join(causes) or "no limit"
            print(f"{kind}: {outcome}; {limits}; {' '.join(document['verdict'])}", flush=True)
    print(f"{named} of {made} faults are named first")


def _check_with_fault(
    kind: str, cpus: tuple[int, ...], arguments: list[str]
) -> tuple[Label | None, dict[str, Any]]:
    """Return the label of the fault, None without one, and the JSON document of the check."""
    with ExitStack() as stack, tempfile.TemporaryFile() as output:
        bench = subprocess.Popen(
            [sys.executable, "-m", "vnetbench", *arguments, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            preexec_fn=die_with_parent,
            start_new_session=True,
        )
        stack.callback(_end, bench)
        label = None
        if kind == NO_FAULT:
            bench.wait()
        else:
            cause = next(each for each in CAUSES if each.id == kind)
            run = Run(cause, INTENSITY_BY_KIND[kind], Shape(len(cpus)), cause.loads[0], cause.vswitches[0])
            label = make_label(run, is_control=False)
            inject_and_wait(run, bench, cpus, stack, label)
        output.seek(0)
        text = output.read()
        errors = bench.stderr.read().decode() if bench.stderr and bench.poll() is not None else ""
    if not text:
        return label, {"limits": [], "verdict": [errors.strip()]}
    document: dict[str, Any] = json.loads(text)
    return label, document


def _end(bench: subprocess.Popen[bytes]) -> None:
    """End a check that still runs: it removes its testbed."""
    if bench.poll() is None:
        os.kill(bench.pid, signal.SIGCONT)
        bench.terminate()
        bench.wait(_END_TIMEOUT_S)


if __name__ == "__main__":
    main()
