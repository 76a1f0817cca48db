"""The command lines of NTttcp for Windows and Linux: their endpoint and the factors that they set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vnetbench.errors import BenchError
from vnetbench.importers.command_line import CommandLine, OptionSyntax, find_command_line, parse_options
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.runs import SenderOrReceiver
from vnetbench.study.factors.registry import check_factor_workload, parse_level
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM, WORKLOADS

SENDER, RECEIVER = "sender", "receiver"
PROGRAMS = ("ntttcp", "ntttcps", "ntttcpr", "ntttcp_x64", "ntttcp_x86", "ntttcp_arm64")
"""`ntttcps` and `ntttcpr`: before 5.x each endpoint had its own program."""
LARGEST_DATAGRAM_BYTES = 65535 - 8 - 20
"""ntttcp for Linux reduces larger sizes to this (const.h, MAX_UDP_SEND_SIZE)."""

MAX_CONSECUTIVE_FOREIGN_LINES = 60
"""Maximum consecutive foreign lines within a run. After more of them the run counts as cut off."""

_MAX_LINES_FROM_COMMAND_TO_OUTPUT = 12
"""Lines within which a command's output starts."""
_SIZE_PATTERN = re.compile(r"(\d+)([kKmMgG]?)[bB]?")
_BINARY_MULTIPLIER_BY_SUFFIX = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_RATE_PATTERN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)")
_DECIMAL_MULTIPLIER_BY_SUFFIX = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_THREAD_MAPPING_PATTERN = re.compile(r"(\d+),(\*|-?\d+)(?:,\S*)?")

_WINDOWS_OPTION_SYNTAX = OptionSyntax(
    name_by_value_option={
        f"-{name}": name
        for name in (
            "l", "n", "p", "to", "a", "rb", "sb", "nic", "na", "uso", "x", "thr", "brn", "icp", "sam", "qos",
            "jm", "ps", "m", "t", "cd", "wu",
        )
    },
    name_by_switch={
        f"-{name}": name
        for name in (
            "s", "r", "u", "6", "v", "w", "d", "ns", "sp", "wa", "rt", "ndl", "hpt", "uro", "uc", "hv", "nsb",
            "lm", "cfi", "es", "f", "fr", "i",
        )
    },
)  # fmt: skip
"""Source: ntttcp.c, Usage(). `-f`, `-fr` and `-i` exist only before 5.x."""
_LINUX_OPTION_SYNTAX = OptionSyntax(
    name_by_value_option={f"-{name}": name for name in "mPanlpbBWtCK"}
    | {f"--{name}": name for name in ("show-nic-packets", "show-dev-interrupts", "fq-rate-limit")},
    name_by_switch={f"-{name}": name for name in "DMLeH6uNQVR"}
    | {f"--{name}": name for name in ("show-tcp-retrans", "no-delay")},
)
"""Source: parameter.c, parse_arguments(). `-s`, `-r`, `-f`, `-O`, `-x` and `-j` take an optional value."""


@dataclass(frozen=True)
class RequestedOptions:
    """What an endpoint was started with, as far as the log says."""

    endpoint: SenderOrReceiver = ""
    """`sender`, `receiver`, or empty if unknown."""
    workload: str = ""
    """Empty if unknown."""
    raw_level_by_factor: Mapping[str, object] = field(default_factory=dict)
    """Levels by factor, as `parse_level` takes them."""
    max_bytes_per_call: int | None = None
    """What one call sends, or receives at most."""
    warm_up_s: float | None = None
    unsupported_reason: str = ""
    """Why no metric of ours matches the test."""

    @property
    def has_datagrams(self) -> bool:
        """Whether the load is known to be UDP."""
        return bool(self.workload) and WORKLOADS[self.workload].has_datagrams


def is_command_with_output_next(lines: LogLines, output_pattern: re.Pattern[str]) -> bool:
    """Return whether the next line is a command line of NTttcp, closely followed by its output."""
    line = lines.peek_line() or ""
    if find_command_line(line, PROGRAMS) is None:
        return False
    if output_pattern.search(line):
        return True
    for offset in range(1, _MAX_LINES_FROM_COMMAND_TO_OUTPUT):
        following = lines.peek_line(offset)
        if following is None or find_command_line(following, PROGRAMS):
            return False
        if output_pattern.search(following):
            return True
    return False


def parse_windows_command(command: CommandLine) -> RequestedOptions:
    """Return what a command line of NTttcp for Windows requests. The defaults are those of its `Usage()`."""
    words = [word.lower() for word in command.arguments]
    options = parse_options(words, _WINDOWS_OPTION_SYNTAX)
    endpoint = _find_endpoint(command.program, "s" in options, "r" in options)
    is_udp = "u" in options
    length = _parse_size_bytes(options["l"]) if "l" in options else 128 if is_udp else 2**16
    warm_up = options.get("wu", "0")
    return RequestedOptions(
        endpoint,
        UDP_STREAM if is_udp else TCP_STREAM,
        {
            **_parse_streams_and_cpus(words, endpoint),
            **_build_common_raw_levels(endpoint, is_udp, "6" in options, length),
        },
        length,
        float(warm_up) if warm_up.isdigit() else None,
        "vnetbench has no workload for a round-trip test (-rt)" if "rt" in options else "",
    )


def parse_linux_command(command: CommandLine) -> RequestedOptions:
    """Return what a command line of ntttcp for Linux requests. The defaults are those of its const.h."""
    options = parse_options(command.arguments, _LINUX_OPTION_SYNTAX)
    is_sender = any(word.startswith("-s") for word in command.arguments)
    endpoint = SENDER if is_sender else RECEIVER
    is_udp = "u" in options
    length = _parse_size_bytes(options["b"]) if "b" in options else 2**17 if is_sender else 2**16
    if length and is_udp and is_sender:
        length = min(length, LARGEST_DATAGRAM_BYTES)
    levels = _build_common_raw_levels(endpoint, is_udp, "6" in options, length) | raw_cpu_label(
        endpoint, "any"
    )
    if "m" in options:
        levels |= _parse_streams_and_cpus(command.arguments, endpoint)
    if is_sender:
        levels["streams"] = _count_streams_on_linux(options)
        levels |= raw_pacing_rate_level(options.get("fq-rate-limit", ""))
    else:
        levels.pop("streams", None)  # A receiver knows its ports, but not how many streams each gets.
    warm_up = options.get("W", "0")
    return RequestedOptions(
        endpoint,
        UDP_STREAM if is_udp else TCP_STREAM,
        levels,
        length,
        float(warm_up) if warm_up.isdigit() else None,
    )


def parse_levels_and_remarks(
    raw_level_by_factor: Mapping[str, object], workload: str
) -> tuple[dict[str, Level], tuple[str, ...]]:
    """Return the canonical levels, and a remark for each one that is invalid or of other workloads."""
    factors: dict[str, Level] = {}
    remarks = []
    for name, raw in raw_level_by_factor.items():
        if raw is None:
            continue
        try:
            check_factor_workload(name, workload)
            factors[name] = parse_level(name, raw)
        except BenchError as error:
            remarks.append(f"vnetbench leaves out the factor {name}, because {error.what}.")
    return factors, tuple(remarks)


def raw_write_size_level(is_udp: bool, size_bytes: int | None) -> dict[str, object]:
    """Return the factor for the size of one write."""
    if not size_bytes:
        return {}
    return {"datagram_size" if is_udp else "message_size": f"{size_bytes} B"}


def raw_pacing_rate_level(fq_rate_limit: str) -> dict[str, object]:
    """Return the factor for `--fq-rate-limit 10G`.

    It sets SO_MAX_PACING_RATE of each connection, in powers of 1000.
    """
    match = _RATE_PATTERN.fullmatch(fq_rate_limit)
    if match is None or float(match[1]) == 0:
        return {}
    return {"pacing_rate": f"{float(match[1]) * _DECIMAL_MULTIPLIER_BY_SUFFIX[match[2].lower()]:.0f} bit/s"}


def raw_cpu_label(endpoint: str, cpus: str | None) -> dict[str, object]:
    """Return the label for the CPUs of one endpoint's threads.

    The factor `thread_cpus` needs both endpoints.
    """
    return {f"label_{endpoint}_cpus": cpus} if endpoint else {}


def _build_common_raw_levels(
    endpoint: str, is_udp: bool, is_ipv6: bool, size_bytes: int | None
) -> dict[str, object]:
    levels: dict[str, object] = {"ip_version": 6 if is_ipv6 else 4}
    return levels | (raw_write_size_level(is_udp, size_bytes) if endpoint == SENDER else {})


def _find_endpoint(program: str, sends: bool, receives: bool) -> str:
    if sends or program == "ntttcps":
        return SENDER
    return RECEIVER if receives or program == "ntttcpr" else ""


def _parse_streams_and_cpus(arguments: Sequence[str], endpoint: str) -> dict[str, object]:
    """Return streams and CPUs of `-m 4,0,10.0.0.2 4,1,10.0.0.3`: threads, CPU, receiver's address."""
    if "-m" not in arguments:
        return {}
    mappings = []
    for word in arguments[arguments.index("-m") + 1 :]:
        match = _THREAD_MAPPING_PATTERN.fullmatch(word)
        if match is None:
            break
        mappings.append(match)
    if not mappings:
        return {}
    threads: Counter[str] = Counter()
    for match in mappings:
        threads[match[2]] += int(match[1])
    return {"streams": threads.total()} | raw_cpu_label(endpoint, _format_evenly_used_cpus(threads))


def _format_evenly_used_cpus(thread_count_by_cpu: Mapping[str, int]) -> str | None:
    """Return the CPUs that threads take in turn; None if some CPUs have more threads than others."""
    if not all(cpu.isdigit() for cpu in thread_count_by_cpu):
        return "any" if len(thread_count_by_cpu) == 1 else None
    return ",".join(thread_count_by_cpu) if len(set(thread_count_by_cpu.values())) == 1 else None


def _count_streams_on_linux(options: Mapping[str, str]) -> int | None:
    """Return ports times threads per port times connections per thread. `-m` implies one thread per port."""
    ports, threads = 16, 4
    if match := _THREAD_MAPPING_PATTERN.fullmatch(options.get("m", "")):
        ports, threads = int(match[1]), 1
    counts = [options.get("P", str(ports)), options.get("n", str(threads)), options.get("l", "1")]
    if not all(count.isdigit() and len(count) < 7 for count in counts):
        return None
    return int(counts[0]) * int(counts[1]) * int(counts[2])


def _parse_size_bytes(size: str) -> int | None:
    """Return bytes: `128k` is 131072 on both systems (ConvertMemoryUnit, unit_atod). None for no size."""
    match = _SIZE_PATTERN.fullmatch(size)
    return (
        int(match[1]) * _BINARY_MULTIPLIER_BY_SUFFIX[match[2].lower()] if match and len(size) < 16 else None
    )
