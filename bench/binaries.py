"""The peer tools of this machine, from PATH and from the variable BENCH_PEERS."""

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

PEERS_VARIABLE = "BENCH_PEERS"
PEERS_VARIABLE_EXAMPLE = f'{PEERS_VARIABLE}="iperf3=/opt/iperf3/bin/iperf3 neper=/opt/neper"'


@dataclass(frozen=True)
class PeerTool:
    """A tool that the benchmarks support."""

    name: str
    programs: tuple[str, ...]
    """Programs, all in one folder. The first one prints the version."""
    version_option: str
    version_pattern: str
    """Pattern of the printed version, which is the first group."""
    in_debian: bool = False
    """Whether Debian has a package of this name."""


PEER_TOOLS = {
    tool.name: tool
    for tool in (
        PeerTool("iperf3", ("iperf3",), "--version", r"iperf (3\.\S+)", in_debian=True),
        PeerTool("nuttcp", ("nuttcp",), "-V", r"nuttcp-(\S+)", in_debian=True),
        PeerTool("sockperf", ("sockperf",), "--version", r"sockperf, version ([\d.]+)", in_debian=True),
        PeerTool("netperf", ("netperf", "netserver"), "-V", r"Netperf version (\S+)"),
        PeerTool("neper", ("tcp_stream", "tcp_rr", "udp_stream"), "--version", r"^(\d+\.\d+\.\d+)$"),
        PeerTool("ntttcp", ("ntttcp",), "-h", r"NTTTCP for Linux (\S+)"),
        PeerTool("xfr", ("xfr",), "--version", r"xfr (\d\S+)"),
    )
}


@dataclass(frozen=True)
class Binary:
    """A peer tool that is installed on this machine."""

    tool: str
    version: str
    folder: Path
    program_names: tuple[str, ...]

    @property
    def label(self) -> str:
        """Name and version, as in the tables."""
        return f"{self.tool} {self.version}"

    def path(self, program: str = "") -> str:
        """Return the path of a program, by default of the first one."""
        return str(self.folder / (program or self.program_names[0]))


def find_binaries(environment: Mapping[str, str] = os.environ) -> tuple[list[Binary], list[str]]:
    """Return the peers of this machine, and a sentence for each missing tool.

    Raises:
        BenchError: BENCH_PEERS contains an unknown tool or an unusable path.
    """
    binaries: list[Binary] = []
    for tool in PEER_TOOLS.values():
        if (program := shutil.which(tool.programs[0], path=environment.get("PATH"))) is not None:
            binaries.append(_inspect_binary(tool, Path(program), program))
    for name, path in _parse_variable(environment.get(PEERS_VARIABLE, "")):
        tool = PEER_TOOLS[name]
        first_program = path / tool.programs[0] if path.is_dir() else path
        binary = _inspect_binary(tool, first_program, f"{PEERS_VARIABLE}: {name}={path}")
        if binary.path() not in (other.path() for other in binaries):
            binaries.append(binary)
    installed = {binary.tool for binary in binaries}
    return binaries, [_install_hint(tool) for tool in PEER_TOOLS.values() if tool.name not in installed]


def _install_hint(tool: PeerTool) -> str:
    if tool.in_debian:
        install = f"apt-get install {tool.name}"
        return f"{tool.name} is not installed. Run {install}, or set its path in {PEERS_VARIABLE}."
    return f"{tool.name} is not installed. Set its path in {PEERS_VARIABLE}."


def _parse_variable(text: str) -> list[tuple[str, Path]]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BenchError(
            f"cannot parse {PEERS_VARIABLE}: {error}", where=text, fix=PEERS_VARIABLE_EXAMPLE
        ) from None
    paths = []
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not path:
            raise BenchError(
                f"{word!r} is not of the form NAME=PATH", where=PEERS_VARIABLE, fix=PEERS_VARIABLE_EXAMPLE
            )
        if name not in PEER_TOOLS:
            supported = ", ".join(PEER_TOOLS)
            raise BenchError(
                f"{name!r} is not a supported peer", where=PEERS_VARIABLE, fix=f"use one of {supported}"
            )
        paths.append((name, Path(path)))
    return paths


def _inspect_binary(tool: PeerTool, program: Path, where: str) -> Binary:
    folder = program.absolute().parent
    # The file of a tool with one program may have another name, such as iperf3-3.21.
    names = (program.name,) if len(tool.programs) == 1 else tool.programs
    for name in names:
        if not os.access(folder / name, os.X_OK):
            raise BenchError(
                f"{folder / name} does not exist or is not executable",
                where=where,
                fix=f"set the path of {tool.programs[0]}, or of a folder with {', '.join(tool.programs)}",
            )
    return Binary(tool.name, _read_version(tool, folder / names[0], where), folder, names)


def _read_version(tool: PeerTool, program: Path, where: str) -> str:
    """Return the version that the program prints.

    Raises:
        BenchError: The program does not run, or it does not print a version of this tool.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:  # neper writes a log to its working directory
            completed = subprocess.run(
                [str(program), tool.version_option], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=10, check=False, cwd=folder,
            )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        fix = f"set the path of a working {tool.name}"
        raise BenchError(f"cannot run {program}: {error}", where=where, fix=fix) from None
    match = re.search(tool.version_pattern, completed.stdout + completed.stderr, re.MULTILINE)
    if match is None:
        raise BenchError(
            f"{program} does not print a version of {tool.name}", where=where, fix=PEERS_VARIABLE_EXAMPLE
        )
    return match[1]
