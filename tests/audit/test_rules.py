"""The rules as data: each is complete, has a source, and names studies and causes that exist."""

from __future__ import annotations

import pytest

from tests.docs.pages import ROOT
from vnetbench.audit.facts import FACTS
from vnetbench.audit.reference import PAGE_FILE_NAME, rules_page
from vnetbench.audit.rules import ANY_PLATFORM, Rule, load_rules, parse_rules, select_rules
from vnetbench.errors import BenchError
from vnetbench.explain.rules import load_rules as load_cause_rules
from vnetbench.study.file.load import load_study

pytestmark = pytest.mark.pure

RULES = list(load_rules().values())
RULE = """
[example]
problem = "an example"
object = "interface"
platforms = ["linux"]
severity = "note"
finds_if = [{ fact = "gro", is = false }]
found = "GRO off"
expected = "GRO on"
why = "An example."
source = "an example"
fix = { linux = "ethtool -K {name} gro on" }
"""


def test_there_are_at_least_sixty_rules() -> None:
    assert len(RULES) >= 60


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_worded_as_the_output_needs_it(rule: Rule) -> None:
    assert not rule.problem.endswith(".") and rule.why.endswith(".")
    assert not rule.source.endswith(".") and not rule.expected.endswith(".")
    assert set(rule.fix) <= {*rule.platforms, ANY_PLATFORM}


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.proof], ids=lambda rule: rule.id)
def test_the_study_that_proves_a_rule_loads_with_its_levels(rule: Rule) -> None:
    assert rule.proof is not None
    overrides = [f"{name}={levels}" for name, levels in rule.proof.levels.items()]
    assert load_study(ROOT / "studies" / f"{rule.proof.study}.toml", overrides).factors


LIMITS_OF_SOURCES = {
    "discards_with_small_buffers": 8192,
    "hardware_version_old": 11,
    "hardware_version_without_vmxnet3": 7,
    "hot_add_disables_vnuma": 8,
    "short_virtio_ring": 7.1,
    "tools_old_in_guest": 120305,
    "upt_with_old_hardware": 20,
}
"""Rules whose source states a limit, and the limit."""
EXISTENCE_LIMITS = (0, 1, 2)
"""Limits of counts that only say whether there is something, or more than one of it."""


def _limits(rule: Rule) -> set[float]:
    """Return the numbers that a rule compares facts with, except those that follow from another limit."""
    conditions = (*rule.applies_if, *rule.finds_if)
    limits = set()
    for each in conditions:
        number = each.above if each.above is not None else each.below
        is_count = FACTS[rule.object][each.fact].type is int
        if number is not None and not (is_count and number in EXISTENCE_LIMITS):
            limits.add(float(number))
    if rule.id == "hardware_version_old":
        limits.discard(6)  # Older versions have a rule of their own.
    return limits


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_limit_comes_from_the_source_or_has_a_reason(rule: Rule) -> None:
    own_limits = _limits(rule) - {LIMITS_OF_SOURCES.get(rule.id)}
    assert bool(own_limits) == bool(rule.threshold_reason), own_limits
    assert (rule.threshold_reason or ".").endswith(".")


def test_each_limit_of_a_source_is_in_its_rule() -> None:
    rules = load_rules()
    assert all(limit in _limits(rules[rule]) for rule, limit in LIMITS_OF_SOURCES.items())


def test_each_cause_of_a_rule_exists() -> None:
    assert {rule.cause for rule in RULES if rule.cause} <= set(load_cause_rules())


def test_each_fact_is_read_by_a_rule_or_shown_by_one() -> None:
    read = {(rule.object, fact) for rule in RULES for fact in rule.facts_read}
    shown = {
        (rule.object, fact)
        for rule in RULES
        for fact in FACTS[rule.object]
        if any(f"{{{fact}}}" in text for text in (rule.found, rule.expected, *rule.fix.values()))
    }
    used = read | shown
    # The interfaces copy it.
    used.add(("machine", "forwards"))
    unused = {(kind, fact) for kind, facts in FACTS.items() for fact in facts} - used
    assert unused == set()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('fact = "gro"', 'fact = "grow"', "grow is no fact"),
        ("is = false", 'is = "off"', "gro is a bool"),
        ("is = false", "above = 3", "gro is no number"),
        ("is = false", "is = false, is_not = true", "one comparison"),
        ('"interface"', '"toaster"', "no object is a toaster"),
        ("{ linux =", "{ windows =", "no platform windows"),
        ("{name}", "{nome}", "{nome} is no fact"),
        ('why = "An example."', "", "Field required"),
        ("[example]", "[example", "Expected"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_place(old: str, new: str, message: str) -> None:
    parse_rules({"mine.toml": RULE})
    with pytest.raises(BenchError) as caught:
        parse_rules({"mine.toml": RULE.replace(old, new)})
    assert message in caught.value.what and (caught.value.where or "").startswith("mine.toml")


def test_a_rule_that_is_defined_twice_is_refused() -> None:
    with pytest.raises(BenchError, match="twice"):
        parse_rules({"a.toml": RULE, "b.toml": RULE})


def test_an_unknown_rule_cannot_be_disabled() -> None:
    with pytest.raises(BenchError, match="there is no rule gro_of"):
        select_rules(load_rules(), ("gro_of",))
    assert "gro_off" not in {rule.id for rule in select_rules(load_rules(), ("gro_off",))}


def test_the_page_of_rules_is_up_to_date() -> None:
    page = ROOT / "docs" / PAGE_FILE_NAME
    assert page.read_text(encoding="utf-8") == rules_page(), "run make docs"
