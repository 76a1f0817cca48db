"""iperf3's options: what a command line in a log says of a run's factors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from vnetbench.errors import BenchError
from vnetbench.importers.command_line import Command, Grammar, options_of
from vnetbench.study.factors.registry import FACTORS, factor_named, parse_level
from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS, STREAM

PROGRAMS = ("iperf3",)

_LETTERS = {
    "p": "port", "f": "format", "i": "interval", "c": "client", "b": "bitrate", "t": "time",
    "n": "bytes", "k": "blockcount", "l": "length", "P": "parallel", "w": "window", "B": "bind",
    "M": "set-mss", "S": "tos", "L": "flowlabel", "O": "omit", "F": "file", "A": "affinity",
    "T": "title", "C": "congestion", "I": "pidfile", "X": "xbind", "s": "server", "D": "daemon",
    "V": "verbose", "J": "json", "d": "debug", "v": "version", "h": "help", "u": "udp",
    "R": "reverse", "N": "no-delay", "Z": "zerocopy", "m": "mptcp", "1": "one-off",
    "4": "version4", "6": "version6",
}  # fmt: skip
_SWITCHED = (
    "server", "daemon", "one-off", "verbose", "json", "json-stream", "json-stream-full-output", "debug",
    "version", "help", "udp", "reverse", "bidir", "no-delay", "version4", "version6", "zerocopy", "mptcp",
    "sctp", "skip-rx-copy", "gsro", "timestamps", "forceflush", "get-server-output", "dont-fragment",
    "repeating-payload", "udp-counters-64bit", "no-fq-socket-pacing", "use-pkcs1-padding",
)  # fmt: skip
_WITH_VALUE = (
    "client", "port", "format", "interval", "bitrate", "time", "bytes", "blockcount", "length",
    "parallel", "window", "bind", "bind-dev", "cport", "set-mss", "tos", "dscp", "flowlabel", "omit",
    "file", "affinity", "title", "extra-data", "congestion", "nstreams", "xbind", "pidfile", "logfile",
    "username", "rsa-public-key-path", "fq-rate", "pacing-timer", "connect-timeout", "idle-timeout",
    "rcv-timeout", "snd-timeout",
)  # fmt: skip
_FORMER = {"--bandwidth": "bitrate", "--linux-congestion": "congestion"}

GRAMMAR = Grammar(
    valued={f"--{name}": name for name in _WITH_VALUE}
    | {f"-{letter}": name for letter, name in _LETTERS.items() if name in _WITH_VALUE}
    | _FORMER,
    switches={f"--{name}": name for name in _SWITCHED}
    | {f"-{letter}": name for letter, name in _LETTERS.items() if name in _SWITCHED},
)
"""By their long names (iperf_api.c, `longopts`)."""

_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([kmgt]?)", re.IGNORECASE)
_POWERS = " kmgt"


@dataclass(frozen=True)
class Asked:
    """What a command line asks for."""

    workload: str
    factors: Mapping[str, Level]
    """Options that are no factor of ours but change a run are labels: `label_set_mss`."""
    also: Mapping[str, str]
    """Options whose value is none of a factor's levels."""


def level_of(name: str, workload: str, raw: object) -> Level | None:
    """The canonical level of a factor or label; None where it is out of range, or not of the workload."""
    if workload not in factor_named(name).workloads:
        return None
    try:
        return parse_level(name, raw)
    except BenchError:
        return None


known_level = lru_cache(1024)(level_of)
"""The same of a text: the runs of a log are much alike."""


def size_of(text: str) -> str:
    """A size as `-l` and `-w` take it, for a factor: K, M and G are of 1024 (units.c, `unit_atof`)."""
    number = _number(text, 1024)
    return text if number is None else f"{number} B"


def rate_of(text: str) -> str:
    """A rate as `-b` takes it, for a factor: K, M and G are of 1000 (units.c, `unit_atof_rate`)."""
    number = _number(text.partition("/")[0], 1000)
    return text if number is None else f"{number} bit/s" if number else "none"


def asked_by(command: Command) -> Asked | None:
    """What the command line of a client asks for; None where it is not a client's."""
    options = options_of(command.words, GRAMMAR)
    if "client" not in options:
        return None
    workload = DATAGRAMS if "udp" in options else STREAM
    factors = {name: known_level(name, workload, raw) for name, raw in _DEFAULTS[workload].items()}
    also = {}
    for option, value in options.items():
        for name, raw in _raw_levels(option, value, workload):
            factors[name] = known_level(name, workload, raw)
            if factors[name] is None:
                also[f"--{option}"] = value
    if "sctp" in options:
        factors["transport"] = None
    return Asked(workload, {name: level for name, level in factors.items() if level is not None}, also)


def asked_of(command: Command | None, workload: str = "") -> Asked:
    """What the command line of a run asks for: nothing where there is none, or it is of another workload."""
    asked = asked_by(command) if command else None
    if asked is None or workload not in ("", asked.workload):
        return Asked(workload or STREAM, {}, {})
    return asked


def label_of(option: str) -> str:
    """The label that stands for an option that is no factor."""
    return f"label_{option.replace('-', '_')}"


def is_of_server(command: Command) -> bool:
    """Whether the command line starts a server."""
    return "server" in options_of(command.words, GRAMMAR)


def _raw_levels(option: str, value: str, workload: str) -> list[tuple[str, object]]:
    if option in _SWITCHES:
        return [pair for pair in _SWITCHES[option] if workload in FACTORS[pair[0]].workloads]
    valued = {**_VALUED, **_VALUED_OF[workload]}
    if option == "affinity" and "," in value:  # 0,2: the client on CPU 0, the server on CPU 2
        return [("thread_cpus", value.replace(",", "/"))]
    if option in valued:
        name, read = valued[option]
        return [(name, read(value))]
    return [(label_of(option), value or "on")] if option in _OF_NO_FACTOR else []


def _number(text: str, thousand: int) -> int | None:
    number = _NUMBER.fullmatch(text.strip()[:32])
    if number is None:
        return None
    return int(float(number[1]) * thousand ** max(0, _POWERS.find(number[2].lower() or " ")))


_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    STREAM: {
        "streams": 1,
        "direction": "forward",
        "message_size": "128 KiB",
        "socket_buffer": "auto",
        "send_mode": "copy",
        "receive_mode": "copy",
        "transport": "tcp",
        "pacing_rate": "none",
    },
    DATAGRAMS: {
        "streams": 1,
        "direction": "forward",
        "socket_buffer": "auto",
        "bit_rate": f"{2**20} bit/s",
    },
}
"""What holds where a command line says nothing else (iperf_api.h; iperf.h, `UDP_RATE`)."""

_SWITCHES: Mapping[str, tuple[tuple[str, object], ...]] = {
    "reverse": (("direction", "reverse"),),
    "bidir": (("direction", "both"),),
    "version4": (("ip_version", 4),),
    "version6": (("ip_version", 6),),
    "zerocopy": (("send_mode", "sendfile"),),
    "skip-rx-copy": (("receive_mode", "discard"),),
    "mptcp": (("transport", "mptcp"),),
    "gsro": (("udp_gso", "on"), ("udp_gro", "on")),
}

_VALUED: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "parallel": ("streams", str),
    "window": ("socket_buffer", size_of),
}
_VALUED_OF: Mapping[str, Mapping[str, tuple[str, Callable[[str], object]]]] = {
    STREAM: {
        "length": ("message_size", size_of),
        "congestion": ("congestion_control", str),
        "bitrate": ("pacing_rate", rate_of),
        "fq-rate": ("pacing_rate", rate_of),
    },
    DATAGRAMS: {"length": ("datagram_size", size_of), "bitrate": ("bit_rate", rate_of)},
}

_OF_NO_FACTOR = (
    *("affinity", "set-mss", "no-delay", "tos", "dscp", "flowlabel", "file", "sctp", "nstreams", "xbind"),
    *("repeating-payload", "dont-fragment", "pacing-timer", "bind-dev"),
)
