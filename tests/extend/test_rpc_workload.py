"""The workload of docs/how-to/extend/add-a-workload.md runs, and every part of the bench knows it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from tests.docs.pages import ROOT
from tests.explain.campaigns import SimulatedTreatment, campaign
from tests.extend.loopback_lab import LOOPBACK_MTU, LoopbackLab
from tests.extend.rpc_workload import RPC
from vnetbench.campaign.agent_parameters import common_prepare_parameters, list_streams
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.explain.offered_load import measure_load_delivery
from vnetbench.report.charts.campaign_charts import main_charts
from vnetbench.study.factors.registry import FACTORS, complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import SearchSpec, Study, TestbedSpec
from vnetbench.study.problems import StudyLocation
from vnetbench.study.rules.study_checks import check_study
from vnetbench.study.workloads import WORKLOADS, choose_deciding_metric

STUDY = """
title = "Remote procedure calls"
workload = "tcp_rr"

[factors]
connections = [1, 4]
rate = "1 k/s"
"""


@pytest.fixture(autouse=True)
def rpc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the example's workload one of the product's, with the factors of `tcp_rr`."""
    assert isinstance(WORKLOADS, dict) and isinstance(FACTORS, dict)
    monkeypatch.setitem(WORKLOADS, RPC.name, RPC)
    for name, factor in list(FACTORS.items()):
        if factor.has_workload(RPC.agent_workload):
            monkeypatch.setitem(FACTORS, name, replace(factor, workloads=(*factor.workloads, RPC.name)))


def rpc_study() -> Study:
    return replace(parse_study(STUDY, None), workload=RPC.name)


def problem_texts(study: Study) -> list[str]:
    return [problem.what for problem in check_study(study, lambda *_: StudyLocation("study.toml"))]


@pytest.mark.pure
def test_the_page_quotes_the_workload_in_full() -> None:
    example = (ROOT / "tests" / "extend" / "rpc_workload.py").read_text(encoding="utf-8")
    assert example in (ROOT / "docs" / "how-to" / "extend" / "add-a-workload.md").read_text(encoding="utf-8")


@pytest.mark.pure
def test_the_study_rules_know_a_new_workload() -> None:
    assert problem_texts(rpc_study()) == []
    assert problem_texts(replace(rpc_study(), search=SearchSpec())) == ["the workload rpc has no search"]
    assert choose_deciding_metric(rpc_study()) == "latency_p99_us"


@pytest.mark.pure
def test_a_new_workload_reaches_the_agent() -> None:
    levels = complete_levels({"connections": 2}, RPC.name)
    parameters = common_prepare_parameters(RPC.name, levels)
    assert (parameters["workload"], parameters["request_bytes"]) == ("tcp_rr", 1)
    assert [stream["role"] for stream in list_streams(RPC.name, levels)] == ["source", "source"]


@pytest.mark.pure
def test_explain_compares_the_offered_load_of_a_new_workload() -> None:
    simulated = SimulatedTreatment(values={"transactions_per_s": 990.0})
    summary = campaign(STUDY, simulated, simulated)
    delivery = measure_load_delivery(summary.treatments[0], {"rate": 1000.0, "connections": 1}, RPC.name)
    assert delivery is not None
    assert (delivery.offered_per_s, delivery.unit_noun, delivery.is_all_load_delivered) == (
        1000.0,
        "transactions",
        True,
    )


@pytest.mark.pure
def test_the_report_has_charts_of_a_new_workload() -> None:
    simulated = SimulatedTreatment()
    summary = replace(campaign(STUDY, simulated, simulated), workload=RPC.name)
    assert [chart.name for chart in main_charts(summary)] == [summary.deciding_metric]


def test_a_new_workload_carries_a_trial() -> None:
    levels = complete_levels({"mtu": LOOPBACK_MTU}, RPC.name)
    load = TrialLoad(levels, duration_s=0.4, interval_s=0.1, workload=RPC.name)
    with closing(LabInstrument(LoopbackLab(), TestbedSpec())) as instrument:
        trial = instrument.measure(load, lambda: False)
    (source,) = (each for each in trial.measurement.endpoints if each.role == "source")
    assert any(sample.histograms.get("latency") for sample in source.samples)
