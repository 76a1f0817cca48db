"""Factors: each one is complete, so that reports, labs and agents need no list of their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vnetbench.lab.knobs import FIX_BY_KNOB, KNOB_FACTORS
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.labs import LABS
from vnetbench.study.workloads import WORKLOADS
from vnetbench.wording.factor_text import factor_title, level_phrase

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(FACTORS))
def test_a_factor_names_known_workloads_and_labs(name: str) -> None:
    factor = FACTORS[name]
    assert factor.name == name and factor.description.endswith((".", ")"))
    assert set(factor.workloads) <= set(WORKLOADS) and set(factor.labs) <= set(LABS)
    assert set(factor.workload_defaults) <= set(factor.workloads)


def test_factors_have_different_labels() -> None:
    labels = [factor_title(name) for name in FACTORS]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", [name for name, factor in FACTORS.items() if factor.knobs])
def test_a_factor_with_knobs_has_a_fix_for_systems_that_refuse_them(name: str) -> None:
    factor = FACTORS[name]
    assert factor.knob_fix and all(FIX_BY_KNOB[knob] == factor.knob_fix for knob in factor.knobs)


def test_the_agent_knows_every_knob() -> None:
    files = [file for folder in ("src", "crates") for file in (ROOT / "agent" / folder).rglob("knobs/*.rs")]
    source = "".join(file.read_text() for file in files)
    knobs = {knob for factor in FACTORS.values() for knob in factor.knobs}
    assert knobs <= set(re.findall(r'"([a-z_]+)"', source))


def test_checksum_offload_is_set_before_the_offloads_that_depend_on_it() -> None:
    names = [factor.name for factor in KNOB_FACTORS]
    assert names.index("checksum_offload") < names.index("tso")
    assert names.index("checksum_offload") < names.index("uso")


@pytest.mark.parametrize(
    ("name", "level", "phrase"),
    [
        ("streams", 1, "1 stream"),
        ("streams", 4, "4 streams"),
        ("mtu", 9000, "MTU 9000"),
        ("tso", "off", "TSO off"),
        ("socket_buffer", 8192, "8 KiB socket buffer"),
        ("label_esx_version", "6.7u3", "Esx version 6.7u3"),
        ("mtu", "unspecified", "MTU unspecified"),
    ],
)
def test_a_level_reads_as_a_phrase(name: str, level: str | int, phrase: str) -> None:
    assert level_phrase(name, level) == phrase


@pytest.mark.parametrize(
    ("name", "level", "value"),
    [
        ("udp_gso", "on", True),
        ("socket_buffer", "auto", None),
        ("rate", "none", None),
        ("message_size", 4096, 4096),
        ("waiting", "spin", "spin"),
    ],
)
def test_an_agent_gets_booleans_numbers_keywords_or_none(name: str, level: str | int, value: object) -> None:
    assert FACTORS[name].to_agent_value(level) == value
