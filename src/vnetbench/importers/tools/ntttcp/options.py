"""NTttcp's command lines, of Windows and Linux: whose end they start, and the factors that they set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vnetbench.errors import BenchError
from vnetbench.importers.command_line import Command, Grammar, command_in, options_of
from vnetbench.importers.log_lines import Lines
from vnetbench.study.factors.registry import check_workload, parse_level
from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS, STREAM

SENDER, RECEIVER = "sender", "receiver"
PROGRAMS = ("ntttcp", "ntttcps", "ntttcpr", "ntttcp_x64", "ntttcp_x86", "ntttcp_arm64")
"""`ntttcps` and `ntttcpr`: before 5.x the two ends were two programs."""
LARGEST_DATAGRAM = 65535 - 8 - 20
"""ntttcp for Linux cuts a larger one down to this (const.h, MAX_UDP_SEND_SIZE)."""

STRAY = 60
"""Lines in a row that are not a run's own, after which it is given up: it was cut off before them."""

_NEAR = 12
"""Lines within which a command's output begins."""
_SIZE = re.compile(r"(\d+)([kKmMgG]?)[bB]?")
_POWER = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_RATE = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)")
_DECIMAL_POWER = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_MAPPING = re.compile(r"(\d+),(\*|-?\d+)(?:,\S*)?")

_WINDOWS = Grammar(
    valued={
        f"-{name}": name
        for name in (
            "l", "n", "p", "to", "a", "rb", "sb", "nic", "na", "uso", "x", "thr", "brn", "icp", "sam", "qos",
            "jm", "ps", "m", "t", "cd", "wu",
        )
    },
    switches={
        f"-{name}": name
        for name in (
            "s", "r", "u", "6", "v", "w", "d", "ns", "sp", "wa", "rt", "ndl", "hpt", "uro", "uc", "hv", "nsb",
            "lm", "cfi", "es", "f", "fr", "i",
        )
    },
)  # fmt: skip
"""ntttcp.c, Usage(); `-f`, `-fr` and `-i` only before 5.x."""
_LINUX = Grammar(
    valued={f"-{name}": name for name in "mPanlpbBWtCK"}
    | {f"--{name}": name for name in ("show-nic-packets", "show-dev-interrupts", "fq-rate-limit")},
    switches={f"-{name}": name for name in "DMLeH6uNQVR"}
    | {f"--{name}": name for name in ("show-tcp-retrans", "no-delay")},
)
"""parameter.c, parse_arguments(). `-s`, `-r`, `-f`, `-O`, `-x` and `-j` take a value if one stands there."""


@dataclass(frozen=True)
class Asked:
    """What an end was asked to do, as far as its log tells."""

    end: str = ""
    """`sender`, `receiver`, or empty where that is not told."""
    workload: str = ""
    """Empty where it is not told."""
    levels: Mapping[str, object] = field(default_factory=dict)
    """What sets a factor, by its name, as `parse_level` takes it."""
    buffer_bytes: int | None = None
    """What one call sends, or takes at most."""
    warm_up_s: float | None = None
    refused: str = ""
    """Why there is no metric of ours for what it does."""


def comes_with_output(lines: Lines, signs: re.Pattern[str]) -> bool:
    """Whether the next line is a command line of NTttcp whose output, known by a sign, follows at once."""
    line = lines.peek() or ""
    if command_in(line, PROGRAMS) is None:
        return False
    if signs.search(line):
        return True
    for ahead in range(1, _NEAR):
        following = lines.peek(ahead)
        if following is None or command_in(following, PROGRAMS):
            return False
        if signs.search(following):
            return True
    return False


def asked_on_windows(command: Command) -> Asked:
    """What a command line of NTttcp for Windows asks for; the defaults are those of its `Usage()`."""
    words = [word.lower() for word in command.words]
    options = options_of(words, _WINDOWS)
    end = _end(command.program, "s" in options, "r" in options)
    is_udp = "u" in options
    length = _bytes(options["l"]) if "l" in options else 128 if is_udp else 2**16
    warm_up = options.get("wu", "0")
    return Asked(
        end,
        DATAGRAMS if is_udp else STREAM,
        {**_of_mapping(words, end), **_common(end, is_udp, "6" in options, length)},
        length,
        float(warm_up) if warm_up.isdigit() else None,
        "a round trip (-rt) is no stream" if "rt" in options else "",
    )


def asked_on_linux(command: Command) -> Asked:
    """What a command line of ntttcp for Linux asks for; the defaults are those of its const.h."""
    options = options_of(command.words, _LINUX)
    is_sender = any(word.startswith("-s") for word in command.words)
    end = SENDER if is_sender else RECEIVER
    is_udp = "u" in options
    length = _bytes(options["b"]) if "b" in options else 2**17 if is_sender else 2**16
    if length and is_udp and is_sender:
        length = min(length, LARGEST_DATAGRAM)
    levels = _common(end, is_udp, "6" in options, length) | cpus_of(end, "any")
    if "m" in options:
        levels |= _of_mapping(command.words, end)
    if is_sender:
        levels["streams"] = _streams_on_linux(options)
        levels |= pacing(options.get("fq-rate-limit", ""))
    else:
        levels.pop("streams", None)  # a receiver is told its ports, and not how many come to each
    warm_up = options.get("W", "0")
    return Asked(
        end,
        DATAGRAMS if is_udp else STREAM,
        levels,
        length,
        float(warm_up) if warm_up.isdigit() else None,
    )


def factors_of(levels: Mapping[str, object], workload: str) -> tuple[dict[str, Level], tuple[str, ...]]:
    """The canonical levels, and a remark for each that is none (`-l 128m`), or of other workloads."""
    factors: dict[str, Level] = {}
    remarks = []
    for name, raw in levels.items():
        if raw is None:
            continue
        try:
            check_workload(name, workload)
            factors[name] = parse_level(name, raw)
        except BenchError as error:
            remarks.append(f"{name} is left out: {error.what}")
    return factors, tuple(remarks)


def sent_in_one_call(is_udp: bool, length: int | None) -> dict[str, object]:
    """The factor that the size of what one call sends is."""
    if not length:
        return {}
    return {"datagram_size" if is_udp else "message_size": f"{length} B"}


def pacing(rate: str) -> dict[str, object]:
    """The factor of `--fq-rate-limit 10G`: SO_MAX_PACING_RATE of each connection, in powers of 1000."""
    form = _RATE.fullmatch(rate)
    if form is None or float(form[1]) == 0:
        return {}
    return {"pacing_rate": f"{float(form[1]) * _DECIMAL_POWER[form[2].lower()]:.0f} bit/s"}


def cpus_of(end: str, cpus: str | None) -> dict[str, object]:
    """The CPUs of one end's threads: a label, as `thread_cpus` is of both ends."""
    return {f"label_{end}_cpus": cpus} if end else {}


def _common(end: str, is_udp: bool, is_ipv6: bool, length: int | None) -> dict[str, object]:
    levels: dict[str, object] = {"ip_version": 6 if is_ipv6 else 4}
    return levels | (sent_in_one_call(is_udp, length) if end == SENDER else {})


def _end(program: str, sends: bool, receives: bool) -> str:
    if sends or program == "ntttcps":
        return SENDER
    return RECEIVER if receives or program == "ntttcpr" else ""


def _of_mapping(words: Sequence[str], end: str) -> dict[str, object]:
    """Streams, and CPUs of this end, of `-m 4,0,10.0.0.2 4,1,10.0.0.3`: threads, CPU, receiver's address."""
    if "-m" not in words:
        return {}
    mappings = []
    for word in words[words.index("-m") + 1 :]:
        form = _MAPPING.fullmatch(word)
        if form is None:
            break
        mappings.append(form)
    if not mappings:
        return {}
    threads: Counter[str] = Counter()
    for form in mappings:
        threads[form[2]] += int(form[1])
    return {"streams": threads.total()} | cpus_of(end, _placement(threads))


def _placement(threads: Mapping[str, int]) -> str | None:
    """The CPUs that threads take in turn; None where some CPUs have more of them than others."""
    if not all(cpu.isdigit() for cpu in threads):
        return "any" if len(threads) == 1 else None
    return ",".join(threads) if len(set(threads.values())) == 1 else None


def _streams_on_linux(options: Mapping[str, str]) -> int | None:
    """Ports times threads for each times connections of each; `-m` makes it one thread a port."""
    ports, threads = 16, 4
    if form := _MAPPING.fullmatch(options.get("m", "")):
        ports, threads = int(form[1]), 1
    counts = [options.get("P", str(ports)), options.get("n", str(threads)), options.get("l", "1")]
    if not all(count.isdigit() and len(count) < 7 for count in counts):
        return None
    return int(counts[0]) * int(counts[1]) * int(counts[2])


def _bytes(size: str) -> int | None:
    """`128k` is 131072 on both systems (ConvertMemoryUnit, unit_atod); None for no size."""
    form = _SIZE.fullmatch(size)
    return int(form[1]) * _POWER[form[2].lower()] if form and len(size) < 16 else None
