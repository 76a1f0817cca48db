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
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from bench.redteam.causes import CAUSES
from bench.redteam.groups import confined
from bench.redteam.model import Cause, Label, Run, Shape
from bench.redteam.outside_programs import OutsideMeter
from bench.redteam.runner import inject_and_wait, make_label, read_revision
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
_RESULTS_FOLDER = Path(__file__).parent / "results"
_DEPTHS = ("quick", "normal", "thorough")


@dataclass(frozen=True)
class Checked:
    """One check of the lab, with a fault or without."""

    kind: str
    label: Label | None
    """What was made; None without a fault."""
    causes: tuple[str, ...]
    """The limits that the check names, first to last."""
    verdict: str
    elapsed_s: float
    other_share: float
    """Share of the CPUs' time that other programs used during the check."""

    @property
    def is_made(self) -> bool:
        """Whether the fault was there."""
        return self.label is not None and not self.label.error

    @property
    def is_named_first(self) -> bool:
        """Whether the first limit names the fault."""
        return self.label is not None and self.causes[:1] != () and self.causes[0] in self.label.accepted

    @property
    def outcome(self) -> str:
        """The outcome in words."""
        if self.label is None:
            return "no fault was made"
        if self.label.error:
            return f"not made: {self.label.error}"
        return "named first" if self.is_named_first else "not named first"


@click.command()
@click.option("--only", help="Kinds of faults, separated by commas.  [default: all, and none]")
@click.option("--depth", type=click.Choice(_DEPTHS), default="normal", show_default=True)
@click.option("--repeat", type=click.IntRange(1, 100), default=2, show_default=True)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Result file.  [default: in bench/results]"
)
def main(only: str | None, depth: str, repeat: int, output: Path | None) -> None:
    """Make each fault, check the lab, and write whether the first limit names the fault."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    kinds = only.split(",") if only else [*INTENSITY_BY_KIND, NO_FAULT]
    start = datetime.now(UTC)
    path = output or _RESULTS_FOLDER / f"{start:%Y%m%d-%H%M}-check-faults.md"
    checked: list[Checked] = []
    with confined(cpus) as accounting:
        for kind in kinds * repeat:
            checked.append(_check_with_fault(kind, cpus, depth, accounting))
            print(f"{kind}: {checked[-1].outcome}; {checked[-1].verdict}", flush=True)
            path.write_text(_to_markdown(checked, depth, len(cpus), start), encoding="utf-8")
    print(f"{_score(checked)}. Written to {path}")


def _check_with_fault(kind: str, cpus: tuple[int, ...], depth: str, accounting: Path | None) -> Checked:
    """Check the lab while a fault is there."""
    meter, start_s = OutsideMeter(accounting, cpus), time.monotonic()
    label = None
    with ExitStack() as stack, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        bench = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "vnetbench",
                "check",
                "--json",
                *([] if depth == "normal" else [f"--{depth}"]),
                *_vswitch_options(kind),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            preexec_fn=die_with_parent,
            start_new_session=True,
        )
        stack.callback(_end, bench)
        if kind == NO_FAULT:
            bench.wait()
        else:
            cause = _cause(kind)
            run = Run(cause, INTENSITY_BY_KIND[kind], Shape(len(cpus)), cause.loads[0], cause.vswitches[0])
            label = make_label(run, is_control=False)
            inject_and_wait(run, bench, cpus, stack, label)
        document = _read_document(output, errors)
    return Checked(
        kind,
        label,
        tuple(limit["cause"] for limit in document["limits"]),
        " ".join(document["verdict"]),
        time.monotonic() - start_s,
        meter.read().all_share,
    )


def _cause(kind: str) -> Cause:
    return next(each for each in CAUSES if each.id == kind)


def _vswitch_options(kind: str) -> list[str]:
    """Return the options that build the virtual switch in which the fault has an effect."""
    return [] if kind == NO_FAULT else ["--set", f"vswitch={_cause(kind).vswitches[0]}"]


def _read_document(output: Any, errors: Any) -> dict[str, Any]:
    """Return the document that the check printed, or its error message as the verdict."""
    for stream in (output, errors):
        stream.seek(0)
    text = output.read()
    if not text:
        return {"limits": [], "verdict": [errors.read().decode().strip()]}
    document: dict[str, Any] = json.loads(text)
    return document


def _end(bench: subprocess.Popen[bytes]) -> None:
    """End a check that still runs: it removes its testbed."""
    if bench.poll() is None:
        os.kill(bench.pid, signal.SIGCONT)
        bench.terminate()
        bench.wait(_END_TIMEOUT_S)


def _score(checked: list[Checked]) -> str:
    made = [each for each in checked if each.is_made]
    named = [each for each in made if each.is_named_first]
    kinds = {each.kind for each in made}
    always = kinds - {each.kind for each in made if not each.is_named_first}
    return (
        f"The fault is named first in {len(named)} of {len(made)} checks, and in all checks of "
        f"{len(always)} of {len(kinds)} kinds"
    )


def _to_markdown(checked: list[Checked], depth: str, cpu_count: int, start: datetime) -> str:
    """Return the result file."""
    lines = [
        f"# Check: how often it names a fault first, {start:%Y-%m-%d %H:%M} UTC",
        "",
        f"`vnetbench check` at the depth {depth}, revision {read_revision()}, {cpu_count} CPUs. The check "
        "and the fault ran in a control group that gets CPU time before other programs. The last column is "
        "the share of the CPUs' time that other programs used meanwhile.",
        "",
        f"{_score(checked)}.",
        "",
        "| fault | how it is made | outcome | limits, first to last | time | other programs |",
        "|---|---|---|---|---|---|",
    ]
    for each in checked:
        method = "–" if each.label is None else f"{_cause(each.kind).method} ({each.label.value})"
        limits = ", ".join(each.causes) or "none"
        lines.append(
            f"| `{each.kind}` | {method} | {each.outcome} | {limits} | {each.elapsed_s:.0f} s "
            f"| {100 * each.other_share:.0f} % |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
