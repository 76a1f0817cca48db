"""Adding a factor touches at most three source files: none is named in more of them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.study.factor_names import names_in_python, rust_file_sets
from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.registry import FACTORS

pytestmark = pytest.mark.pure

MAX_FILES = 3
"""The definition, the code that applies the factor, and one more."""

READERS = {
    "importers": "each tool's reader translates that tool's options into existing factors",
    "statements": "each published statement is about certain factors",
    "explain": "causes and experiments interpret existing factors",
    "estimate": "evidence of a cause reads the levels that the cause is about",
    "audit": "rules judge settings of machines, some of which studies vary too",
    "results": "keys of stored values, some with the name of a factor",
}
"""Folders that read what others varied, and why a new factor needs no change there."""

OTHER_MEANINGS = {
    "quantity.py": {"rate"},
    "study/factors/value_types.py": {"rate"},
}
"""Files with a word that is also a factor: messages call a quantity such as `10 Gbit/s` a rate."""

SOURCE = ROOT / "src" / "vnetbench"
AGENT = ROOT / "agent" / "src"
NAMES = frozenset(FACTORS)


@lru_cache
def python_names() -> dict[Path, set[str]]:
    """Return the factors that each Python file outside of `READERS` names."""
    files = (file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] not in READERS)
    found = {file: names_in_python(file.read_text(encoding="utf-8"), NAMES) for file in files}
    for name, words in OTHER_MEANINGS.items():
        assert words <= found[SOURCE / name], f"{name} no longer needs its exception"
        found[SOURCE / name] -= words
    return found


@lru_cache
def rust_sources() -> dict[Path, str]:
    return {file: file.read_text(encoding="utf-8") for file in AGENT.rglob("*.rs")}


def files_with(factor: Factor) -> list[str]:
    """Return the source files that name a factor."""
    files = [file for file, names in python_names().items() if factor.name in names]
    files += [file for file, source in rust_sources().items() if rust_file_sets(source, factor)]
    return sorted(str(file.relative_to(ROOT)) for file in files)


@pytest.mark.parametrize("factor", FACTORS.values(), ids=FACTORS)
def test_a_factor_is_named_in_at_most_three_source_files(factor: Factor) -> None:
    files = files_with(factor)
    assert 1 <= len(files) <= MAX_FILES, files


def test_every_excluded_folder_exists() -> None:
    assert all((SOURCE / folder).is_dir() for folder in READERS)


def test_the_agent_is_searched() -> None:
    assert files_with(FACTORS["uso"]) == [
        "agent/src/knobs/mod.rs",
        "src/vnetbench/study/factors/testbed_factors.py",
    ]
    assert "agent/src/trial/parameters.rs" in files_with(FACTORS["message_size"])


@pytest.mark.parametrize(
    "source",
    [
        'x = levels["mtu"]',
        'x = load.factors.get("mtu", 0)',
        'if "mtu" in levels: pass',
        'if factor.name == "mtu": pass',
        'f("mtu")',
        'NAMES = ("mtu", "tso")',
        'levels = {"mtu": 9000}',
    ],
)
def test_a_name_of_a_factor_counts(source: str) -> None:
    assert names_in_python(source, NAMES) >= {"mtu"}


@pytest.mark.parametrize(
    "source",
    [
        '"""mtu"""',
        'x = reply["mtu"]',
        'x = reply.get("mtu")',
        'facts = {"mtu": 1500, "mac": "02:00"}',
        'raise Error("the mtu is too large")',
        "mtu = 1500",
        "x = MTU.read_level(levels)",
    ],
)
def test_another_thing_of_the_same_name_does_not_count(source: str) -> None:
    assert names_in_python(source, NAMES) == set()


def test_a_module_named_after_a_factor_counts() -> None:
    assert names_in_python("from vnetbench.lab import cpu_quota", NAMES) == {"cpu_quota"}


TOY = Factor(
    "toy",
    value_types.on_off(),
    unit="",
    default=None,
    description="",
    examples=(),
    agent_parameter="toy_mode",
    knobs=("toy_knob",),
)


@pytest.mark.parametrize(
    ("source", "is_set"),
    [
        ('fn f(n: &str) { match n { "toy_knob" => a(), _ => b() } }', True),
        ("#[derive(Deserialize)]\npub struct R { toy_mode: Option<bool> }", True),
        ("#[derive(Serialize)]\npub struct R { toy_mode: Option<bool> }", False),
        ('fn f() { json!({"toy_knob": 1}); root.join("toy_knob"); }', False),
        ('#[cfg(test)]\nmod tests { fn f() { set("toy_knob"); } }', False),
    ],
)
def test_rust_files_that_set_a_factor_are_found(source: str, is_set: bool) -> None:
    assert rust_file_sets(source, TOY) is is_set
