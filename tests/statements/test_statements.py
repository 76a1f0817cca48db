"""Checks of published statements by simulated campaigns."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.statements.campaigns import (
    Means,
    SimulationOptions,
    forwarded,
    goodputs,
    simulated_campaign,
    simulated_team,
    team_links_used,
    verdict,
)
from vnetbench.estimate.published_reference import published_table_summary
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.export.statements_json import statements_json
from vnetbench.statements.check import CHECK_BY_STATEMENT_ID, check_statements
from vnetbench.statements.selection import select_treatments
from vnetbench.statements.statement import INCONCLUSIVE, REFUTED, SUPPORTED, Statement, load_statements
from vnetbench.statements.streams import check_directions_differ
from vnetbench.study.file.load import load_study
from vnetbench.study.model import Level
from vnetbench.study.plan import make_plan

ROOT = Path(__file__).parents[2]
FRAMES = SimulationOptions("frames", "qemu")
LINK: Level = 10e9


def streams(means: dict[Level, float], mtu: int = 1500) -> CampaignSummary:
    return simulated_campaign(goodputs("streams", means, mtu=mtu))


def ways(forward: float, reverse: float, **others: Level) -> CampaignSummary:
    return simulated_campaign(goodputs("direction", {"forward": forward, "reverse": reverse}, **others))


def repeats(mean: float | tuple[float, float], trials: int = 30, **others: Level) -> CampaignSummary:
    return simulated_campaign(goodputs("mtu", {9000: mean}, **others), SimulationOptions(trials=trials))


def long_trials(warmup_s: float, **others: float) -> CampaignSummary:
    rows = goodputs("streams", {1: 9.0, 4: 20.0})
    options = SimulationOptions(duration_s=25.0, warmup_s=warmup_s, trials=12, **others)  # type: ignore[arg-type]
    return simulated_campaign(rows, options)


def packets(per_s: float, goodput_bps: float = 9e9) -> CampaignSummary:
    means: Means = {"goodput_bps": goodput_bps, "packets_per_s": per_s}
    return simulated_campaign([({"mtu": 1500}, means)])


def segments(mean_bytes: float) -> CampaignSummary:
    return simulated_campaign([({"socket_buffer": "auto"}, {"mean_segment_bytes": mean_bytes})])


def vms(means: dict[Level, float], *, uplink: bool = True) -> CampaignSummary:
    return simulated_campaign(goodputs("pairs", means, link_rate=LINK), SimulationOptions(uplink=uplink))


def adapters(**means: float) -> CampaignSummary:
    named: dict[Level, float] = {name.replace("_", "-"): mean for name, mean in means.items()}
    return simulated_campaign(forwarded("adapter", named, queues=1), FRAMES)


def placed(shared: float, apart: float, host: str = "0") -> CampaignSummary:
    return simulated_campaign(forwarded("vcpu_pin", {"0": shared, "1": apart}, emulator_pin=host), FRAMES)


def queues(one: dict[Level, float], other: dict[Level, float]) -> CampaignSummary:
    rows = [*forwarded("queues", one, adapter="virtio-net"), *forwarded("queues", other, adapter="vmxnet3")]
    return simulated_campaign(rows, FRAMES)


def idle(busy_percent: float) -> CampaignSummary:
    means: Means = {
        "throughput_fps": 5e4, "forwarder_busy_percent": busy_percent, "forwarder_vcpu_percent": 97.0,
    }  # fmt: skip
    return simulated_campaign([({"adapter": "virtio-net"}, means)], FRAMES)


CONCLUSIVE_CASES: dict[str, tuple[CampaignSummary, CampaignSummary]] = {
    "S01": (
        streams({2: 8.0, 4: 14.0, 8: 20.0, 12: 16.0, 16: 16.1}),
        streams({2: 8.0, 4: 14.0, 8: 20.0, 12: 24.0, 16: 27.0}),
    ),
    "S02": (
        repeats((27.0, 18.0), direction="reverse", streams=16),
        repeats(27.0, direction="reverse", streams=16),
    ),
    "S03": (repeats(30.0, cpus="0/2"), repeats((30.0, 20.0), vcpu_pin="0,2/4,6")),
    "S04": (long_trials(4.5), long_trials(0.0)),
    "S05": (ways(20.0, 16.0, mtu=1500), ways(20.0, 20.0, mtu=1500)),
    "S06": (
        simulated_campaign(goodputs("queues", {1: 20.0, 4: 17.0})),
        simulated_campaign(goodputs("queues", {1: 17.0, 4: 20.0})),
    ),
    "S07": (ways(9.3, 9.3, streams=5, link_rate=LINK), ways(9.3, 7.0, streams=5, link_rate=LINK)),
    "S08": (packets(830_000), packets(150_000)),
    "S09": (
        simulated_campaign(goodputs("vcpus", {1: 2.0, 2: 2.0}, socket_buffer=8192)),
        simulated_campaign(goodputs("vcpus", {1: 2.0, 2: 3.5}, socket_buffer=8192)),
    ),
    "S10": (
        simulated_campaign(
            goodputs("streams", {1: 1.0, 5: 4.0, 20: 9.0}, socket_buffer=8192, message_size=4096)
        ),
        simulated_campaign(
            goodputs("streams", {1: 1.0, 5: 4.0, 20: 4.0}, socket_buffer=8192, message_size=4096)
        ),
    ),
    "S11": (vms({1: 9.3, 4: 9.3, 8: 9.3}), vms({1: 9.3, 4: 8.8, 8: 7.0})),
    "S12": (segments(32_000), segments(1448)),
    "S13": (
        adapters(vf=700, macvtap=300, virtio_net_vhost=120, virtio_net=80, e1000=20),
        adapters(virtio_net=20, e1000=40),
    ),
    "S14": (idle(62.0), idle(96.0)),
    "S15": (placed(shared=30, apart=60), placed(shared=60, apart=60)),
    "S16": (
        queues({1: 50, 4: 100}, {1: 100, 4: 50}),
        queues({1: 50, 4: 100}, {1: 50, 4: 100}),
    ),
    # One trial with two links is enough: "never".
    "S17": (team_links_used("ip-hash", 1), team_links_used("ip-hash", (1, 2))),
    "S18": (team_links_used("port-id", 1), team_links_used("port-id", 4)),
    "S19": (team_links_used("ip-hash", 4, pairs=4), team_links_used("ip-hash", 2, pairs=8)),
}  # fmt: skip
"""Statement to a campaign that supports it and one that refutes it."""

INCONCLUSIVE_CASES: dict[str, list[tuple[CampaignSummary, str]]] = {
    "S01": [
        (streams({4: 14.0, 8: 20.0, 16: 16.0}), "two different stream counts above 8"),
        (streams({4: 14.0, 16: 16.0}), "treatments with 8 and another number of streams"),
        (streams({8: 20.0}, mtu=9000), "treatments with MTU 1500"),
    ],
    "S02": [
        (repeats((27.0, 18.0), 9, direction="reverse", streams=16), "20 trials of each treatment"),
        (repeats(27.0, direction="reverse", streams=8), "MTU 9000, reverse, 9 streams or more"),
    ],
    "S03": [(repeats(30.0, cpus="any"), "VMs on even CPUs"), (repeats(30.0, cpus="0/1"), "even CPUs")],
    "S04": [
        (streams({1: 9.0, 4: 20.0}), "trials of 10.0 s or more"),
        (long_trials(5.0, set_warmup_s=5.0), "a study without `timing.warmup`"),
    ],
    "S05": [(ways(20.0, 16.0, mtu=9000), "MTU 1500"), (streams({1: 9.0}), "forward and reverse")],
    "S06": [
        (streams({1: 9.0, 4: 20.0}), "one and several queues"),
        (
            simulated_campaign(goodputs("queues", {1: 20.0, 4: 17.0}), SimulationOptions(kind="hosts")),
            "without a physical adapter",
        ),
        (
            simulated_campaign(
                goodputs("queues", {1: 20.0, 4: 17.0}, adapter="vf"), SimulationOptions(kind="qemu")
            ),
            "without a physical",
        ),
    ],
    "S07": [
        (ways(9.3, 9.3, streams=5), "a link of 10 Gbit/s"),
        (simulated_campaign(goodputs("direction", {"forward": 9.3}, streams=5, link_rate=LINK)), "reverse"),
    ],
    "S08": [(streams({4: 20.0}), "the metric goodput_bps and packets_per_s")],
    "S09": [(simulated_campaign(goodputs("vcpus", {1: 2.0, 2: 2.0})), "socket buffers of 8 kB")],
    "S10": [
        (
            simulated_campaign(
                goodputs("streams", {1: 1.0, 4: 4.0, 16: 9.0}, socket_buffer=8192, message_size=4096)
            ),
            "a treatment with streams = 20",
        ),
        (streams({1: 1.0, 20: 9.0}), "small socket buffers"),
    ],
    "S11": [
        (vms({1: 9.3, 4: 9.3}), "a treatment with pairs = 8"),
        (simulated_campaign(goodputs("pairs", {1: 9.3, 8: 9.3})), "a known link rate"),
    ],
    "S12": [
        (streams({4: 20.0}), "the metric mean_segment_bytes"),
        (
            simulated_campaign([({"socket_buffer": "auto", "tso": "off"}, {"mean_segment_bytes": 1448.0})]),
            "treatments with TSO on",
        ),
    ],
    "S13": [
        (adapters(virtio_net_vhost=120, virtio_net=80, e1000=20), "the adapters vf and macvtap"),
        (
            simulated_campaign(
                forwarded("adapter", {"virtio-net": 20, "e1000": 40}), SimulationOptions("frames", goal=0.01)
            ),
            "a search with an accepted loss of 0.01 % or less",
        ),
    ],
    "S14": [(adapters(virtio_net=80, e1000=20), "guests that forward frames"), (idle(80.0), "more trials")],
    "S15": [(placed(30, 60, host="any"), "with and without a core that")],
    "S16": [
        (
            simulated_campaign(forwarded("queues", {1: 50, 4: 50}, adapter="virtio-net"), FRAMES),
            "two different adapters",
        )
    ],
    "S17": [
        (streams({1: 9.0}), "treatments with the metric team_links_used_forward"),
        (team_links_used("balance-tcp", 1), "a team with the policy ip-hash"),
        (team_links_used("ip-hash", 1, streams=1), "1 pair of VMs, 2 streams or more"),
        (team_links_used("ip-hash", 1, pairs=4), "1 pair of VMs"),
    ],
    "S18": [(team_links_used("ip-hash", 1), "a team with the policy port-id")],
    "S19": [
        (team_links_used("port-id", 4, pairs=4), "a team with the policy ip-hash"),
        (team_links_used("ip-hash", 2, pairs=2), "at least one pair of VMs for each uplink"),
        (
            team_links_used("ip-hash", 1, pairs=4, predicted_flows=0),
            "addresses that IP hash puts on all uplinks",
        ),
    ],
}
"""Statement to campaigns that are inconclusive, and what they lack."""


def _each(cases: dict[str, list[tuple[CampaignSummary, str]]]) -> list[tuple[str, CampaignSummary, str]]:
    return [(name, *each) for name, cases in cases.items() for each in cases]


def test_every_statement_has_a_check_and_test_cases() -> None:
    ids = [statement.id for statement in load_statements()]
    assert ids == [f"S{number:02}" for number in range(1, 20)]
    assert list(CHECK_BY_STATEMENT_ID) == ids == list(INCONCLUSIVE_CASES)
    assert list(CONCLUSIVE_CASES) == ids


@pytest.mark.parametrize("name", CONCLUSIVE_CASES)
def test_a_true_statement_is_supported_with_evidence(name: str) -> None:
    result = verdict(name, CONCLUSIVE_CASES[name][0])
    assert result.state == SUPPORTED, result.parts
    assert any(part.evidence for part in result.parts)
    assert all(part.state == SUPPORTED and not part.missing for part in result.parts)


@pytest.mark.parametrize("name", CONCLUSIVE_CASES)
def test_a_false_statement_is_refuted_with_evidence(name: str) -> None:
    result = verdict(name, CONCLUSIVE_CASES[name][1])
    assert result.state == REFUTED, result.parts
    assert any(each.state == REFUTED for part in result.parts for each in part.evidence)


@pytest.mark.parametrize(("name", "summary", "missing"), _each(INCONCLUSIVE_CASES))
def test_an_inconclusive_check_names_what_is_missing(
    name: str, summary: CampaignSummary, missing: str
) -> None:
    result = verdict(name, summary)
    assert result.state == INCONCLUSIVE, result.parts
    assert any(missing in part.missing for part in result.parts), [part.missing for part in result.parts]


# S04 checks a share of all trials, and S14 needs idle CPUs in every trial: few trials can decide them.
@pytest.mark.parametrize("name", sorted(CONCLUSIVE_CASES.keys() - {"S04", "S14"}))
def test_too_few_trials_are_inconclusive(name: str) -> None:
    shown = CONCLUSIVE_CASES[name][0]
    few = [
        ({**treatment.factors}, {metric: own.value for metric, own in treatment.metrics.items()})
        for treatment in shown.treatments
    ]
    teams = shown.treatments[0].points[0].teams
    way = SimulationOptions(shown.workload, shown.testbed_backend, trials=3, uplink=True, teams=teams)
    way = replace(way, spread=0.0) if teams else way
    result = verdict(name, simulated_campaign(few, way))
    assert result.state == INCONCLUSIVE
    assert any("trials" in part.missing for part in result.parts)


def test_a_wide_spread_is_inconclusive() -> None:
    rows = goodputs("direction", {"forward": 20.0, "reverse": 19.0}, mtu=1500)
    result = verdict("S05", simulated_campaign(rows, SimulationOptions(spread=0.5)))
    assert result.state == INCONCLUSIVE
    assert result.parts[0].missing == "more trials, because the intervals are too wide"


def test_chance_rarely_supports_a_difference_with_many_pairs() -> None:
    shown = 0
    for seed in range(100):
        rows = [
            row
            for count in range(1, 6)
            for row in goodputs("direction", {"forward": 9.0, "reverse": 9.0}, streams=count)
        ]
        (part,) = check_directions_differ(
            select_treatments(simulated_campaign(rows, SimulationOptions(seed=seed)))
        )
        shown += part.state == SUPPORTED
    assert shown <= 12


def test_imported_trials_are_compared_by_ranks() -> None:
    rows = goodputs("direction", {"forward": 20.0, "reverse": 16.0}, mtu=1500)
    (evidence,) = (
        verdict("S05", simulated_campaign(rows, SimulationOptions(kind="imported"))).parts[0].evidence
    )
    assert evidence.state == SUPPORTED
    assert evidence.differing_base_levels == {
        "direction": "forward"
    } and evidence.differing_compared_levels == {"direction": "reverse"}


def test_a_ratio_of_bimodal_trials_has_a_note() -> None:
    rows = goodputs("direction", {"forward": 30.0, "reverse": (20.0, 10.0)}, mtu=1500)
    (evidence,) = verdict("S05", simulated_campaign(rows, SimulationOptions(trials=30))).parts[0].evidence
    assert "two modes, and the ratio mixes them" in evidence.note


def test_a_treatment_without_traffic_breaks_no_check() -> None:
    dead = goodputs("direction", {"forward": 20.0, "reverse": 0.0}, mtu=1500)
    assert verdict("S05", simulated_campaign(dead)).state == INCONCLUSIVE
    (part,) = verdict("S08", packets(0.0, goodput_bps=0.0)).parts
    assert part.missing == "treatments with a goodput above zero"
    form = statements_json(
        check_statements(
            [
                simulated_campaign(dead),
                simulated_campaign(goodputs("direction", {"forward": 0.0, "reverse": 1.0})),
            ]
        )
    )
    assert '"value": null' in form


def test_separate_links_are_added() -> None:
    result = verdict("S11", vms({1: 9.3, 8: 74.4}, uplink=False))
    assert result.state == SUPPORTED
    assert verdict("S11", vms({1: 9.3, 8: 9.3}, uplink=False)).state == REFUTED


def test_another_workload_or_a_published_table_is_inconclusive() -> None:
    (part,) = verdict("S13", streams({1: 9.0})).parts
    assert part.missing == "results of the workload frames, because this file has tcp_stream"
    table = published_table_summary("packet-forwarding-2011")
    (part,) = verdict("S13", table).parts
    assert "no interval" in part.missing


def test_conclusive_files_decide() -> None:
    shows, refutes = CONCLUSIVE_CASES["S05"]
    silent = streams({1: 9.0})
    by_id = {each.statement.id: each for each in check_statements([silent, shows, refutes])}
    assert [each.state for each in by_id["S05"].conclusive_or_all_verdicts] == [SUPPORTED, REFUTED]
    assert by_id["S05"].state == REFUTED
    assert len(by_id["S13"].conclusive_or_all_verdicts) == 3 and by_id["S13"].state == INCONCLUSIVE
    (only,) = [each for each in check_statements([silent, shows]) if each.statement.id == "S05"]
    assert only.state == SUPPORTED


def _runs() -> list[Statement]:
    return [statement for statement in load_statements() if statement.run]


@pytest.mark.parametrize("statement", _runs(), ids=lambda each: each.id)
def test_the_suggested_run_is_valid_and_complete(statement: Statement) -> None:
    """Run the checks on treatments with all metrics: no part may lack a metric."""
    path, *options = shlex.split(statement.run)
    assert options[::2] == ["--set"] * (len(options) // 2)
    study = load_study(ROOT / path, options[1::2])
    metrics: tuple[str, ...] = (
        "goodput_bps", "packets_per_s", "mean_segment_bytes", "throughput_fps",
        "forwarder_busy_percent", "forwarder_vcpu_percent", "team_links_used_forward",
    )  # fmt: skip
    treatments = make_plan(study, 1).treatments
    rows = [(each.factors, dict.fromkeys(metrics, 50.0)) for each in treatments]
    way = SimulationOptions(
        study.workload,
        study.testbed.backend,
        trials=study.precision.max_trials,
        duration_s=study.timing.duration_s or 1.0,
        set_warmup_s=study.timing.warmup_s,
        uplink=study.testbed.uplink,
        teams=tuple(simulated_team(str(treatments[0].factors["team_policy"])) for _ in study.testbed.teams),
    )
    lacking = [
        part.missing
        for part in verdict(statement.id, simulated_campaign(rows, way)).parts
        if not part.evidence
    ]
    if statement.id == "S13":
        assert all("vf" in each or "macvtap" in each for each in lacking)
        assert "vf and macvtap" in statement.uncheckable_part
    else:
        assert not any(lacking), lacking


def test_the_limits_of_a_run_are_stated() -> None:
    assert all(statement.run or statement.uncheckable_part for statement in load_statements())
