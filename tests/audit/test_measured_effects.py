"""The measured effects of rules: the data file, and what the page of rules shows of it."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from bench.audit_effects.cases import CASES, NAMESPACES, LevelFault
from bench.audit_effects.measure import MeasuredEffect
from bench.audit_effects.results import DATA_PATH, format_data, format_page, merge_effects
from vnetbench.audit.measured_effects import RuleEffect, load_measured_effects
from vnetbench.audit.reference import rules_page
from vnetbench.audit.rules import load_rules
from vnetbench.estimate.model import Ratio

pytestmark = pytest.mark.pure

EFFECT = MeasuredEffect(CASES[0], Ratio(0.41, 0.38, 0.44, 0.95, 0.001), 2e9, 8e8, 10, "2026-11-23")


def test_at_least_ten_rules_have_a_measured_effect_on_the_page() -> None:
    effects = load_measured_effects()
    page = rules_page()
    assert len(effects) >= 10
    assert all(f"Measured effect here: {effect.text}" in page for effect in effects.values())


def test_the_interval_of_each_effect_contains_its_ratio() -> None:
    assert all(effect.low <= effect.ratio <= effect.high for effect in load_measured_effects().values())


def test_each_case_is_of_a_rule_and_each_effect_of_a_case() -> None:
    rules = [case.rule for case in CASES]
    assert len(set(rules)) == len(rules)
    assert set(load_measured_effects()) <= set(rules) <= set(load_rules())


def test_a_case_with_a_level_changes_one_factor_only() -> None:
    for case in CASES:
        if isinstance(case.fault, LevelFault):
            assert case.fault.factor not in case.factors
            assert case.fault.without != case.fault.with_fault


def test_the_data_file_is_what_the_bench_writes() -> None:
    assert DATA_PATH.read_text(encoding="utf-8") == format_data(load_measured_effects())


def test_a_new_effect_replaces_the_known_one_and_keeps_the_others() -> None:
    other = RuleEffect(
        ratio=0.5, low=0.4, high=0.6, blocks=6, fault="f", load="l", testbed="t", cpus=2, date="2026-01-01"
    )
    merged = merge_effects({CASES[0].rule: other, CASES[1].rule: other}, [EFFECT])
    assert merged[CASES[0].rule].ratio == 0.41 and merged[CASES[1].rule] == other
    assert tomllib.loads(format_data(merged))[CASES[0].rule]["testbed"] == NAMESPACES


@pytest.mark.parametrize(("low", "high"), [(None, None), (0.1, 0.5), (0.0, 0.5)])
def test_an_effect_that_is_not_precise_is_no_effect_of_the_page(
    low: float | None, high: float | None
) -> None:
    unsure = replace(EFFECT, ratio=Ratio(0.2, low, high, 0.95, None))
    assert merge_effects({}, [unsure]) == {}
    assert format_page([unsure], {}, "").count("×0.2") == 1


def test_the_results_name_the_effect_the_failures_and_the_note() -> None:
    page = format_page([EFFECT], {"generic_xdp": "clang is missing"}, "Shared.")
    assert "×0.41 [0.38, 0.44]" in page
    assert "- Shared.\n" in page
    assert "- `generic_xdp`: clang is missing" in page
