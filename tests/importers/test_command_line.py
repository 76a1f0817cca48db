"""Find command lines in a log and parse their options."""

from __future__ import annotations

import pytest

from vnetbench.importers.command_line import OptionSyntax, find_command_line, parse_options, split_words

pytestmark = pytest.mark.pure

PROGRAMS = ("iperf3", "ntttcp", "netperf")
SYNTAX = OptionSyntax(
    {"-P": "parallel", "--parallel": "parallel", "-t": "time", "-c": "client", "-m": "mapping"},
    {"-u": "udp", "-R": "reverse", "--reverse": "reverse"},
)


@pytest.mark.parametrize(
    "line",
    [
        r"C:\tools>iperf3.exe -c 10.0.0.1",
        r"PS C:\Users\me> .\iperf3.exe -c 10.0.0.1",
        r'C:\Program Files\x>"C:\tools\iperf3.exe" -c 10.0.0.1',
        "root@host:~# iperf3 -c 10.0.0.1",
        "[me@host dir]$ /usr/bin/iperf3 -c 10.0.0.1",
        "$ sudo taskset -c 0 iperf3 -c 10.0.0.1",
        "+ LC_ALL=C ip netns exec a iperf3 -c 10.0.0.1",
        "# timeout 30 nice -n 5 iperf3 -c 10.0.0.1",
        r"C:\>start /b /affinity 1 iperf3 -c 10.0.0.1",
        "iperf3 -c 10.0.0.1",
    ],
)
def test_a_command_is_found_behind_every_prompt(line: str) -> None:
    command = find_command_line(line, PROGRAMS)

    assert command is not None
    assert command.program == "iperf3"
    assert parse_options(command.arguments, SYNTAX) == {"client": "10.0.0.1"}


@pytest.mark.parametrize(
    "line",
    [
        "iperf3: error - unable to connect",
        "iperf 3.12",
        "we ran iperf3 -c 10.0.0.1",
        "$ ls",
        "",
        "$ " + "iperf3 " * 1000,
    ],
)
def test_other_lines_with_a_program_name_are_no_commands(line: str) -> None:
    assert find_command_line(line, PROGRAMS) is None


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("-P4 -t 10", {"parallel": "4", "time": "10"}),
        ("--parallel=4 --reverse", {"parallel": "4", "reverse": ""}),
        ("--parallel 8 x -R", {"parallel": "8", "reverse": ""}),
        ("-uRP 4", {"udp": "", "reverse": "", "parallel": "4"}),
        ("-t:60 -m 2,*,10.0.0.1", {"time": "60", "mapping": "2,*,10.0.0.1"}),
        ("-Z -P 1 -P 2", {"parallel": "2"}),
        ("-P", {}),
        ("-u -- -R", {"udp": ""}),
    ],
)
def test_options_are_parsed_in_every_spelling(words: str, options: dict[str, str]) -> None:
    assert parse_options(split_words(words), SYNTAX) == options
