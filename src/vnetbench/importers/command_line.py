"""Command lines that stand in a log: behind which prompts, of which program, with which options."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_PROMPT = re.compile(
    r"""\s*(?:
        (?:PS\s)?[A-Za-z]:\\[^<>|"]*?>\s*        # C:\tools>iperf3   PS C:\Users\me> .\iperf3.exe
      | \[?[\w.-]+@[\w.-]+[^#$%>]{0,200}[#$%>]\s+  # root@h:~# iperf3   [me@h dir]$ iperf3
      | [#$%>+]\s*                                # $ iperf3   # iperf3   + iperf3 (set -x)
    )""",
    re.VERBOSE,
)
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")
_QUOTE = re.compile("[\"']")
_FOLDER = re.compile(r"[\\/]")
_OPERANDS = {"taskset": 1, "timeout": 1, "chrt": 1}
"""How many operands stand before the program that is run."""
_WRAPPERS = ("sudo", "time", "nohup", "exec", "start", "numactl", "nice", "stdbuf", *_OPERANDS)
"""What a command line runs a program under."""
_VALUED_BY_WRAPPERS = ("-n", "-c", "-C", "-N", "-m", "-u", "/affinity")
_LONGEST = 4096
"""Characters of a line that may be a command line."""


@dataclass(frozen=True)
class Command:
    """A command line in a log."""

    text: str
    """As it stands there, without the prompt."""
    program: str
    """The program's name without folder and `.exe`, in small letters."""
    words: tuple[str, ...]
    """What follows the program."""


@dataclass(frozen=True)
class Grammar:
    """The options of a tool: how each is written, and the one name that all its spellings go by."""

    valued: Mapping[str, str] = field(default_factory=dict)
    """Options that take a value: `{"-P": "parallel", "--parallel": "parallel"}`."""
    switches: Mapping[str, str] = field(default_factory=dict)
    """Those that take none: `{"-R": "reverse"}`."""


def command_in(line: str, programs: Collection[str]) -> Command | None:
    """The command line of one of these programs in a line of a log; None where there is none.

    Without a prompt before it the program must stand first, and an option or nothing after it: lines of
    output begin with programs' names too (`iperf3: error - …`, `iperf 3.12`).
    """
    if len(line) > _LONGEST:
        return None
    small = line.lower()
    if not any(program in small for program in programs):
        return None
    prompt = _PROMPT.match(line)
    text = line[prompt.end() if prompt else 0 :].strip()
    words = tuple(split(text))
    for at in _program_positions(words):
        name = program_name(words[at])
        after = words[at + 1 :]
        if name in programs and (prompt or not after or after[0].startswith("-")):
            return Command(text, name, after)
    return None


def split(text: str) -> list[str]:
    """The words of a command line, with quotes taken off: a backslash is part of a Windows path."""
    return [_QUOTE.sub("", word) for word in _WORD.findall(text)]


def program_name(word: str) -> str:
    r"""`iperf3` of `C:\tools\iperf3.exe`, `./iperf3` or `/usr/bin/iperf3`."""
    return _FOLDER.split(word)[-1].lower().removesuffix(".exe")


def options_of(words: Sequence[str], grammar: Grammar) -> dict[str, str]:
    """Each option's name to its value (empty of a switch); operands and unknown options are left out.

    Understands `-P 4`, `-P4`, `--parallel 4`, `--parallel=4`, `-t:60` and switches in one word (`-uR`).
    The last of an option that stands twice holds, and `--` ends them.
    """
    found: dict[str, str] = {}
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            break
        if word in grammar.switches:
            found[grammar.switches[word]] = ""
        elif word in grammar.valued:
            if rest:
                found[grammar.valued[word]] = rest.pop()
        elif word.startswith("--"):
            name, is_attached, value = word.partition("=")
            if is_attached and name in {**grammar.valued, **grammar.switches}:
                found[{**grammar.switches, **grammar.valued}[name]] = value
        elif word.startswith("-") and len(word) > 2:
            _in_one_word(word, grammar, found, rest)
    return found


def _in_one_word(word: str, grammar: Grammar, found: dict[str, str], rest: list[str]) -> None:
    """Of `-uRP4`: switches, until one that takes the rest (or the next word) as its value."""
    for at, letter in enumerate(word[1:], 1):
        option = f"-{letter}"
        if option in grammar.valued:
            value = word[at + 1 :].lstrip(":=")
            if value or rest:
                found[grammar.valued[option]] = value or rest.pop()
            return
        if option not in grammar.switches:
            return
        found[grammar.switches[option]] = ""


def _program_positions(words: Sequence[str]) -> Iterator[int]:
    """Where the program of a command line may stand: first, or behind what it is run under."""
    at = 0
    while at < len(words):
        yield at
        name = program_name(words[at])
        if "=" in words[at] and not words[at].startswith("-"):  # LC_ALL=C iperf3
            at += 1
        elif name == "ip":  # ip netns exec NAME iperf3
            at += 4
        elif name in _WRAPPERS:
            at = _after_wrapper(words, at + 1, _OPERANDS.get(name, 0), "/" if name == "start" else "-")
        else:
            return


def _after_wrapper(words: Sequence[str], at: int, operands: int, mark: str) -> int:
    while at < len(words) and words[at].startswith(mark):
        operands -= words[at] in ("-c", "-C") and operands > 0  # taskset -c 0: no mask follows
        at += 2 if words[at] in _VALUED_BY_WRAPPERS else 1
    return at + max(0, operands)
