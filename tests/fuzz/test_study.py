"""Fuzz target: a study that an attacker wrote loads and plans, or gives problems with lines and fixes."""

from __future__ import annotations

import random
import tempfile
from functools import lru_cache
from pathlib import Path

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import given

from tests.fuzz.limits import limit_cpu_time
from tests.study.test_study_mutated import MUTATIONS, ROOT, check_problems, check_study
from vnetbench.study.file.load import load_study
from vnetbench.study.file.schema import make_json_schema
from vnetbench.study.problems import StudyError

pytestmark = pytest.mark.pure


@lru_cache
def originals() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "studies").glob("*.toml"))]


@lru_cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(make_json_schema())


@given(st.randoms(use_true_random=False))
def test_a_mutated_study_loads_or_gives_a_list_of_problems(draw: random.Random) -> None:
    text = draw.choice(originals())
    for _ in range(draw.choice((1, 1, 2, 5))):
        if text:
            text = draw.choice(MUTATIONS)(draw, text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutated.toml"
        path.write_bytes(text)
        with limit_cpu_time():
            try:
                study = load_study(path)
            except StudyError as error:
                check_problems(error, path)
            else:
                check_study(study, validator())
