"""netperf's tests by name: the load of each and which endpoint sends. Also netperf's units and options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from vnetbench.importers.command_line import CommandLine, OptionSyntax, parse_options
from vnetbench.importers.units import BYTES_BY_UNIT
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_CRR, TCP_RR, TCP_STREAM, UDP_STREAM

BITS_PER_S_BY_UNIT: Mapping[str, float] = {
    **{name: factor * 8 for name, factor in BYTES_BY_UNIT.items()},
    "10^0bits": 8,
    "10^3bits": 1e3,
    "10^6bits": 1e6,
    "10^9bits": 1e9,
}
"""netperf's units (netlib.c, `format_units`, `calc_thruput_interval`). With `-f b` it prints bytes but calls
them `10^0bits`: the divisor is 1 there, and 125 for `k`."""
DEFAULT_THROUGHPUT_UNIT = "10^6bits"
_UNIT_BY_LETTER = {
    "B": "Bytes",
    "K": "KBytes",
    "M": "MBytes",
    "G": "GBytes",
    "b": "10^0bits",
    "k": "10^3bits",
}
_UNIT_BY_LETTER |= {"m": "10^6bits", "g": "10^9bits"}


@dataclass(frozen=True)
class NetperfTest:
    """A test of netperf."""

    workload: str
    is_reverse: bool = False
    """Whether netserver sends."""
    factors: Mapping[str, Level] = field(default_factory=dict)
    """Factor levels that the test implies."""


_UDP_PROTOCOL_LABEL: Mapping[str, Level] = {"label_protocol": "udp"}
TEST_BY_NAME: Mapping[str, NetperfTest] = {
    "TCP_STREAM": NetperfTest(TCP_STREAM),
    "TCP_SENDFILE": NetperfTest(TCP_STREAM, factors={"send_mode": "sendfile"}),
    "TCP_MAERTS": NetperfTest(TCP_STREAM, is_reverse=True),
    "UDP_STREAM": NetperfTest(UDP_STREAM),
    "TCP_RR": NetperfTest(TCP_RR),
    "TCP_CRR": NetperfTest(TCP_CRR),
    "UDP_RR": NetperfTest(TCP_RR, factors=_UDP_PROTOCOL_LABEL),
}
"""Tests by the name that `-t` takes."""
OMNI_TEST_NAME = "OMNI"
"""Name of a test that only its results describe."""
_TEST_NAME_BY_TITLE = {
    "TCP STREAM": "TCP_STREAM",
    "TCP SENDFILE": "TCP_SENDFILE",
    "TCP MAERTS": "TCP_MAERTS",
    "UDP STREAM": "UDP_STREAM",
    "UDP UNIDIRECTIONAL SEND": "UDP_STREAM",
    "TCP REQUEST/RESPONSE": "TCP_RR",
    "TCP Connect/Request/Response": "TCP_CRR",
    "UDP REQUEST/RESPONSE": "UDP_RR",
}
"""Names of tests by the title of their tables."""
TITLE_PATTERN = re.compile(
    r"(?:MIGRATED )?(?P<title>[A-Za-z/| ]+?) TEST (?:from \S+ \(.*?\) port \d+ AF_\w+ )?to "
    r"(?P<target>\S+)(?P<details>.*)"
)
"""`MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET : demo`."""
PROGRAMS = ("netperf",)
_GENERAL_OPTION_SYNTAX = OptionSyntax(
    name_by_value_option={f"-{letter}": letter for letter in "aAbBdDfFHiIlLnOopPtTvWwYZ"},
    name_by_switch={f"-{letter}": letter for letter in "cCjNrSsVh"},
)
"""Options in front of `--`. `-c` and `-C` may take a rate, which nobody uses any more."""
_TEST_OPTION_SYNTAX = OptionSyntax(
    name_by_value_option={f"-{letter}": letter for letter in "bdHIklLmMoOpPrsSTtW"},
    name_by_switch={"-C": "C", "-D": "D"},
)
"""Options behind `--`."""
_SIZE_PATTERN = re.compile(r"(\d+)([kKmMgG]?)")
_MULTIPLIER_BY_SUFFIX = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
"""Source: netsh.c, `convert`."""


@dataclass(frozen=True)
class CommandRequestedTest:
    """What a command line requests. It is empty if the log has no command line."""

    general_options: Mapping[str, str] = field(default_factory=dict)
    test_options: Mapping[str, str] = field(default_factory=dict)
    test_name: str = ""
    is_omni: bool = False
    """Whether it requests results by name (`-o`, `-O`, `-k`)."""

    @classmethod
    def parse(cls, command: CommandLine | None) -> CommandRequestedTest:
        """Return what the command line requests."""
        if command is None:
            return cls()
        words = command.arguments
        separator = words.index("--") if "--" in words else len(words)
        test_words = words[separator + 1 :]
        general_options = parse_options(words[:separator], _GENERAL_OPTION_SYNTAX)
        return cls(
            general_options,
            parse_options(test_words, _TEST_OPTION_SYNTAX),
            general_options.get("t", "TCP_STREAM").upper(),
            any(word[:2] in ("-o", "-O", "-k") for word in test_words),
        )

    @property
    def requested_throughput_unit(self) -> str:
        """The unit of throughputs that are printed without one."""
        return _UNIT_BY_LETTER.get(self.general_options.get("f", "m"), DEFAULT_THROUGHPUT_UNIT)

    def socket_buffer_factor(self) -> dict[str, Level]:
        """Return the levels that no table prints as they were requested."""
        sizes = {
            name: _parse_single_size_bytes(self.test_options[name])
            for name in "sS"
            if name in self.test_options
        }
        distinct = set(sizes.values())
        if len(sizes) == 2 and len(distinct) == 1 and None not in distinct:
            return {"socket_buffer": distinct.pop() or 0}
        return {}


def _parse_single_size_bytes(text: str) -> int | None:
    sizes = {
        int(size[1]) * _MULTIPLIER_BY_SUFFIX[size[2]]
        for each in text.split(",")
        if (size := _SIZE_PATTERN.fullmatch(each)) is not None
    }
    return sizes.pop() if len(sizes) == 1 else None


def find_test_name(title: str) -> str:
    """Return the name of the test with this title; `OMNI_TEST_NAME` if only its results describe it."""
    return _TEST_NAME_BY_TITLE.get(title.strip(), OMNI_TEST_NAME)
