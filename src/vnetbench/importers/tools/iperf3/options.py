"""The options of iperf3, and the factor levels that a command line sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from vnetbench.errors import BenchError
from vnetbench.importers.command_line import CommandLine, OptionSyntax, parse_options
from vnetbench.study.factors.registry import FACTORS, parse_level, require_factor_or_label
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM

PROGRAMS = ("iperf3", "riperf3")

_NAME_BY_LETTER = {
    "p": "port", "f": "format", "i": "interval", "c": "client", "b": "bitrate", "t": "time",
    "n": "bytes", "k": "blockcount", "l": "length", "P": "parallel", "w": "window", "B": "bind",
    "M": "set-mss", "S": "tos", "L": "flowlabel", "O": "omit", "F": "file", "A": "affinity",
    "T": "title", "C": "congestion", "I": "pidfile", "X": "xbind", "s": "server", "D": "daemon",
    "V": "verbose", "J": "json", "d": "debug", "v": "version", "h": "help", "u": "udp",
    "R": "reverse", "N": "no-delay", "Z": "zerocopy", "m": "mptcp", "1": "one-off",
    "4": "version4", "6": "version6",
}  # fmt: skip
_SWITCH_NAMES = (
    "server", "daemon", "one-off", "verbose", "json", "json-stream", "json-stream-full-output", "debug",
    "version", "help", "udp", "reverse", "bidir", "no-delay", "version4", "version6", "zerocopy", "mptcp",
    "sctp", "skip-rx-copy", "gsro", "timestamps", "forceflush", "get-server-output", "dont-fragment",
    "repeating-payload", "udp-counters-64bit", "no-fq-socket-pacing", "use-pkcs1-padding",
)  # fmt: skip
_VALUE_OPTION_NAMES = (
    "client", "port", "format", "interval", "bitrate", "time", "bytes", "blockcount", "length",
    "parallel", "window", "bind", "bind-dev", "cport", "set-mss", "tos", "dscp", "flowlabel", "omit",
    "file", "affinity", "title", "extra-data", "congestion", "nstreams", "xbind", "pidfile", "logfile",
    "username", "rsa-public-key-path", "fq-rate", "pacing-timer", "connect-timeout", "idle-timeout",
    "rcv-timeout", "snd-timeout",
)  # fmt: skip
_NAME_BY_OLD_OPTION = {"--bandwidth": "bitrate", "--linux-congestion": "congestion"}

OPTION_SYNTAX = OptionSyntax(
    name_by_value_option={f"--{name}": name for name in _VALUE_OPTION_NAMES}
    | {f"-{letter}": name for letter, name in _NAME_BY_LETTER.items() if name in _VALUE_OPTION_NAMES}
    | _NAME_BY_OLD_OPTION,
    name_by_switch={f"--{name}": name for name in _SWITCH_NAMES}
    | {f"-{letter}": name for letter, name in _NAME_BY_LETTER.items() if name in _SWITCH_NAMES},
)
"""Options by their long names (iperf_api.c, `longopts`)."""

_NUMBER_PATTERN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([kmgt]?)", re.IGNORECASE)
_SUFFIXES_BY_POWER = " kmgt"


@dataclass(frozen=True)
class RequestedOptions:
    """What a command line requests."""

    workload: str
    factors: Mapping[str, Level]
    """Factor levels. Options that change a run but are no factor are labels: `label_set_mss`."""
    options_without_valid_level: Mapping[str, str]
    """Options whose value is not a valid level."""


def parse_level_or_none(name: str, workload: str, raw: object) -> Level | None:
    """Return the canonical level of a factor or label; None if it is out of range or not of the workload."""
    if not require_factor_or_label(name).has_workload(workload):
        return None
    try:
        return parse_level(name, raw)
    except BenchError:
        return None


parse_level_or_none_cached = lru_cache(1024)(parse_level_or_none)
"""The same with a cache, because the runs of a log are much alike."""


def size_option_to_level(text: str) -> str:
    """Return a size of `-l` or `-w` as a level. K, M and G are powers of 1024 (units.c, `unit_atof`)."""
    number = _parse_number(text, 1024)
    return text if number is None else f"{number} B"


def rate_option_to_level(text: str) -> str:
    """Return a rate of `-b` as a level. K, M and G are powers of 1000 (units.c, `unit_atof_rate`)."""
    number = _parse_number(text.partition("/")[0], 1000)
    return text if number is None else f"{number} bit/s" if number else "none"


def parse_client_command(command: CommandLine) -> RequestedOptions | None:
    """Return what the command line of a client requests; None if it is not a client's."""
    options = parse_options(command.arguments, OPTION_SYNTAX)
    if "client" not in options:
        return None
    workload = UDP_STREAM if "udp" in options else TCP_STREAM
    factors = {
        name: parse_level_or_none_cached(name, workload, raw)
        for name, raw in _DEFAULT_RAW_LEVELS_BY_WORKLOAD[workload].items()
    }
    other_results = {}
    for option, value in options.items():
        for name, raw in _find_factors_and_raw_levels(option, value, workload):
            factors[name] = parse_level_or_none_cached(name, workload, raw)
            if factors[name] is None:
                other_results[f"--{option}"] = value
    if "sctp" in options:
        factors["transport"] = None
    return RequestedOptions(
        workload, {name: level for name, level in factors.items() if level is not None}, other_results
    )


def find_requested_options(command: CommandLine | None, workload: str = "") -> RequestedOptions:
    """Return what the command line of a run requests.

    It is empty without one, or if it is of another workload.
    """
    requested = parse_client_command(command) if command else None
    # The command line and the output can contradict each other: this needs no property of a workload.
    if requested is None or workload not in ("", requested.workload):
        return RequestedOptions(workload or TCP_STREAM, {}, {})
    return requested


def label_name_for_option(option: str) -> str:
    """Return the name of the label for an option that is not a factor."""
    return f"label_{option.replace('-', '_')}"


def is_server_command(command: CommandLine) -> bool:
    """Return whether the command line starts a server."""
    return "server" in parse_options(command.arguments, OPTION_SYNTAX)


def _find_factors_and_raw_levels(option: str, value: str, workload: str) -> list[tuple[str, object]]:
    if option in _RAW_LEVELS_BY_SWITCH:
        return [pair for pair in _RAW_LEVELS_BY_SWITCH[option] if FACTORS[pair[0]].has_workload(workload)]
    valued = {**_FACTOR_AND_PARSER_BY_OPTION, **_FACTOR_BY_WORKLOAD_AND_OPTION[workload]}
    if option == "affinity" and "," in value:  # 0,2: the client on CPU 0, the server on CPU 2
        return [("thread_cpus", value.replace(",", "/"))]
    if option in valued:
        name, read = valued[option]
        return [(name, read(value))]
    return [(label_name_for_option(option), value or "on")] if option in _LABEL_OPTIONS else []


def _parse_number(text: str, thousand: int) -> int | None:
    number = _NUMBER_PATTERN.fullmatch(text.strip()[:32])
    if number is None:
        return None
    return int(float(number[1]) * thousand ** max(0, _SUFFIXES_BY_POWER.find(number[2].lower() or " ")))


_DEFAULT_RAW_LEVELS_BY_WORKLOAD: Mapping[str, Mapping[str, object]] = {
    TCP_STREAM: {
        "streams": 1,
        "direction": "forward",
        "message_size": "128 KiB",
        "socket_buffer": "auto",
        "send_mode": "copy",
        "receive_mode": "copy",
        "transport": "tcp",
        "pacing_rate": "none",
    },
    UDP_STREAM: {
        "streams": 1,
        "direction": "forward",
        "socket_buffer": "auto",
        "bit_rate": f"{2**20} bit/s",
    },
}
"""Levels that hold if the command line says nothing else (iperf_api.h; iperf.h, `UDP_RATE`)."""

_RAW_LEVELS_BY_SWITCH: Mapping[str, tuple[tuple[str, object], ...]] = {
    "reverse": (("direction", "reverse"),),
    "bidir": (("direction", "both"),),
    "version4": (("ip_version", 4),),
    "version6": (("ip_version", 6),),
    "zerocopy": (("send_mode", "sendfile"),),
    "skip-rx-copy": (("receive_mode", "discard"),),
    "mptcp": (("transport", "mptcp"),),
    "gsro": (("udp_gso", "on"), ("udp_gro", "on")),
}

_FACTOR_AND_PARSER_BY_OPTION: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "parallel": ("streams", str),
    "window": ("socket_buffer", size_option_to_level),
}
_FACTOR_BY_WORKLOAD_AND_OPTION: Mapping[str, Mapping[str, tuple[str, Callable[[str], object]]]] = {
    TCP_STREAM: {
        "length": ("message_size", size_option_to_level),
        "congestion": ("congestion_control", str),
        "bitrate": ("pacing_rate", rate_option_to_level),
        "fq-rate": ("pacing_rate", rate_option_to_level),
    },
    UDP_STREAM: {
        "length": ("datagram_size", size_option_to_level),
        "bitrate": ("bit_rate", rate_option_to_level),
    },
}

_LABEL_OPTIONS = (
    *("affinity", "set-mss", "no-delay", "tos", "dscp", "flowlabel", "file", "sctp", "nstreams", "xbind"),
    *("repeating-payload", "dont-fragment", "pacing-timer", "bind-dev"),
)
