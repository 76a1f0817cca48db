"""Measuring on a real lab: what is refused, by whom, and what a new testbed can put right."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from vnetbench.agents.client import AgentError
from vnetbench.agents.launch import check_agent, start_local_agent
from vnetbench.campaign.calibration import DEFAULT_MODE, OTHER_MODES
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.testbed import NetnsLab, NetnsTestbed
from vnetbench.lab.netns.topology import Vm
from vnetbench.lab.testbed import Testbed
from vnetbench.study.factors.load_factors import BATCH_SEND_MODES
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.workloads import MIXED, SOCKET_WORKLOADS, UDP_STREAM

pytestmark = pytest.mark.lab


@pytest.fixture
def instrument() -> Iterator[LabInstrument]:
    made = LabInstrument(NetnsLab(TestbedSpec(), "a test"), TestbedSpec())
    yield made
    made.close()


def load(**levels: Level) -> TrialLoad:
    return TrialLoad(complete_levels(levels), 0.2, 0.05)


def datagrams(**levels: Level) -> TrialLoad:
    return TrialLoad(complete_levels(levels, UDP_STREAM), 0.2, 0.05, UDP_STREAM)


def raised() -> int:
    return sum(1 for n in netlink.list_namespaces() if n.startswith("vnb.run-") and n.endswith(".a1"))


def test_a_knob_that_something_else_sets_meanwhile_counts_as_it_is_and_is_said() -> None:
    @contextmanager
    def meddled(bed: Testbed, load: TrialLoad) -> Iterator[Testbed]:
        bed.agents["a1"].call("knob.set", interface="eth0", knob="tso", value=False)
        yield bed

    lab = NetnsLab(TestbedSpec(), "a test")
    with closing(LabInstrument(lab, TestbedSpec(), meddled)) as instrument:
        measured = instrument.measure(load(tso="on"), lambda: False).measurement
    assert measured.effective["tso"] == {"a1": False, "b1": True}
    assert "tso was set by something else while this was measured" in measured.notes


def test_a_trial_counts_at_both_ends_and_on_the_host(instrument: LabInstrument) -> None:
    done = instrument.measure(load(streams=2, direction="both", pairs=2), lambda: False)
    assert [s.name for s in done.measurement.endpoints] == ["a1", "b1", "a2", "b2", "host"]
    assert {s.role for s in done.measurement.endpoints} == {"both", "observe"}
    assert done.measurement.effective["congestion_control"] == "cubic"
    assert min(s.bytes_received for s in done.measurement.endpoints if s.role == "both") > 0
    learned = instrument.take_new_facts()
    assert list(learned.testbeds) == ["bridge pairs=2"]
    assert learned.facts["host"]["kernel"]
    assert instrument.take_new_facts().facts == {}


class WatchedBed(NetnsTestbed):
    """A testbed of which something is watched on the host, as there is of guests."""

    def observer_targets(self) -> dict[str, object]:
        switch = self.topology.switch_namespace
        return {
            "threads": [{"name": "a1 vcpu0", "tid": os.getpid()}],
            "interfaces": [port.interface for port in self.topology.ports[0]],
            "namespace": str(netlink.NETNS_DIR / switch),
        }

    def forwarders(self) -> dict[str, tuple[str, ...]]:
        return {"g1": ("lo",)}


class WatchedLab(NetnsLab):
    def create_testbed(self, name: str, shape: Hashable) -> NetnsTestbed:
        raised = super().create_testbed(name, shape)
        bed = WatchedBed(raised.topology)
        bed.agents = {**raised.agents, "g1": start_local_agent("g1", name)}
        return bed


def test_threads_and_ports_that_a_testbed_names_are_in_the_hosts_record() -> None:
    instrument = LabInstrument(WatchedLab(TestbedSpec(), "a test"), TestbedSpec())
    with closing(instrument):
        sides = {side.name: side for side in instrument.measure(load(), lambda: False).measurement.endpoints}
    seen = [sample.observation for sample in sides["host"].samples if sample.observation]
    assert len(seen) == len(sides["host"].samples) > 0
    assert all(each.thread_cpu_s.keys() == {"a1 vcpu0"} and each.kvm_exits is None for each in seen)
    moved = sum(each.interface_counters["b1"]["tx_packets"] for each in seen)
    assert moved > 0
    assert sides["a1"].samples[0].observation is None


def test_the_cpus_of_whoever_has_a_kernel_of_its_own_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(LabInstrument(WatchedLab(TestbedSpec(), "a test"), TestbedSpec())) as instrument:
        shared = instrument.measure(load(), lambda: False).measurement.endpoints
        monkeypatch.setattr(Vm, "has_own_kernel", True)
        own = instrument.measure(load(), lambda: False).measurement.endpoints
    assert {s.name for s in shared if s.samples[0].cpu} == {"g1", "host"}
    assert {s.name for s in own if s.samples[0].cpu} == {"a1", "b1", "g1", "host"}
    assert {s.name: s.role for s in own if s.role == "observe"} == {"g1": "observe", "host": "observe"}


def test_datagrams_cross_the_lab_and_every_one_is_accounted_for(instrument: LabInstrument) -> None:
    for levels in ({"rate": 2000.0}, {"udp_gso": "on", "udp_gro": "on", "datagram_size": 1000}):
        done = instrument.measure(datagrams(streams=2, direction="both", **levels), lambda: False)
        assert done.measurement.effective["shared_clock"] is True
        for side in done.measurement.endpoints[:2]:
            sent = sum(x.details["datagrams"] for s in side.samples for x in s.streams if x.role == "source")  # type: ignore[misc]
            assert sent > 0
            assert sum(n for s in side.samples for _, n in s.histograms["delay"]) > 0


def test_a_datagram_that_the_path_does_not_carry_is_refused_with_the_fix(instrument: LabInstrument) -> None:
    with pytest.raises(TreatmentRefused, match="datagram of 1473 bytes") as refused:
        instrument.measure(datagrams(datagram_size=1473, mtu=1500), lambda: False)
    assert "fragments = on" in str(refused.value.fix)
    instrument.measure(datagrams(datagram_size=1473, mtu=1500, fragments="on", rate=1000.0), lambda: False)


@pytest.mark.parametrize("workload", SOCKET_WORKLOADS)
def test_every_workload_of_sockets_runs_over_ipv6_after_a_treatment_whose_mtu_had_none(
    instrument: LabInstrument, workload: str
) -> None:
    def load_of(**levels: Level) -> TrialLoad:
        idle = 0.2 if workload == MIXED else 0.0
        return TrialLoad(complete_levels(levels, workload), 0.2, 0.05, workload, idle)

    four = instrument.measure(load_of(mtu=1000), lambda: False).measurement
    six = instrument.measure(load_of(mtu=1500, ip_version="6"), lambda: False).measurement
    assert min(side.bytes_received for side in six.endpoints if side.role == "sink") > 0
    if workload != UDP_STREAM:
        # 40 bytes of IPv6, 20 of TCP, 12 of its timestamps; IPv4 takes 20 in place of the 40.
        assert (four.effective["mss"], six.effective["mss"]) == (1000 - 52, 1500 - 72)


def test_threads_run_where_they_are_told_and_streams_go_both_ways_as_asked(
    instrument: LabInstrument,
) -> None:
    first, second = (str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2])
    cpus = f"{first},{second}/{second}"
    levels: dict[str, Level] = {"direction": "3/1", "threads": 2, "cpus": cpus, "thread_cpus": "spread"}
    found = instrument.measure(load(**levels), lambda: False).measurement
    assert found.effective["threads"] == 2
    assert found.effective["thread_cpus"] == {"a1": [first, second], "b1": second}
    roles = {side.name: [s.role for s in side.samples[-1].streams] for side in found.endpoints[:2]}
    assert roles == {"a1": ["source"] * 3 + ["sink"], "b1": ["sink"] * 3 + ["source"]}


def test_every_stream_is_mptcp_where_that_is_asked_for_and_told_from_tcp(instrument: LabInstrument) -> None:
    levels: dict[str, Level] = {"transport": "mptcp", "streams": 3, "direction": "both", "ip_version": "6"}
    found = instrument.measure(load(**levels), lambda: False).measurement.effective
    assert (found["transport"], found["subflows"]) == ("mptcp", 1)
    found = instrument.measure(load(), lambda: False).measurement.effective
    assert found["transport"] == "tcp"
    assert "subflows" not in found


def test_an_endpoint_whose_mptcp_is_switched_off_is_named_with_the_switch(instrument: LabInstrument) -> None:
    instrument.measure(load(), lambda: False)
    (b1,) = [n for n in netlink.list_namespaces() if n.startswith("vnb.run-") and n.endswith(".b1")]
    netlink.run_in_namespace(b1, lambda: Path("/proc/sys/net/mptcp/enabled").write_text("0"))
    # A new testbed has it again: only what that refuses too is refused.
    assert instrument.measure(load(transport="mptcp"), lambda: False)


def test_streams_are_paced_as_the_kernel_then_says(instrument: LabInstrument) -> None:
    done = instrument.measure(load(streams=2, pacing_rate=10**8), lambda: False)
    assert done.measurement.effective["pacing_rate_bps"] == 10**8


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ({"congestion_control": "nosuch"}, "does not have this congestion control"),
        ({"socket_buffer": 2**30}, "socket_buffer = 1 GiB did not take effect"),
        ({"cpus": "0", "thread_cpus": "0-1"}, "names CPU 1; a1 has 0"),
        ({"queues": 64}, "cannot set queues = 64"),
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


@pytest.mark.parametrize("receive_mode", ["discard", "copy"])
@pytest.mark.parametrize("send_mode", [DEFAULT_MODE, *OTHER_MODES])
def test_every_way_of_sending_and_receiving_moves_data(
    instrument: LabInstrument, send_mode: str, receive_mode: str
) -> None:
    batch = 8 if send_mode in BATCH_SEND_MODES else 1
    asked = load(
        send_mode=send_mode, receive_mode=receive_mode, send_batch=batch, streams=2, direction="both"
    )
    measured = instrument.measure(asked, lambda: False).measurement
    assert sum(side.bytes_received for side in measured.endpoints) > 0
    # A veth hands no memory of one VM to the other: what was lent has been copied.
    is_lent = send_mode.endswith("zerocopy")
    assert ("zero_copy_sends" in measured.effective) == is_lent
    assert any("copied most of what" in note for note in measured.notes) == is_lent


def test_an_automatic_send_mode_is_calibrated_once_and_then_stays(instrument: LabInstrument) -> None:
    first = instrument.measure(load(send_mode="auto"), lambda: False).measurement.effective["calibration"]
    assert isinstance(first, Mapping)
    assert first["send_mode"] in first["goodput_bps"]
    assert set(first["goodput_bps"]) | set(first["refused"]) == {DEFAULT_MODE, *OTHER_MODES}
    kept = {**first, "send_mode": "splice"}
    later = replace(load(send_mode="auto"), calibration=kept)
    assert instrument.measure(later, lambda: False).measurement.effective["calibration"] == kept


def test_an_agent_that_dies_in_a_calibration_fails_that_trial_and_the_next_has_a_new_testbed(
    instrument: LabInstrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(*_: object) -> None:
        raise AgentError("a1", "the agent ended (killed by SIGKILL)")

    with monkeypatch.context() as patched:
        patched.setattr("vnetbench.campaign.instrument.measure", dying)
        with pytest.raises(TrialFailed, match="SIGKILL"):
            instrument.measure(load(send_mode="auto"), lambda: False)
    assert raised() == 0
    instrument.measure(load(), lambda: False)


def test_a_testbed_that_was_tampered_with_is_raised_anew(instrument: LabInstrument) -> None:
    instrument.measure(load(), lambda: False)
    (switch,) = [n for n in netlink.list_namespaces() if n.startswith("vnb.run-") and n.endswith(".sw")]
    with netlink.open_in_namespace(switch) as ipr:
        ipr.link("set", index=netlink.interface_index(ipr, "a1"), state="down")
    instrument.measure(load(), lambda: False)
    assert raised() == 1


def test_a_testbed_that_cannot_be_built_stops_what_needs_it_and_nothing_else(
    instrument: LabInstrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> None:
        raise BenchError("the kernel refused: Operation not supported", where="sw", fix="vnetbench doctor")

    monkeypatch.setitem(builder._CONNECT, "macvlan", lacking)
    with pytest.raises(TreatmentRefused, match="Operation not supported"):
        instrument.measure(load(vswitch="macvlan"), lambda: False)
    assert raised() == 0
    instrument.measure(load(), lambda: False)


def test_an_agent_that_dies_costs_the_trial_and_the_next_gets_a_new_testbed(
    instrument: LabInstrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise AgentError("b1", "the agent ended (killed by SIGKILL)")

    with monkeypatch.context() as patched:
        patched.setattr("vnetbench.lab.path_probe.prove_paths", die)
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
