"""Trials on testbeds of the lab `netns`: refusals, failures, and when a testbed is created again."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.machine import FIRST_CPU, USABLE_CPUS, needs_adapters_with_few_queues, needs_two_cpus
from vnetbench.agents.client import AgentError
from vnetbench.agents.launch import check_agent_binary, start_local_agent
from vnetbench.campaign.calibration import DEFAULT_SEND_MODE, OTHER_SEND_MODES
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
from vnetbench.study.workloads import MIXED, SOCKET_WORKLOAD_NAMES, UDP_STREAM, WORKLOADS

pytestmark = pytest.mark.lab


@pytest.fixture
def instrument() -> Iterator[LabInstrument]:
    with closing(LabInstrument(NetnsLab(TestbedSpec(), "a test"), TestbedSpec())) as lab_instrument:
        yield lab_instrument


def tcp_load(**levels: Level) -> TrialLoad:
    return TrialLoad(complete_levels(levels), 0.2, 0.05)


def udp_load(**levels: Level) -> TrialLoad:
    return TrialLoad(complete_levels(levels, UDP_STREAM), 0.2, 0.05, UDP_STREAM)


def count_testbeds() -> int:
    """Return the number of testbeds of campaigns that exist on this machine."""
    return sum(1 for n in netlink.list_namespaces() if n.startswith("vnb.run-") and n.endswith(".a1"))


def test_a_knob_that_another_program_changes_is_stored_as_changed_with_a_note() -> None:
    @contextmanager
    def change_tso(testbed: Testbed, load: TrialLoad) -> Iterator[Testbed]:
        testbed.agents["a1"].call("knob.set", interface="eth0", knob="tso", value=False)
        yield testbed

    lab = NetnsLab(TestbedSpec(), "a test")
    with closing(LabInstrument(lab, TestbedSpec(), change_tso)) as instrument:
        measurement = instrument.measure(tcp_load(tso="on"), lambda: False).measurement
    assert measurement.effective["tso"] == {"a1": False, "b1": True}
    assert "another program changed tso during the trial" in measurement.notes


def test_a_trial_has_records_of_all_endpoints_and_the_host(instrument: LabInstrument) -> None:
    load = tcp_load(streams=2, direction="both", pairs=2)
    measurement = instrument.measure(load, lambda: False).measurement
    endpoints = measurement.endpoints
    assert [endpoint.name for endpoint in endpoints] == ["a1", "b1", "a2", "b2", "host"]
    assert {endpoint.role for endpoint in endpoints} == {"both", "observe"}
    assert measurement.effective["congestion_control"] == "cubic"
    assert min(endpoint.bytes_received for endpoint in endpoints if endpoint.role == "both") > 0
    new_facts = instrument.take_new_facts()
    assert list(new_facts.testbed_descriptions) == ["bridge pairs=2"]
    assert new_facts.facts_by_subject["host"]["kernel"]
    assert instrument.take_new_facts().facts_by_subject == {}


class ObservedTestbed(NetnsTestbed):
    """A testbed whose threads and ports the observer on the host watches, like those of guests."""

    def observer_targets(self) -> dict[str, object]:
        switch = self.topology.switch_namespace
        return {
            "threads": [{"name": "a1 vcpu0", "tid": os.getpid()}],
            "interfaces": [port.interface for port in self.topology.ports_by_pair[0]],
            "namespace": str(netlink.NETNS_DIR / switch),
        }

    def interfaces_by_forwarding_agent(self) -> dict[str, tuple[str, ...]]:
        return {"g1": ("lo",)}


class ObservedLab(NetnsLab):
    def create_testbed(self, name: str, shape: Hashable) -> NetnsTestbed:
        original = super().create_testbed(name, shape)
        testbed = ObservedTestbed(original.topology)
        testbed.agents = {**original.agents, "g1": start_local_agent("g1", name)}
        return testbed


def test_the_hosts_record_contains_the_observed_threads_and_ports() -> None:
    instrument = LabInstrument(ObservedLab(TestbedSpec(), "a test"), TestbedSpec())
    with closing(instrument):
        measurement = instrument.measure(tcp_load(), lambda: False).measurement
    endpoints = {endpoint.name: endpoint for endpoint in measurement.endpoints}
    host_samples = endpoints["host"].samples
    observations = [sample.observation for sample in host_samples if sample.observation]
    assert len(observations) == len(host_samples) > 0
    assert all(each.thread_cpu_s.keys() == {"a1 vcpu0"} and each.kvm_exits is None for each in observations)
    assert sum(each.interface_counters["b1"]["tx_packets"] for each in observations) > 0
    assert endpoints["a1"].samples[0].observation is None


def test_endpoints_with_a_kernel_of_their_own_have_cpu_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(LabInstrument(ObservedLab(TestbedSpec(), "a test"), TestbedSpec())) as instrument:
        shared = instrument.measure(tcp_load(), lambda: False).measurement.endpoints
        monkeypatch.setattr(Vm, "has_own_kernel", True)
        own = instrument.measure(tcp_load(), lambda: False).measurement.endpoints
    assert {each.name for each in shared if each.samples[0].cpu} == {"g1", "host"}
    assert {each.name for each in own if each.samples[0].cpu} == {"a1", "b1", "g1", "host"}
    assert {each.name for each in own if each.role == "observe"} == {"g1", "host"}


def test_a_datagram_trial_counts_datagrams_and_one_way_delays_at_both_endpoints(
    instrument: LabInstrument,
) -> None:
    for levels in ({"rate": 2000.0}, {"udp_gso": "on", "udp_gro": "on", "datagram_size": 1000}):
        load = udp_load(streams=2, direction="both", **levels)
        measurement = instrument.measure(load, lambda: False).measurement
        assert measurement.effective["shared_clock"] is True
        for endpoint in measurement.endpoints[:2]:
            sent = sum(
                int(str(stream.details["datagrams"]))
                for sample in endpoint.samples
                for stream in sample.streams
                if stream.role == "source"
            )
            assert sent > 0
            delays = [count for sample in endpoint.samples for _, count in sample.histograms["delay"]]
            assert sum(delays) > 0


def test_a_datagram_that_is_too_large_for_the_path_is_refused_with_a_fix(instrument: LabInstrument) -> None:
    with pytest.raises(TreatmentRefused, match="datagram of 1473 bytes") as refused:
        instrument.measure(udp_load(datagram_size=1473, mtu=1500), lambda: False)
    assert "fragments = on" in str(refused.value.fix)
    instrument.measure(udp_load(datagram_size=1473, mtu=1500, fragments="on", rate=1000.0), lambda: False)


@pytest.mark.parametrize(
    # An event needs a longer trial: tests/campaign/test_disruption_in_the_lab.py.
    "workload",
    [name for name in SOCKET_WORKLOAD_NAMES if not WORKLOADS[name].has_network_event],
)
def test_socket_workloads_run_over_ipv6_after_an_mtu_without_ipv6(
    instrument: LabInstrument, workload: str
) -> None:
    def make_load(**levels: Level) -> TrialLoad:
        idle = 0.2 if workload == MIXED else 0.0
        return TrialLoad(complete_levels(levels, workload), 0.2, 0.05, workload, idle)

    ipv4 = instrument.measure(make_load(mtu=1000), lambda: False).measurement
    ipv6 = instrument.measure(make_load(mtu=1500, ip_version="6"), lambda: False).measurement
    assert min(each.bytes_received for each in ipv6.endpoints if each.role == "sink") > 0
    if workload != UDP_STREAM:
        # 40 bytes of IPv6, 20 of TCP and 12 of TCP timestamps; IPv4 takes 20 bytes instead of 40.
        assert (ipv4.effective["mss"], ipv6.effective["mss"]) == (1000 - 52, 1500 - 72)


@needs_two_cpus
def test_threads_run_on_the_requested_cpus_and_streams_in_both_directions(
    instrument: LabInstrument,
) -> None:
    first, second = map(str, USABLE_CPUS[:2])
    cpus = f"{first},{second}/{second}"
    levels: dict[str, Level] = {"direction": "3/1", "threads": 2, "cpus": cpus, "thread_cpus": "spread"}
    measurement = instrument.measure(tcp_load(**levels), lambda: False).measurement
    assert measurement.effective["threads"] == 2
    assert measurement.effective["thread_cpus"] == {"a1": [first, second], "b1": second}
    roles = {
        endpoint.name: [stream.role for stream in endpoint.samples[-1].streams]
        for endpoint in measurement.endpoints[:2]
    }
    assert roles == {"a1": ["source"] * 3 + ["sink"], "b1": ["sink"] * 3 + ["source"]}


def test_mptcp_streams_are_distinguished_from_tcp_streams(instrument: LabInstrument) -> None:
    levels: dict[str, Level] = {"transport": "mptcp", "streams": 3, "direction": "both", "ip_version": "6"}
    effective = instrument.measure(tcp_load(**levels), lambda: False).measurement.effective
    assert (effective["transport"], effective["subflows"]) == ("mptcp", 1)
    effective = instrument.measure(tcp_load(), lambda: False).measurement.effective
    assert effective["transport"] == "tcp"
    assert "subflows" not in effective


def test_a_testbed_whose_mptcp_was_disabled_is_replaced(instrument: LabInstrument) -> None:
    instrument.measure(tcp_load(), lambda: False)
    (b1,) = [n for n in netlink.list_namespaces() if n.startswith("vnb.run-") and n.endswith(".b1")]
    netlink.run_in_namespace(b1, lambda: Path("/proc/sys/net/mptcp/enabled").write_text("0"))
    # MPTCP is enabled on a new testbed, so the treatment is not refused.
    assert instrument.measure(tcp_load(transport="mptcp"), lambda: False)


def test_the_pacing_rate_is_read_back_from_the_kernel(instrument: LabInstrument) -> None:
    measurement = instrument.measure(tcp_load(streams=2, pacing_rate=10**8), lambda: False).measurement
    assert measurement.effective["pacing_rate_bps"] == 10**8


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"congestion_control": "nosuch"}, "the kernel does not support this congestion control"),
        ({"socket_buffer": 2**30}, "socket_buffer = 1 GiB had no effect"),
        (
            {"cpus": str(FIRST_CPU), "thread_cpus": f"{FIRST_CPU}-{FIRST_CPU + 1}"},
            f"names CPU {FIRST_CPU + 1}; a1 has {FIRST_CPU}",
        ),
        pytest.param({"queues": 64}, "queues = 64 cannot be set", marks=needs_adapters_with_few_queues),
    ],
)
def test_an_impossible_treatment_is_refused_and_the_next_one_is_measured(
    instrument: LabInstrument, levels: dict[str, Level], message: str
) -> None:
    instrument.measure(tcp_load(), lambda: False)
    with pytest.raises(TreatmentRefused, match=message) as refused:
        instrument.measure(tcp_load(**levels), lambda: False)
    assert refused.value.fix
    instrument.measure(tcp_load(), lambda: False)


@pytest.mark.parametrize("receive_mode", ["discard", "copy"])
@pytest.mark.parametrize("send_mode", [DEFAULT_SEND_MODE, *OTHER_SEND_MODES])
def test_every_send_mode_and_receive_mode_transfers_data(
    instrument: LabInstrument, send_mode: str, receive_mode: str
) -> None:
    batch = 8 if send_mode in BATCH_SEND_MODES else 1
    load = tcp_load(
        send_mode=send_mode, receive_mode=receive_mode, send_batch=batch, streams=2, direction="both"
    )
    measurement = instrument.measure(load, lambda: False).measurement
    assert sum(endpoint.bytes_received for endpoint in measurement.endpoints) > 0
    # A veth device passes no memory of one VM to the other, so the kernel copies the data.
    is_zero_copy = send_mode.endswith("zerocopy")
    assert ("zero_copy_sends" in measurement.effective) == is_zero_copy
    copied_note = "the kernel copied most of the data of zero-copy sends"
    assert any(copied_note in note for note in measurement.notes) == is_zero_copy


def test_an_automatic_send_mode_is_calibrated_only_once(instrument: LabInstrument) -> None:
    first = instrument.measure(tcp_load(send_mode="auto"), lambda: False).measurement.effective["calibration"]
    assert isinstance(first, Mapping)
    assert first["send_mode"] in first["goodput_bps"]
    assert set(first["goodput_bps"]) | set(first["refused"]) == {DEFAULT_SEND_MODE, *OTHER_SEND_MODES}
    stored = {**first, "send_mode": "splice"}
    later = replace(tcp_load(send_mode="auto"), earlier_calibration=stored)
    assert instrument.measure(later, lambda: False).measurement.effective["calibration"] == stored


def test_an_agent_that_dies_during_calibration_fails_only_that_trial(
    instrument: LabInstrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_agent_error(*_: object) -> None:
        raise AgentError("a1", "the agent ended (killed by SIGKILL)")

    with monkeypatch.context() as patch:
        patch.setattr("vnetbench.campaign.instrument.measure_trial", raise_agent_error)
        with pytest.raises(TrialFailed, match="SIGKILL"):
            instrument.measure(tcp_load(send_mode="auto"), lambda: False)
    assert count_testbeds() == 0
    instrument.measure(tcp_load(), lambda: False)


def test_a_damaged_testbed_is_created_again(instrument: LabInstrument) -> None:
    instrument.measure(tcp_load(), lambda: False)
    (switch,) = [n for n in netlink.list_namespaces() if n.startswith("vnb.run-") and n.endswith(".sw")]
    with netlink.open_in_namespace(switch) as ipr:
        ipr.link("set", index=netlink.interface_index(ipr, "a1"), state="down")
    instrument.measure(tcp_load(), lambda: False)
    assert count_testbeds() == 1


def test_a_testbed_that_cannot_be_created_refuses_only_its_treatments(
    instrument: LabInstrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_unsupported(*_: object) -> None:
        raise BenchError("the kernel refused: Operation not supported", where="sw", fix="vnetbench doctor")

    monkeypatch.setitem(builder._CONNECT_BY_VSWITCH, "macvlan", raise_unsupported)
    with pytest.raises(TreatmentRefused, match="Operation not supported"):
        instrument.measure(tcp_load(vswitch="macvlan"), lambda: False)
    assert count_testbeds() == 0
    instrument.measure(tcp_load(), lambda: False)


def test_an_agent_that_dies_fails_only_that_trial(
    instrument: LabInstrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_agent_error(*_: object, **__: object) -> None:
        raise AgentError("b1", "the agent ended (killed by SIGKILL)")

    with monkeypatch.context() as patch:
        patch.setattr("vnetbench.lab.path_probe.prove_paths", raise_agent_error)
        with pytest.raises(TrialFailed, match="killed by SIGKILL"):
            instrument.measure(tcp_load(), lambda: False)
    assert count_testbeds() == 0
    instrument.measure(tcp_load(), lambda: False)


def test_only_a_limited_number_of_testbeds_is_kept(instrument: LabInstrument) -> None:
    for pairs in (1, 2, 3, 4, 5, 1):
        instrument.measure(tcp_load(pairs=pairs), lambda: False)
    assert count_testbeds() == 4


def test_an_unusable_agent_program_is_an_error_before_a_testbed_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "agent"
    script.write_text("this is not a program\n")
    script.chmod(0o755)
    for binary in (str(script), "/bin/true", str(tmp_path / "missing")):
        monkeypatch.setenv("VNETBENCH_AGENT", binary)
        with pytest.raises(BenchError) as refused:
            check_agent_binary()
        assert "make install" in str(refused.value.fix)
