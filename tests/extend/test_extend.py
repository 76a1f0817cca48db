"""The worked examples of docs/how-to/extend/: each page quotes a file of this folder, and here it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.linux_samples import VMWARE_GUEST
from tests.audit.reading import read_sample
from tests.docs.pages import ROOT
from tests.extend.netspeed import READERS as NETSPEED_READERS
from tests.extend.quick_ack import QUICK_ACK
from vnetbench.audit.judge import judge
from vnetbench.audit.rules import load_rules as load_audit_rules
from vnetbench.audit.rules import parse_rules as parse_audit_rules
from vnetbench.campaign.agent_parameters import common_prepare_parameters
from vnetbench.commands.doctor import list_doctor_treatments
from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.explain.rules import load_rules, parse_rules
from vnetbench.explain.scoring import rank_causes
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.runs import CUT_OFF_FAILURE, Run
from vnetbench.study.factors.registry import FACTORS, complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.file.schema import make_json_schema
from vnetbench.study.plan import make_plan
from vnetbench.wording.factor_text import factor_title, level_phrase

pytestmark = pytest.mark.pure

FOLDER = Path(__file__).parent
PAGES = ROOT / "docs" / "how-to" / "extend"

STUDY = """
title = "Quick acknowledgements"
workload = "tcp_stream"

[factors]
quick_ack = ["on", "off"]
"""

LOG = """\
netspeed 2.1 to 192.0.2.7, 4 streams
  1 s   941.2 Mbit/s
  2 s   940.8 Mbit/s
mean    941.0 Mbit/s over 2 s
"""


@pytest.mark.parametrize(
    ("page", "example"),
    [
        ("add-a-factor.md", "quick_ack.py"),
        ("add-an-importer.md", "netspeed.py"),
        ("add-a-cause.md", "noisy_neighbour.toml"),
        ("add-an-audit-rule.md", "small_mtu.toml"),
    ],
)
def test_a_page_quotes_its_example_in_full(page: str, example: str) -> None:
    text = (FOLDER / example).read_text(encoding="utf-8")
    assert text in (PAGES / page).read_text(encoding="utf-8")


@pytest.fixture
def quick_ack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the example's factor one of the product's."""
    assert isinstance(FACTORS, dict)
    monkeypatch.setitem(FACTORS, QUICK_ACK.name, QUICK_ACK)


@pytest.mark.usefixtures("quick_ack")
def test_a_new_factor_varies_the_treatments_of_a_study() -> None:
    plan = make_plan(parse_study(STUDY, None), seed=1)
    assert [treatment.factors["quick_ack"] for treatment in plan.treatments] == ["on", "off"]


@pytest.mark.usefixtures("quick_ack")
@pytest.mark.parametrize(("level", "value"), [("on", True), ("off", False)])
def test_a_new_factor_reaches_the_agent(level: str, value: bool) -> None:
    levels = complete_levels({"quick_ack": level}, "tcp_stream")
    assert common_prepare_parameters("tcp_stream", levels)["quick_ack"] is value


@pytest.mark.usefixtures("quick_ack")
def test_a_new_factor_is_tried_by_doctor() -> None:
    assert "quick_ack on" in [check.name for check in list_doctor_treatments()]


@pytest.mark.usefixtures("quick_ack")
def test_a_new_factor_has_its_words_and_its_place_in_the_schema() -> None:
    assert factor_title("quick_ack") == "Quick ACK"
    assert level_phrase("quick_ack", "on") == "quick ACK on"
    assert "quick_ack" in str(make_json_schema())


def test_a_new_importer_reads_its_runs_among_other_lines() -> None:
    lines = ["$ netspeed 192.0.2.7\n", *LOG.splitlines(keepends=True), "done\n"]
    (run,) = [item for item in parse_log(lines, NETSPEED_READERS) if isinstance(item, Run)]
    assert (run.version, run.factors, run.measured_duration_s) == ("2.1", {"streams": 4}, 2.0)
    assert run.metrics["goodput_bps"].value == pytest.approx(941e6)
    assert [interval.values["bytes"].value for interval in run.intervals] == pytest.approx(
        [117_650_000, 117_600_000]
    )
    assert run.failure == ""


def test_a_new_importer_says_that_a_run_was_cut_off() -> None:
    (run,) = [item for item in parse_log(LOG.splitlines()[:2], NETSPEED_READERS) if isinstance(item, Run)]
    assert run.failure == CUT_OFF_FAILURE and run.metrics == {}


def test_a_new_cause_is_named_from_its_evidence_and_no_other() -> None:
    text = (FOLDER / "noisy_neighbour.toml").read_text(encoding="utf-8")
    rules = parse_rules({"cpu.toml": text}, EVIDENCE_METRICS)
    waiting = [{"sender_thread_waiting_percent": 35.0}] * 3
    assert [each.cause.name for each in rank_causes(waiting, rules, "tcp_stream").candidates] == [
        "noisy_neighbour"
    ]
    running = [{"sender_thread_waiting_percent": 1.0}] * 3
    assert not rank_causes(running, rules, "tcp_stream").candidates
    assert "noisy_neighbour" not in load_rules()


def test_a_new_audit_rule_finds_its_fault_and_nothing_else() -> None:
    text = (FOLDER / "small_mtu.toml").read_text(encoding="utf-8")
    rules = list(parse_audit_rules({"linux_interfaces.toml": text}).values())
    small = read_sample("linux", VMWARE_GUEST.replace("ens192/mtu:1500", "ens192/mtu:1400"))
    (finding,) = judge([small], rules).findings
    assert (finding.object_name, finding.found) == ("ens192", "MTU 1400")
    assert finding.fix == "ip link set dev ens192 mtu 1500"
    assert finding.matters_here.text == "vnetbench run studies/jumbo-frames.toml --set mtu=1400,1500"
    assert judge([read_sample("linux", VMWARE_GUEST)], rules).findings == ()
    assert "mtu_below_ethernet" not in load_audit_rules()
