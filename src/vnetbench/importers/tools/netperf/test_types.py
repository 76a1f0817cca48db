"""netperf's tests by their names: what each loads, and which end sends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from vnetbench.importers.command_line import Command, Grammar, command_in, options_of
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.units import BYTES
from vnetbench.study.model import Level
from vnetbench.study.workloads import CONNECTIONS, DATAGRAMS, REQUESTS, STREAM

BITS_PER_S: Mapping[str, float] = {
    **{name: factor * 8 for name, factor in BYTES.items()},
    "10^0bits": 8,
    "10^3bits": 1e3,
    "10^6bits": 1e6,
    "10^9bits": 1e9,
}
"""netperf's units (netlib.c, `format_units`, `calc_thruput_interval`). With `-f b` it prints bytes, and calls
them `10^0bits`: its divisor is 1 where that of `k` is 125."""
USUAL_UNIT = "10^6bits"
_LETTERS = {"B": "Bytes", "K": "KBytes", "M": "MBytes", "G": "GBytes", "b": "10^0bits", "k": "10^3bits"}
_LETTERS |= {"m": "10^6bits", "g": "10^9bits"}


@dataclass(frozen=True)
class Test:
    """A test of netperf."""

    workload: str
    is_reverse: bool = False
    """Whether netserver sends."""
    factors: Mapping[str, Level] = field(default_factory=dict)
    """What the test itself sets."""


_UDP: Mapping[str, Level] = {"label_protocol": "udp"}
TESTS: Mapping[str, Test] = {
    "TCP_STREAM": Test(STREAM),
    "TCP_SENDFILE": Test(STREAM, factors={"send_mode": "sendfile"}),
    "TCP_MAERTS": Test(STREAM, is_reverse=True),
    "UDP_STREAM": Test(DATAGRAMS),
    "TCP_RR": Test(REQUESTS),
    "TCP_CRR": Test(CONNECTIONS),
    "UDP_RR": Test(REQUESTS, factors=_UDP),
}
"""By the name that `-t` gives."""
_TITLES = {
    "TCP STREAM": "TCP_STREAM",
    "TCP SENDFILE": "TCP_SENDFILE",
    "TCP MAERTS": "TCP_MAERTS",
    "UDP STREAM": "UDP_STREAM",
    "UDP UNIDIRECTIONAL SEND": "UDP_STREAM",
    "TCP REQUEST/RESPONSE": "TCP_RR",
    "TCP Connect/Request/Response": "TCP_CRR",
    "UDP REQUEST/RESPONSE": "UDP_RR",
}
"""By the title of their tables."""
TITLE = re.compile(
    r"(?:MIGRATED )?(?P<title>[A-Za-z/| ]+?) TEST (?:from \S+ \(.*?\) port \d+ AF_\w+ )?to "
    r"(?P<to>\S+)(?P<more>.*)"
)
"""`MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET : demo`."""
PROGRAMS = ("netperf",)
_GRAMMAR = Grammar(
    valued={f"-{letter}": letter for letter in "aAbBdDfFHiIlLnOopPtTvWwYZ"},
    switches={f"-{letter}": letter for letter in "cCjNrSsVh"},
)
"""Of what stands before `--`; `-c` and `-C` may have a rate behind them, which nobody gives any more."""
_OF_TEST = Grammar(
    valued={f"-{letter}": letter for letter in "bdHIklLmMoOpPrsSTtW"}, switches={"-C": "C", "-D": "D"}
)
"""Of what stands behind `--`."""
_SIZE = re.compile(r"(\d+)([kKmMgG]?)")
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
"""netsh.c, `convert`."""


@dataclass(frozen=True)
class Asked:
    """A command line of netperf; nothing where the log has none."""

    text: str = ""
    general: Mapping[str, str] = field(default_factory=dict)
    of_test: Mapping[str, str] = field(default_factory=dict)
    is_omni: bool = False
    """It asks for results by name (`-o`, `-O`, `-k`)."""

    @property
    def test(self) -> str:
        """The name of its test; empty where there is no command line."""
        return self.general.get("t", "TCP_STREAM").upper() if self.text else ""

    @property
    def unit(self) -> str:
        """Of throughputs that stand without one."""
        return _LETTERS.get(self.general.get("f", "m"), USUAL_UNIT)

    def factors(self) -> dict[str, Level]:
        """Levels that no table tells as they were asked."""
        sizes = {name: _bytes(self.of_test[name]) for name in ("s", "S") if name in self.of_test}
        same = set(sizes.values())
        if len(sizes) == 2 and len(same) == 1 and None not in same:
            return {"socket_buffer": same.pop() or 0}
        return {}


def _bytes(text: str) -> int | None:
    sizes = {
        int(found[1]) * _SUFFIXES[found[2]]
        for each in text.split(",")
        if (found := _SIZE.fullmatch(each)) is not None
    }
    return sizes.pop() if len(sizes) == 1 else None


def command_at(lines: Lines) -> Command | None:
    """netperf's command line, if it is the next line; takes none."""
    line = lines.peek() or ""
    return command_in(line, PROGRAMS) if "netperf" in line else None


def asked(command: Command | None) -> Asked:
    """What a command asks for."""
    if command is None or "-V" in command.words or "-h" in command.words:
        return Asked()
    words = command.words
    cut = words.index("--") if "--" in words else len(words)
    of_test = words[cut + 1 :]
    is_omni = any(word[:2] in ("-o", "-O", "-k") for word in of_test)
    return Asked(command.text, options_of(words[:cut], _GRAMMAR), options_of(of_test, _OF_TEST), is_omni)


def test_titled(title: str) -> str:
    """The name of the test of a table's title; `OMNI` where only its results tell what it did."""
    return _TITLES.get(title.strip(), "OMNI")
