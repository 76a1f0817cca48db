"""The options of iperf 2 and the factors that they set (iperf 2's man page; units: src/stdio.c)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vnetbench.importers.command_line import OptionSyntax
from vnetbench.study.model import Level

OPTION_SYNTAX = OptionSyntax(
    name_by_value_option={
        "-c": "client", "--client": "client", "-b": "rate", "--bandwidth": "rate", "-f": "format",
        "--format": "format", "-i": "interval", "--interval": "interval", "-l": "length", "--len": "length",
        "-p": "port", "--port": "port", "-w": "window", "--window": "window", "-n": "bytes", "--num": "bytes",
        "-t": "time", "--time": "time", "-P": "parallel", "--parallel": "parallel", "-Z": "congestion",
        "--linux-congestion": "congestion", "--tcp-congestion": "congestion", "-y": "style",
        "--reportstyle": "style", "-B": "bind", "-M": "mss", "-S": "tos", "-L": "listen", "-o": "output",
        "-F": "file", "-T": "ttl", "-x": "exclude",
    },
    name_by_switch={
        "-s": "server", "--server": "server", "-u": "udp", "--udp": "udp", "-e": "enhanced",
        "--enhanced": "enhanced", "-d": "dual", "--dualtest": "dual", "-r": "tradeoff",
        "--tradeoff": "tradeoff", "-R": "reverse", "--reverse": "reverse", "--full-duplex": "duplex",
        "--bounceback": "bounceback", "-N": "nodelay", "-V": "ipv6", "-m": "mss", "-D": "daemon",
        "-z": "realtime", "-C": "compatible",
        "-v": "version", "--version": "version", "-h": "help", "--help": "help",
    },
)  # fmt: skip

_AMOUNT_PATTERN = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<suffix>[kmgKMG]?)")
_MULTIPLIER_BY_SUFFIX = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "K": 2**10, "M": 2**20, "G": 2**30}
"""Suffixes of bytes and of bits: `-b 10M` sends 10.49 Mbit/s."""


def parse_amount_option(options: Mapping[str, str], option_name: str) -> float | None:
    """Return the size in bytes or the rate in bit/s that an option sets; None without it."""
    amount = _AMOUNT_PATTERN.match(options.get(option_name, ""))
    return float(amount["number"]) * _MULTIPLIER_BY_SUFFIX[amount["suffix"]] if amount else None


def factors_from_options(options: Mapping[str, str], *, is_udp: bool) -> dict[str, Level]:
    """Return the factor levels that a command line sets. Streams and direction come from the results."""
    factors: dict[str, Level] = {}
    if length := parse_amount_option(options, "length"):
        factors["datagram_size" if is_udp else "message_size"] = int(length)
    if window := parse_amount_option(options, "window"):
        factors["socket_buffer"] = int(window)
    if "congestion" in options and not is_udp:
        factors["congestion_control"] = options["congestion"]
    rate = parse_amount_option(options, "rate")
    if rate and is_udp and not options["rate"].lower().endswith("pps"):
        factors["bit_rate"] = int(rate)
    return factors
