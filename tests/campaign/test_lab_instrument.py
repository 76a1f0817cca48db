"""Measuring on a real lab: what is refused, by whom, and what a new testbed can put right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vnetbench.agents.client import AgentError
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import Load
from vnetbench.errors import BenchError
from vnetbench.lab import netlink, netns
from vnetbench.lab.bed import check_agent
from vnetbench.lab.refusal import TreatmentRefused, TrialFailed
from vnetbench.study.factors import complete
from vnetbench.study.model import Level, TestbedAsked
from vnetbench.study.workloads import DATAGRAMS

pytestmark = pytest.mark.lab


@pytest.fixture
def instrument() -> Iterator[LabInstrument]:
    made = LabInstrument(TestbedAsked(), "a test")
    yield made
    made.close()


def load(**levels: Level) -> Load:
    return Load(complete(levels), 0.2, 0.05)


def datagrams(**levels: Level) -> Load:
    return Load(complete(levels, DATAGRAMS), 0.2, 0.05, DATAGRAMS)


def raised() -> int:
    return sum(1 for n in netlink.namespaces() if n.startswith("vnb.run-") and n.endswith(".a1"))


def test_a_trial_counts_at_both_ends_and_on_the_host(instrument: LabInstrument) -> None:
    done = instrument.measure(load(streams=2, direction="both", pairs=2), lambda: False)
    assert [s.endpoint for s in done.measured.sides] == ["a1", "b1", "a2", "b2", "host"]
    assert {s.role for s in done.measured.sides} == {"both", "observe"}
    assert done.measured.effective["congestion_control"] == "cubic"
    assert all(s.bytes_received > 0 for s in done.measured.sides if s.role == "both")
    learned = instrument.learned()
    assert list(learned.testbeds) == ["bridge pairs=2"]
    assert learned.facts["host"]["kernel"]
    assert instrument.learned().facts == {}


def test_datagrams_cross_the_lab_and_every_one_is_accounted_for(instrument: LabInstrument) -> None:
    for levels in ({"rate": 2000.0}, {"udp_gso": "on", "udp_gro": "on", "datagram_size": 1000}):
        done = instrument.measure(datagrams(streams=2, direction="both", **levels), lambda: False)
        assert done.measured.effective["shared_clock"] is True
        for side in done.measured.sides[:2]:
            sent = sum(x.info["datagrams"] for s in side.samples for x in s.streams if x.role == "source")  # type: ignore[misc]
            assert sent > 0
            assert sum(n for s in side.samples for _, n in s.histograms["delay"]) > 0


def test_a_datagram_that_the_path_does_not_carry_is_refused_with_the_fix(instrument: LabInstrument) -> None:
    with pytest.raises(TreatmentRefused, match="datagram of 1473 bytes") as refused:
        instrument.measure(datagrams(datagram_size=1473, mtu=1500), lambda: False)
    assert "fragments = on" in str(refused.value.fix)
    instrument.measure(datagrams(datagram_size=1473, mtu=1500, fragments="on", rate=1000.0), lambda: False)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ({"congestion_control": "nosuch"}, "does not have this congestion control"),
        ({"socket_buffer": 2**30}, "socket_buffer = 1 GiB did not take effect"),
        ({"queues": 64}, "queues = 64 cannot be set"),
    ],
)
def test_what_cannot_be_is_refused_once_and_for_all_on_used_testbeds_too(
    instrument: LabInstrument, levels: dict[str, Level], words: str
) -> None:
    instrument.measure(load(), lambda: False)
    with pytest.raises(TreatmentRefused, match=words) as refused:
        instrument.measure(load(**levels), lambda: False)
    assert refused.value.fix
    instrument.measure(load(), lambda: False)


def test_a_testbed_that_was_tampered_with_is_raised_anew(instrument: LabInstrument) -> None:
    instrument.measure(load(), lambda: False)
    (switch,) = [n for n in netlink.namespaces() if n.startswith("vnb.run-") and n.endswith(".sw")]
    with netlink.in_namespace(switch) as ipr:
        ipr.link("set", index=netlink.index_of(ipr, "a1"), state="down")
    instrument.measure(load(), lambda: False)
    assert raised() == 1


def test_a_testbed_that_cannot_be_built_stops_what_needs_it_and_nothing_else(
    instrument: LabInstrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> None:
        raise BenchError("the kernel refused: Operation not supported", where="sw", fix="vnetbench doctor")

    monkeypatch.setattr(netns, "_join_by_macvlan", lacking)
    with pytest.raises(TreatmentRefused, match="Operation not supported"):
        instrument.measure(load(vswitch="macvlan"), lambda: False)
    assert raised() == 0
    instrument.measure(load(), lambda: False)


def test_an_agent_that_dies_costs_the_trial_and_the_next_gets_a_new_testbed(
    instrument: LabInstrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise AgentError("b1", "the agent ended (killed by SIGKILL)")

    with monkeypatch.context() as patched:
        patched.setattr("vnetbench.lab.path.prove", die)
        with pytest.raises(TrialFailed, match="killed by SIGKILL"):
            instrument.measure(load(), lambda: False)
    assert raised() == 0
    instrument.measure(load(), lambda: False)


def test_testbeds_of_several_shapes_are_kept_but_not_without_end(instrument: LabInstrument) -> None:
    for pairs in (1, 2, 3, 4, 5, 1):
        instrument.measure(load(pairs=pairs), lambda: False)
    assert raised() == 4


def test_an_agent_that_is_none_is_said_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "agent"
    script.write_text("this is no program\n")
    script.chmod(0o755)
    for binary in (str(script), "/bin/true", str(tmp_path / "missing")):
        monkeypatch.setenv("VNETBENCH_AGENT", binary)
        with pytest.raises(BenchError) as refused:
            check_agent()
        assert "make install" in str(refused.value.fix)
