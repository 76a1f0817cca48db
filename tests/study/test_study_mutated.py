"""Mutated study files: each loads as a study or gives a list of problems.

`make test` loads 1,000 and `make test-long` 10,000. If none of n files fails, then with 95 % confidence fewer
than 3 in n of such files do.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from vnetbench.study.file.load import load_study
from vnetbench.study.file.schema import make_json_schema
from vnetbench.study.model import Study
from vnetbench.study.plan import make_plan
from vnetbench.study.problems import StudyError

ROOT = Path(__file__).parents[2]
QUICK_FILES, LONG_FILES = 1_000, 10_000
TOKEN = re.compile(rb"\w+|[^\w\s]|\s+")

HOSTILE = [
    rb'streams = "1..99999999999"',
    rb'streams = "1, 2, 4 .. 1e400"',
    rb'message_size = "1 B, 2 B, 3 B .. 64 MiB"',
    rb'message_size = "1e-400 B"',
    b"streams = " + b"[" * 900 + b"]" * 900,
    b"mtu = " + b"9" * 5000,
    b"mtu = 0x" + b"f" * 1500,
    b"mtu = [" + b"1500," * 300 + b"]",
    b".".join([b"a"] * 900) + b" = 1",
    b"[" + b".".join([b"a"] * 900) + b"]",
    b'title = "\\u001b[2J\\u0000"',
    b'title = "\\ud800"',
    b"mtu = nan\nstreams = inf",
    b"streams = 1979-05-27T07:32:00Z",
    b'cpus = "' + b"0," * 900 + b'"',
    b'half_width = "' + b"1" * 100 + b' %"',
    b"[[exclude]]\n" * 250,
    b"[[factors]]",
    b'"" = ""',
    b"\xff\xfe\x00",
    b"exclude = [[], {}, 3]",
]

Mutation = Callable[[random.Random, bytes], bytes]


def change_bytes(draw: random.Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(draw.randint(1, 4)):
        if not changed:  # An earlier change removed the rest.
            break
        at = draw.randrange(len(changed))
        changed[at : at + draw.randint(0, 2)] = bytes(draw.randrange(256) for _ in range(draw.randint(0, 2)))
    return bytes(changed)


def change_tokens(draw: random.Random, text: bytes) -> bytes:
    tokens = TOKEN.findall(text)
    for _ in range(draw.randint(1, 3)):
        if not tokens:  # An earlier change removed the rest.
            break
        at = draw.randrange(len(tokens))
        tokens[at : at + draw.randint(0, 1)] = draw.choice(
            ([], [draw.choice(tokens)], [tokens[at], tokens[at]], [str(draw.getrandbits(70)).encode()])
        )
    return b"".join(tokens)


def change_lines(draw: random.Random, text: bytes) -> bytes:
    lines = text.split(b"\n")
    for _ in range(draw.randint(1, 3)):
        if not lines:  # An earlier change removed the rest.
            break
        at = draw.randrange(len(lines))
        lines[at : at + draw.randint(0, 1)] = draw.choice(
            ([], [draw.choice(lines)], [lines[at], lines[at]], [draw.choice(HOSTILE)])
        )
    return b"\n".join(lines)


def truncate(draw: random.Random, text: bytes) -> bytes:
    return text[: draw.randrange(len(text))]


MUTATIONS: tuple[Mutation, ...] = (change_bytes, change_tokens, change_lines, truncate)


@pytest.mark.parametrize("file_count", [QUICK_FILES, pytest.param(LONG_FILES, marks=pytest.mark.long)])
def test_a_mutated_file_loads_or_gives_a_list_of_problems(file_count: int, tmp_path: Path) -> None:
    originals = [path.read_bytes() for path in sorted((ROOT / "studies").glob("*.toml"))]
    validator = jsonschema.Draft202012Validator(make_json_schema())
    draw = random.Random(20250)
    path = tmp_path / "mutated.toml"
    loaded = rejected = 0
    for _ in range(file_count):
        path.write_bytes(draw.choice(MUTATIONS)(draw, draw.choice(originals)))
        try:
            study = load_study(path)
        except StudyError as error:
            rejected += 1
            check_problems(error, path)
        else:
            loaded += 1
            check_study(study, validator)
    # The test needs many files that load and many that fail.
    assert min(loaded, rejected) > file_count / 20


def check_problems(error: StudyError, path: Path) -> None:
    lines = path.read_bytes().count(b"\n") + 1
    for problem in error.problems:
        assert problem.what
        assert problem.fix
        assert problem.study_line is None or 1 <= problem.study_line <= lines
        assert problem.where.startswith(str(path))
    assert str(error).replace("\n", "").isprintable()


def check_study(study: Study, validator: jsonschema.Draft202012Validator) -> None:
    assert make_plan(study, 1).treatments
    validator.validate(tomllib.loads(study.text))
