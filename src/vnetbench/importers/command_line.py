"""Find command lines in a log: behind a prompt, of a given program, with their options."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_PROMPT_PATTERN = re.compile(
    r"""\s*(?:
        (?:PS\s)?[A-Za-z]:\\[^<>|"]*?>\s*        # C:\tools>iperf3   PS C:\Users\me> .\iperf3.exe
      | \[?[\w.-]+@[\w.-]+[^#$%>]{0,200}[#$%>]\s+  # root@h:~# iperf3   [me@h dir]$ iperf3
      | [#$%>+]\s*                                # $ iperf3   # iperf3   + iperf3 (set -x)
    )""",
    re.VERBOSE,
)
_WORD_PATTERN = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")
_QUOTE_PATTERN = re.compile("[\"']")
_PATH_SEPARATOR_PATTERN = re.compile(r"[\\/]")
_OPERAND_COUNT_BY_WRAPPER = {"taskset": 1, "timeout": 1, "chrt": 1}
"""Number of operands in front of the program that is run."""
_WRAPPER_PROGRAMS = (
    "sudo",
    "time",
    "nohup",
    "exec",
    "start",
    "numactl",
    "nice",
    "stdbuf",
    *_OPERAND_COUNT_BY_WRAPPER,
)
"""Programs that run another program."""
_WRAPPER_OPTIONS_WITH_VALUE = ("-n", "-c", "-C", "-N", "-m", "-u", "/affinity")
_MAX_SEARCHED_LINE_CHARACTERS = 4096
"""Longest line, in characters, that is searched for a command line."""
_MAX_CACHED_LINES = 512
"""Lines that are kept parsed: several readers look at a line, some of them more than once."""


@dataclass(frozen=True)
class CommandLine:
    """A command line in a log."""

    text: str
    """The command line as the log has it, without the prompt."""
    program: str
    """The program's name in lower case, without folder and `.exe`."""
    arguments: tuple[str, ...]
    """The words behind the program."""


@dataclass(frozen=True)
class OptionSyntax:
    """The options of a tool: all spellings of each, and the one name that stands for them."""

    name_by_value_option: Mapping[str, str] = field(default_factory=dict)
    """Options that take a value: `{"-P": "parallel", "--parallel": "parallel"}`."""
    name_by_switch: Mapping[str, str] = field(default_factory=dict)
    """Options without a value: `{"-R": "reverse"}`."""


def find_command_line(line: str, programs: Collection[str]) -> CommandLine | None:
    """Return the command line of one of these programs in a line of a log; None if there is none.

    Without a prompt the program must come first, with an option or nothing behind it. Lines of output start
    with program names too (`iperf3: error - …`, `iperf 3.12`).
    """
    if len(line) > _MAX_SEARCHED_LINE_CHARACTERS:
        return None
    lower = line.lower()
    for program in programs:
        if program in lower:
            return _parse_command_line(line, tuple(programs))
    return None


@lru_cache(_MAX_CACHED_LINES)
def _parse_command_line(line: str, programs: tuple[str, ...]) -> CommandLine | None:
    prompt = _PROMPT_PATTERN.match(line)
    text = line[prompt.end() if prompt else 0 :].strip()
    words = tuple(split_words(text))
    for at in _possible_program_positions(words):
        name = program_name(words[at])
        arguments = words[at + 1 :]
        if name in programs and (prompt or not arguments or arguments[0].startswith("-")):
            return CommandLine(text, name, arguments)
    return None


def split_words(text: str) -> list[str]:
    """Return the words of a command line without quotes. A backslash is part of a Windows path."""
    return [_QUOTE_PATTERN.sub("", word) for word in _WORD_PATTERN.findall(text)]


def program_name(program_path: str) -> str:
    r"""Return `iperf3` for `C:\tools\iperf3.exe`, `./iperf3` or `/usr/bin/iperf3`."""
    return _PATH_SEPARATOR_PATTERN.split(program_path)[-1].lower().removesuffix(".exe")


def parse_options(arguments: Sequence[str], syntax: OptionSyntax) -> dict[str, str]:
    """Return the value of each option by its name. A switch has an empty value.

    Accepts `-P 4`, `-P4`, `--parallel 4`, `--parallel=4`, `-t:60` and combined switches (`-uR`). Operands and
    unknown options are left out. The last one of a repeated option counts, and `--` ends the options.
    """
    options: dict[str, str] = {}
    remaining = list(reversed(arguments))
    while remaining:
        word = remaining.pop()
        if word == "--":
            break
        if word in syntax.name_by_switch:
            options[syntax.name_by_switch[word]] = ""
        elif word in syntax.name_by_value_option:
            if remaining:
                options[syntax.name_by_value_option[word]] = remaining.pop()
        elif word.startswith("--"):
            name, is_attached, value = word.partition("=")
            if is_attached and name in {**syntax.name_by_value_option, **syntax.name_by_switch}:
                options[{**syntax.name_by_switch, **syntax.name_by_value_option}[name]] = value
        elif word.startswith("-") and len(word) > 2:
            _parse_combined_options(word, syntax, options, remaining)
    return options


def _parse_combined_options(
    combined_options: str, syntax: OptionSyntax, options: dict[str, str], remaining_arguments: list[str]
) -> None:
    """Parse a word such as `-uRP4`: switches, then possibly an option with a value.

    The value is the rest of the word, or the next word.
    """
    for at, letter in enumerate(combined_options[1:], 1):
        option = f"-{letter}"
        if option in syntax.name_by_value_option:
            value = combined_options[at + 1 :].lstrip(":=")
            if value or remaining_arguments:
                options[syntax.name_by_value_option[option]] = value or remaining_arguments.pop()
            return
        if option not in syntax.name_by_switch:
            return
        options[syntax.name_by_switch[option]] = ""


def _possible_program_positions(command_words: Sequence[str]) -> Iterator[int]:
    """Yield where the program may stand: first, or behind a program that runs it."""
    at = 0
    while at < len(command_words):
        yield at
        name = program_name(command_words[at])
        if "=" in command_words[at] and not command_words[at].startswith("-"):  # LC_ALL=C iperf3
            at += 1
        elif name == "ip":  # ip netns exec NAME iperf3
            at += 4
        elif name in _WRAPPER_PROGRAMS:
            at = _skip_wrapper_options_and_operands(
                command_words, at + 1, _OPERAND_COUNT_BY_WRAPPER.get(name, 0), "/" if name == "start" else "-"
            )
        else:
            return


def _skip_wrapper_options_and_operands(
    command_words: Sequence[str], position: int, operand_count: int, option_prefix: str
) -> int:
    while position < len(command_words) and command_words[position].startswith(option_prefix):
        operand_count -= (
            command_words[position] in ("-c", "-C") and operand_count > 0
        )  # taskset -c 0: no mask follows
        position += 2 if command_words[position] in _WRAPPER_OPTIONS_WITH_VALUE else 1
    return position + max(0, operand_count)
