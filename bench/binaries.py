"""Which peers are on this machine: those of PATH, and those that BENCH_PEERS names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vnetbench.errors import BenchError

VARIABLE = "BENCH_PEERS"
FORM = f'{VARIABLE}="iperf3=/opt/iperf3/bin/iperf3 neper=/opt/neper"'


@dataclass(frozen=True)
class Kind:
    """A tool that the benchmarks know."""

    name: str
    programs: tuple[str, ...]
    """All in one folder; the first one tells the version."""
    asked: str
    """The option that has it tell."""
    answer: str
    """What it then prints, the version in brackets."""
    in_debian: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("iperf3", ("iperf3",), "--version", r"iperf (3\.\S+)", in_debian=True),
        Kind("nuttcp", ("nuttcp",), "-V", r"nuttcp-(\S+)", in_debian=True),
        Kind("sockperf", ("sockperf",), "--version", r"sockperf, version ([\d.]+)", in_debian=True),
        Kind("netperf", ("netperf", "netserver"), "-V", r"Netperf version (\S+)"),
        Kind("neper", ("tcp_stream", "tcp_rr", "udp_stream"), "--version", r"^(\d+\.\d+\.\d+)$"),
        Kind("ntttcp", ("ntttcp",), "-h", r"NTTTCP for Linux (\S+)"),
    )
}


@dataclass(frozen=True)
class Binary:
    """One peer of this machine."""

    kind: str
    version: str
    folder: Path
    program_names: tuple[str, ...]

    @property
    def label(self) -> str:
        """Name and version, as the tables have it."""
        return f"{self.kind} {self.version}"

    def path(self, program: str = "") -> str:
        """The path of one of its programs; of its only one without a name."""
        return str(self.folder / (program or self.program_names[0]))


def find(environment: Mapping[str, str] = os.environ) -> tuple[list[Binary], list[str]]:
    """The peers of this machine, and a line for each that is not here.

    Raises BenchError where BENCH_PEERS names what is no peer.
    """
    found: list[Binary] = []
    for kind in KINDS.values():
        if (program := shutil.which(kind.programs[0], path=environment.get("PATH"))) is not None:
            found.append(_binary(kind, Path(program), program))
    for name, path in _named(environment.get(VARIABLE, "")):
        binary = _binary(KINDS[name], _program(KINDS[name], path), f"{VARIABLE}: {name}={path}")
        if binary.path() not in (other.path() for other in found):
            found.append(binary)
    here = {binary.kind for binary in found}
    return found, [_how_to_get(kind) for kind in KINDS.values() if kind.name not in here]


def _how_to_get(kind: Kind) -> str:
    package = f"apt-get install {kind.name}, or " if kind.in_debian else ""
    return f"{kind.name} is not here: {package}name its binary in {VARIABLE}"


def _named(text: str) -> list[tuple[str, Path]]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BenchError(f"{VARIABLE} cannot be read: {error}", where=text, fix=FORM) from None
    named = []
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not path:
            raise BenchError(f"{word!r} is not NAME=PATH", where=VARIABLE, fix=FORM)
        if name not in KINDS:
            raise BenchError(f"{name!r} is no peer", where=VARIABLE, fix=f"peers: {', '.join(KINDS)}")
        named.append((name, Path(path)))
    return named


def _program(kind: Kind, path: Path) -> Path:
    """The first program of a kind, where `path` is that program or the folder that holds it."""
    return path / kind.programs[0] if path.is_dir() else path


def _binary(kind: Kind, program: Path, where: str) -> Binary:
    folder = program.absolute().parent
    # A file of another name is the kind's only program: iperf3-3.21 for iperf3.
    names = (program.name,) if len(kind.programs) == 1 else kind.programs
    for name in names:
        if not os.access(folder / name, os.X_OK):
            raise BenchError(
                f"{folder / name} is not there, or is no program",
                where=where,
                fix=f"name {kind.programs[0]} of {kind.name}, or the folder with {', '.join(kind.programs)}",
            )
    return Binary(kind.name, _version(kind, folder / names[0], where), folder, names)


def _version(kind: Kind, program: Path, where: str) -> str:
    """As it tells it itself; raises BenchError where it tells another tool's, or none."""
    try:
        with tempfile.TemporaryDirectory() as folder:  # neper leaves a log where it runs
            done = subprocess.run(
                [str(program), kind.asked], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=10, check=False, cwd=folder,
            )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"{program} does not run: {error}", where=where, fix="name one that does") from None
    found = re.search(kind.answer, done.stdout + done.stderr, re.MULTILINE)
    if found is None:
        raise BenchError(f"{program} is no {kind.name}: it does not say so", where=where, fix=FORM)
    return found[1]
