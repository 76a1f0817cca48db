"""The rules in the package, and errors of invalid rules."""

from __future__ import annotations

import pytest

from vnetbench.errors import BenchError
from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.explain.rules import CAUSE_FAMILIES, EvidenceCondition, load_rules, parse_rules

pytestmark = pytest.mark.pure

FAILURE_NAMES = (
    "link_down",
    "path_blocked",
    "path_interrupted",
    "no_connection",
    "connection_broken",
    "agent_gone",
    "server_failed",
    "no_cpu_time",
    "counts_contradict",
    "testbed_changed",
    "cpu_set_changed",
    "system_refused",
    "wrong_listener",
)
NAMES = (
    *FAILURE_NAMES,
    "cpus_full",
    "sender_cpu",
    "receiver_cpu",
    "generator_cpu",
    "switch_cpu",
    "receive_processing",
    "shared_with_packets",
    "other_programs",
    "load_paused",
    "process_stopped",
    "shared_by_vms",
    "cpu_quota",
    "steal",
    "too_few_threads",
    "send_buffer",
    "receive_window",
    "congestion_window",
    "pacing",
    "small_messages",
    "request_response",
    "segmentation_off",
    "aggregation_off",
    "small_mtu",
    "mtu_black_hole",
    "one_queue",
    "overflow",
    "checksum_software",
    "link_full",
    "ack_path_limited",
    "policer",
    "packet_filtering",
    "packet_capture",
    "foreign_packets",
    "offload_off_on_path",
    "connection_setup_loss",
    "one_uplink",
    "one_flow_one_link",
    "idle_team_links",
    "team_full",
    "unequal_members",
    "even_source_ports",
    "lacp_not_negotiated",
    "silent_member",
    "hash_without_channel",
    "channel_without_hash",
    "other_load",
    "path_loss",
    "reordering",
    "duplicates",
    "two_modes",
    "drift",
    "warm_up",
    "machine_busy",
    "instrument_limit",
    "too_few_trials",
)

GOOD = """
[full]
description = "it is full"
advice = "Make it larger."
source = "made up"
requires = [{ metric = "load", from = 50, to = 100 }]
"""


def test_every_cause_has_a_rule() -> None:
    assert set(load_rules()) == set(NAMES)
    assert {rule.cause.family for rule in load_rules().values()} == set(CAUSE_FAMILIES)


def test_only_causes_that_need_comparisons_have_no_patterns() -> None:
    unjudged = {name for name, rule in load_rules().items() if not rule.has_patterns}
    assert unjudged == {"two_modes", "drift", "warm_up", "too_few_trials", "machine_busy", *FAILURE_NAMES}


def test_every_condition_uses_a_known_metric() -> None:
    metrics = {
        condition.metric
        for rule in load_rules().values()
        for sign in rule.patterns
        for condition in sign.conditions
    }
    assert metrics <= EVIDENCE_METRICS.keys()


def test_natural_limits_are_not_faults() -> None:
    natural = {name for name, rule in load_rules().items() if not rule.cause.is_fault}
    assert natural == {
        "sender_cpu",
        "receiver_cpu",
        "generator_cpu",
        "switch_cpu",
        "request_response",
        "cpus_full",
        "one_flow_one_link",
        "idle_team_links",
        "team_full",
    }


@pytest.mark.parametrize("name", NAMES)
def test_descriptions_are_clauses_and_advice_is_sentences(name: str) -> None:
    cause = load_rules()[name].cause
    assert cause.description[0].islower() and not cause.description.endswith(".")
    assert cause.advice[0].isupper() and cause.advice.endswith(".")


def test_a_ramp_rises_or_falls_between_its_ends() -> None:
    rising, falling = EvidenceCondition("load", 50, 100), EvidenceCondition("bytes", 4096, 512)
    assert [rising.fulfilment_degree(value) for value in (0, 50, 75, 100, 200)] == [0, 0, 0.5, 1, 1]
    assert [falling.fulfilment_degree(value) for value in (9000, 4096, 512, 64)] == [0, 0, 1, 1]


def test_a_setting_is_parsed_like_a_level_of_a_study() -> None:
    assert load_rules()["small_messages"].cause.experiment_levels == {"message_size": 2**20}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("source", "soruce"), "full has unknown keys: soruce"),
        (('source = "made up"', ""), "full has no source"),
        (('"made up"', "7"), "full has no source"),
        (("from = 50, ", ""), "full has a malformed condition under requires"),
        (("to = 100", "to = 50"), "full has an empty ramp for load"),
        (("to = 100", "to = 100, weight = 2"), "full has the weight 2 for load"),
        (("requires", "contradicts"), "full has a pattern without requires and any_of"),
        (("load", "laod"), "full uses the unknown metric laod under requires"),
        (("requires", 'explains = ["empty"]\nrequires'), "full explains unknown causes: empty"),
        (("requires", 'workloads = ["ftp"]\nrequires'), "full names unknown workloads: ftp"),
        (("requires", "setting = { stream = 2 }\nrequires"), "full sets unknown factors: stream"),
        (("requires", "setting = { mtu = 1 }\nrequires"), "full has a setting that studies do not accept"),
        (("[full]", "[full"), "the rules are not valid TOML"),
        (("[full]", "full = 1\n[other]"), "full is not a table"),
    ],
)
def test_an_invalid_rule_is_rejected_with_file_and_reason(change: tuple[str, str], expected: str) -> None:
    with pytest.raises(BenchError) as refused:
        parse_rules({"cpu.toml": GOOD.replace(*change)}, metrics=("load",))
    assert expected in refused.value.what
    assert "cpu.toml" in str(refused.value.where) and refused.value.fix


def test_a_cause_in_two_files_is_rejected() -> None:
    with pytest.raises(BenchError, match="defined twice"):
        parse_rules({"cpu.toml": GOOD, "links.toml": GOOD})


def test_causes_that_explain_each_other_are_rejected() -> None:
    other = GOOD.replace("[full]", "[empty]").replace("requires", 'explains = ["full"]\nrequires')
    with pytest.raises(BenchError, match=r"explain each other: .*empty.*full"):
        parse_rules({"cpu.toml": GOOD.replace("requires", 'explains = ["empty"]\nrequires') + other})
