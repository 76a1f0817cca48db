"""Loading study files: accepted values, and every problem with its line, its cause and its fix."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vnetbench.study.file.load import load_study, parse_study
from vnetbench.study.model import FactorLevels, Precision, Study, TestbedSpec, Timing
from vnetbench.study.problems import Problem, StudyError

SMALL = 'title = "Small"\n[factors]\nstreams = [1, 4]\nmtu = [1500, 9000]\n'


def problems(text: str, *overrides: str) -> tuple[Problem, ...]:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "s.toml", overrides)
    return caught.value.problems


def only_problem(text: str, *overrides: str) -> Problem:
    (only,) = problems(text, *overrides)
    return only


def levels(study: Study) -> dict[str, tuple[object, ...]]:
    return {factor.name: factor.levels for factor in study.factors}


def test_a_study_is_parsed_into_canonical_values() -> None:
    study = parse_study(
        """\
title = "All of it"
question = '''Does it
   help?'''
workload = "tcp_stream"
[testbed]
lab = "netns"
uplink = true
shaper = "htb"
vswitch_mtu = 9000
[factors]
message_size = ["64 B", "64 KiB"]
link_rate = ["none", "2.5 Gbit/s"]
tso = [true, "off"]
socket_buffer = "auto"
[[exclude]]
tso = "off"
message_size = "65536 B"
[timing]
duration = "2 min 30 s"
warmup = "5 s"
interval = "100 ms"
[precision]
confidence = "99 %"
half_width = "2.5 %"
min_trials = 9
max_trials = 20
time_limit = "1 h"
""",
        None,
    )
    assert study.question == "Does it help?"
    assert study.testbed == TestbedSpec("netns", uplink=True, shaper="htb", vswitch_mtu=9000)
    assert study.factors == (
        FactorLevels("message_size", (64, 65536)),
        FactorLevels("link_rate", ("none", 2_500_000_000)),
        FactorLevels("tso", ("on", "off")),
        FactorLevels("socket_buffer", ("auto",)),
    )
    assert study.exclude == ({"tso": ("off",), "message_size": (65536,)},)
    assert study.timing == Timing(150.0, 5.0, 0.1)
    assert study.precision == Precision(0.99, 0.025, 9, 20, 3600.0)


def test_missing_keys_have_the_documented_defaults() -> None:
    study = parse_study(SMALL, None)
    assert study.workload == "tcp_stream"
    assert (study.testbed, study.timing, study.precision) == (TestbedSpec(), Timing(), Precision())
    assert study.question == ""
    assert study.text == SMALL


def test_auto_and_none_equal_a_missing_key() -> None:
    study = parse_study(
        SMALL + '[timing]\nduration = "auto"\nwarmup = "auto"\n[precision]\ntime_limit = "none"\n', None
    )
    assert (study.timing, study.precision) == (Timing(), Precision())


def test_all_problems_of_a_file_are_reported_together_with_their_lines() -> None:
    found = problems(
        """\
titel = "x"
[testbed]
uplnk = true
[factors]
steams = "1..4"
mtu = [1500,
  90000]
message_size = "64"
direction = "forwards"
[[exclude]]
mtuu = 9000
[precison]
confidence = "95 %"
"""
    )
    assert [(p.study_line, p.where) for p in found] == [
        (line, f"s.toml:{line}") for line in (1, 1, 3, 5, 7, 8, 9, 11, 12)
    ]
    fixes = {p.what: p.fix for p in found}
    assert fixes['"titel" is not a key at the head of the file'].startswith('did you mean "title"?')
    assert fixes["the study has no title"] == 'write title = "Jumbo frames"'
    assert fixes['"uplnk" is not a key under [testbed]'].startswith('did you mean "uplink"?')
    assert fixes['"steams" is not a factor'].startswith('did you mean "streams"?')
    assert fixes["mtu: 90000 is out of range"] == "write a whole number from 576 to 65535"
    assert '"64 KiB"' in fixes["message_size: the unit is missing"]
    assert fixes['direction: "forwards" is not a valid value'].startswith('did you mean "forward"?')
    assert fixes['"mtuu" is not a factor'].startswith('did you mean "mtu"?')
    assert fixes['"precison" is not a key at the head of the file'].startswith('did you mean "precision"?')


def test_the_error_text_lists_every_problem_with_location_and_fix() -> None:
    with pytest.raises(StudyError) as caught:
        parse_study('title = "x"\n[factors]\nstreams = 0\nmtu = "big"\n', "dir/s.toml")
    assert str(caught.value) == (
        "2 problems in the study:\n"
        "dir/s.toml:3: streams: 0 is out of range\n"
        "  fix: write a whole number from 1 to 1024\n"
        'dir/s.toml:4: mtu: "big" is not a whole number\n'
        "  fix: write a whole number from 576 to 65535"
    )


@pytest.mark.parametrize(
    ("line", "what", "fix"),
    [
        ("half_width = 3 %", "3 % needs quotes", 'write half_width = "3 %"'),
        ("pairs = 1..16", "1..16 needs quotes", 'write pairs = "1..16"'),
        ("direction = forward # or reverse", "forward needs quotes", 'write direction = "forward"'),
        ("streams: 4", "streams is followed by a colon", "write streams = VALUE"),
        ("streams =", "streams has no value", "write a value after streams ="),
        ('mtu = "1500', "the quotes are not closed", 'write mtu = "1500"'),
        ("mtu = 1500", "mtu is set twice", "remove one of the two values"),
        ("[factors]", "[factors] appears twice", "write all of its keys under one heading"),
    ],
)
def test_a_line_with_a_syntax_error_gets_a_fix(line: str, what: str, fix: str) -> None:
    problem = only_problem(SMALL + line + "\n")
    assert (problem.study_line, problem.what, problem.fix) == (5, what, fix)


def test_parsing_continues_after_a_line_with_a_syntax_error() -> None:
    found = problems("title = Jumbo\n[factors]\nstreams = 1..4\nmtu = 70000\n")
    assert [p.study_line for p in found] == [1, 3, 4]


def test_an_unclosed_list_is_reported_with_a_line() -> None:
    assert only_problem('title = "x"\n[factors]\nmtu = [1500,\n9000\n').study_line in (3, 4)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (SMALL + 'title = "again"\n', "title belongs at the head of the file"),
        ("mtu = 9000\n" + SMALL, "mtu is a factor: write it under [factors]"),
        ('half_width = "3 %"\n' + SMALL, "half_width belongs under [precision]"),
        (SMALL + "[timing]\nshaper = 'tbf'\n", "shaper belongs under [testbed]"),
        (
            SMALL + "[timing]\nhalf_widht = '3 %'\n",
            'did you mean "half_width"? half_width belongs under [precision]',
        ),
    ],
)
def test_a_key_in_the_wrong_section_gets_a_fix_with_the_right_section(text: str, fix: str) -> None:
    assert only_problem(text).fix == fix


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[factors]\nmtu = 1500\n", "the study has no title"),
        ('title = "x"\n', "the study has no factor"),
        ('title = "x"\n[factors]\n', "the study has no factor"),
        ('title = " "\n[factors]\nmtu = 1500\n', "title: the text is empty"),
        ('title = "a\\u001b[31m"\n[factors]\nmtu = 1500\n', "title: .* cannot be printed"),
        ('title = "x"\nfactors = 3\n', "factors is a section, not 3"),
        ('title = "x"\n[factors]\nmtu = []\n', "mtu: no level is given"),
        ('title = "x"\n[factors]\nmtu = {a = 1}\n', "mtu: a table is not a whole number"),
        ('title = "x"\n[factors]\nmtu = 1500.5\n', "mtu: 1500.5 is not a whole number"),
        ('title = "x"\n[factors]\nmtu = 1979-05-27\n', "mtu: 1979-05-27 is not a whole number"),
        ('title = "x"\n[factors]\nlink_rate = "40 Gbit/s"\n', 'link_rate: "40 Gbit/s" is out of range'),
    ],
)
def test_missing_values_and_values_of_a_wrong_type_are_reported(text: str, what: str) -> None:
    assert re.fullmatch(what, only_problem(text).what)


def test_a_repeated_level_is_reported_at_its_second_line() -> None:
    problem = only_problem('title = "x"\n[factors]\nmessage_size = [\n"64 KiB",\n"65536 B"]\n')
    assert (problem.study_line, problem.what) == (5, 'message_size: the level "64 KiB" appears twice')


def test_an_exclusion_with_levels_that_the_study_lacks_is_reported() -> None:
    found = problems(SMALL + '[[exclude]]\nmtu = 900\ntso = "on"\n[[exclude]]\nstreams = [1, 5]\n')
    assert [(p.study_line, p.what) for p in found] == [
        (6, 'mtu has no level "900" in this study'),
        (7, "[[exclude]] names tso, which is not a factor of this study"),
        (9, 'streams has no level "5" in this study'),
    ]
    assert found[0].fix.startswith('did you mean "9000"?')


def test_exclusions_that_leave_no_treatment_are_reported() -> None:
    problem = only_problem(SMALL + "[[exclude]]\nmtu = [1500, 9000]\n")
    assert (problem.study_line, problem.what) == (5, "the exclusions leave no treatment")


def test_an_exclusion_without_a_factor_is_reported() -> None:
    assert only_problem(SMALL + "[[exclude]]\n").study_line == 5
    assert only_problem(SMALL + "[exclude]\nmtu = 1500\n").fix.startswith("write [[exclude]]")


def test_too_many_treatments_are_reported_with_the_limit() -> None:
    text = 'title = "x"\n[factors]\nstreams = "1..200"\npairs = "1..64"\n'
    problem = only_problem(text)
    assert problem.what == "the study has 12800 combinations of levels, which is too many"
    assert "10000" in problem.fix


@pytest.mark.parametrize(
    ("rest", "line", "what"),
    [
        (
            'vswitch = ["bridge", "direct"]\n[testbed]\nuplink = true\n',
            5,
            "vswitch = direct cannot be combined with testbed.uplink",
        ),
        (
            "tso = [true, false]\nchecksum_offload = [true, false]\n",
            5,
            "turns TSO off without checksum offload",
        ),
        ("threads = [1, 2]\n", 5, "threads = 2 is more than the number of streams"),
        (
            'thread_cpus = "0-1"\ncpus = "0-1/1"\n',
            5,
            "names CPU 0, which cpus = 0-1/1 does not give to the VM",
        ),
        ('pacing_rate = "1 Gbit/s"\ntransport = "mptcp"\n', 5, "no SO_MAX_PACING_RATE for MPTCP"),
        ('transport = ["tcp", "vsock"]\n', 5, "only between a guest and its host"),
        ("send_batch = 16\n", 5, "send_mode = copy: one call sends one message"),
        ('irq_cpus = "apart"\n', 5, "a VM that may use every CPU"),
        ('[timing]\nduration = "5 s"\nwarmup = "5 s"\n', 7, "leaves nothing of a trial"),
        ('[timing]\nduration = "1 s"\ninterval = "2 s"\n', 7, "has no whole sample"),
        ("[precision]\nmax_trials = 5\n", 6, "min_trials is 6, which is more than max_trials, 5"),
        ("[precision]\nmin_trials = 31\n", 6, "min_trials is 31, which is more than max_trials, 30"),
    ],
)
def test_contradictions_are_reported_with_their_line(rest: str, line: int, what: str) -> None:
    problem = only_problem(SMALL + rest)
    assert problem.study_line == line
    assert what in problem.what


def test_too_many_streams_of_one_vm_are_reported_for_both_directions_together() -> None:
    (problem,) = problems(SMALL + 'direction = ["forward", "3/1"]\n', "streams=256,257,1024")
    assert problem.study_line == 5
    assert "771 forward and 257 reverse streams are too many" in problem.what
    assert parse_study(SMALL + 'direction = ["forward", "3/1"]\n', None, ["streams=256"])


def test_an_mtu_that_is_too_small_for_ipv6_is_reported() -> None:
    (problem,) = problems(SMALL + "ip_version = [4, 6]\n", "mtu=1279,1280")
    assert problem.study_line == 5
    assert "IPv6 needs an MTU of at least 1280" in problem.what
    assert parse_study(SMALL + "ip_version = [4, 6]\n", None, ["mtu=1280"])
    assert parse_study(SMALL + "ip_version = 4\n", None, ["mtu=1279"])


def test_an_exclusion_resolves_a_contradiction() -> None:
    text = SMALL + 'tso = [true, false]\nchecksum_offload = [true, false]\n[[exclude]]\ntso = "on"\n'
    assert parse_study(text + 'checksum_offload = "off"\n', None).exclude


def test_a_loaded_study_keeps_the_path_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(SMALL.replace("\n", "\r\n").encode())
    study = load_study(path)
    assert study.path == str(path)
    assert levels(study)["mtu"] == (1500, 9000)


def test_a_file_with_a_byte_order_mark_loads(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert load_study(path).title == "Small"


def test_a_missing_file_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "jumbo-frames.toml").write_text(SMALL)
    with pytest.raises(StudyError) as caught:
        load_study(tmp_path / "jumbo-frame.toml")
    assert caught.value.where == str(tmp_path / "jumbo-frame.toml")
    assert "No such file" in caught.value.what
    assert 'did you mean "jumbo-frames.toml"?' in str(caught.value.fix)


def test_a_folder_is_not_a_study_file(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot be read: Is a directory"):
        load_study(tmp_path)


def test_a_line_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b'title = "x"\n# \xe4\n')
    with pytest.raises(StudyError) as caught:
        load_study(path)
    assert (caught.value.problems[0].study_line, caught.value.what) == (2, "this line is not UTF-8")
