"""What an iperf 2 command line tells of the load (iperf 2's man page; its units: src/stdio.c)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from vnetbench.importers.command_line import Command, Grammar, command_in, options_of
from vnetbench.importers.log_lines import Lines
from vnetbench.study.model import Level

PROGRAMS = ("iperf", "iperf2")
GRAMMAR = Grammar(
    valued={
        "-c": "client", "--client": "client", "-b": "rate", "--bandwidth": "rate", "-f": "format",
        "--format": "format", "-i": "interval", "--interval": "interval", "-l": "length", "--len": "length",
        "-p": "port", "--port": "port", "-w": "window", "--window": "window", "-n": "bytes", "--num": "bytes",
        "-t": "time", "--time": "time", "-P": "parallel", "--parallel": "parallel", "-Z": "congestion",
        "--linux-congestion": "congestion", "--tcp-congestion": "congestion", "-y": "style",
        "--reportstyle": "style", "-B": "bind", "-M": "mss", "-S": "tos", "-L": "listen", "-o": "output",
        "-F": "file", "-T": "ttl", "-x": "exclude",
    },
    switches={
        "-s": "server", "--server": "server", "-u": "udp", "--udp": "udp", "-e": "enhanced",
        "--enhanced": "enhanced", "-d": "dual", "--dualtest": "dual", "-r": "tradeoff",
        "--tradeoff": "tradeoff", "-R": "reverse", "--reverse": "reverse", "--full-duplex": "duplex",
        "--bounceback": "bounceback", "-N": "nodelay", "-V": "ipv6", "-m": "mss", "-D": "daemon",
        "-z": "realtime", "-C": "compatible",
        "-v": "version", "--version": "version", "-h": "help", "--help": "help",
    },
)  # fmt: skip

_SUFFIXED = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<suffix>[kmgKMG]?)")
_SUFFIXES = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "K": 2**10, "M": 2**20, "G": 2**30}
"""Of bytes and of bits alike: `-b 10M` sends 10.49 Mbit/s."""


@dataclass(frozen=True)
class Asked:
    """A command line of iperf 2, and its options by name; none where the log has none."""

    text: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_client(self) -> bool:
        """Whether it asks for a test, rather than for a server or help."""
        return "client" in self.options

    def amount(self, name: str) -> float | None:
        """The value of an option that takes a size or a rate, in bytes or bit/s; None without it."""
        found = _SUFFIXED.match(self.options.get(name, ""))
        return float(found["number"]) * _SUFFIXES[found["suffix"]] if found else None

    def factors(self, *, is_udp: bool) -> dict[str, Level]:
        """Levels of our factors; not those of streams and direction, which the results tell too."""
        length, window, rate = self.amount("length"), self.amount("window"), self.amount("rate")
        found: dict[str, Level] = {}
        if length:
            found["datagram_size" if is_udp else "message_size"] = int(length)
        if window:
            found["socket_buffer"] = int(window)
        if "congestion" in self.options and not is_udp:
            found["congestion_control"] = self.options["congestion"]
        if rate and is_udp and not self.options["rate"].lower().endswith("pps"):
            found["bit_rate"] = int(rate)
        return found


def command_at(lines: Lines) -> Command | None:
    """The iperf 2 command that the next line of a log is; it takes none."""
    line = lines.peek() or ""
    return command_in(line, PROGRAMS) if "iperf" in line and "iperf3" not in line else None


def asked(command: Command | None) -> Asked:
    """What a command asks for."""
    return Asked(command.text, options_of(command.words, GRAMMAR)) if command else Asked()
