"""Trials with an endpoint that only has an iperf3 server: what is counted, what is said, what goes wrong."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import pytest

from tests.iperf3 import programs
from tests.iperf3.fake_server import TEST_RUNNING, FakeServer, run_fake_server
from vnetbench.campaign import iperf3_instrument
from vnetbench.campaign.count_checks import check_server_totals
from vnetbench.campaign.instrument import CompletedTrial
from vnetbench.campaign.iperf3_instrument import Iperf3Instrument
from vnetbench.campaign.trial import TrialAbandoned, TrialLoad
from vnetbench.errors import BenchError
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import HostSpec, Level, TestbedSpec
from vnetbench.study.workloads import TCP_STREAM


def asked(port: int, *others: HostSpec, host: str = programs.HOST) -> TestbedSpec:
    return TestbedSpec(lab="hosts", hosts=(HostSpec("esx-07", iperf3=f"{host}:{port}"), *others))


def load(duration_s: float = 0.2, **levels: Level) -> TrialLoad:
    return TrialLoad(complete_levels(levels, TCP_STREAM, HOSTS), duration_s, 0.05)


def measure(port: int, *others: HostSpec, **levels: Level) -> CompletedTrial:
    with closing(Iperf3Instrument(asked(port, *others))) as instrument:
        return instrument.measure(load(0.2, **levels), lambda: False)


def stock(*options: str) -> AbstractContextManager[tuple[int, subprocess.Popen[bytes]]]:
    return listening(programs.stock_iperf3(), "-s", "-B", programs.HOST, *options)


def ours() -> AbstractContextManager[tuple[int, subprocess.Popen[bytes]]]:
    return listening(*programs.agent_command("serve"))


@contextmanager
def listening(*command: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run an iperf3 server on a free port, and end it afterwards."""
    port = programs.free_port()
    command = (*command, "-p", str(port))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            programs.wait_for_listener(port, process)
            yield port, process
        finally:
            process.kill()


@pytest.mark.parametrize("served", [stock, ours])
@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
def test_both_sides_count_the_same_bytes(served: type, streams: int, direction: str) -> None:
    with served() as (port, _):
        done = measure(port, streams=streams, direction=direction)
    here, server, host = done.measurement.endpoints
    assert [s.name for s in (here, server, host)] == ["here", "esx-07", "host"]
    assert here.samples
    assert host.samples
    assert (server.samples, server.is_sampled) == ((), False)
    told = sum(int(note.split()[6]) for note in done.measurement.notes if "did not count the last" in note)
    assert server.bytes_received == here.bytes_sent - told
    assert abs(server.bytes_sent - here.bytes_received) <= streams * 2**20
    assert (here.bytes_sent > 0, here.bytes_received > 0) == (direction != "reverse", direction != "forward")
    assert len(server.totals["streams"]) == streams * (2 if direction == "both" else 1)  # type: ignore[arg-type]


def test_samples_of_a_source_tell_what_was_acknowledged() -> None:
    with stock() as (port, _):
        done = measure(port, message_size=4096)
    here = done.measurement.endpoints[0]
    acked = [stream.bytes_acked for sample in here.samples for stream in sample.streams]
    assert 0 < sum(acked) <= here.bytes_sent


def test_what_the_server_tells_of_itself_is_kept_as_facts() -> None:
    with stock("--json") as (port, _), closing(Iperf3Instrument(asked(port))) as instrument:
        instrument.measure(load(), lambda: False)
        learned = instrument.take_new_facts()
    assert str(learned.facts["esx-07"]["iperf3"]).startswith("iperf 3.")
    assert learned.facts["host"]["kernel"]
    (description,) = learned.testbeds.values()
    assert [end["name"] for end in description["endpoints"]] == ["here", "esx-07"]


def test_this_side_has_the_name_the_address_and_the_cpus_that_are_asked() -> None:
    local = HostSpec("web-01", local=True, interface="lo", address=programs.HOST)
    with stock() as (port, _):
        done = measure(port, local, cpus="0", socket_buffer=65536)
    assert done.testbed_shape == "web-01 to esx-07"
    assert done.measurement.endpoints[0].name == "web-01"
    assert done.measurement.effective["cpus"] == "0"
    assert done.measurement.effective["send_buffer_bytes"] == 2 * 65536
    assert done.measurement.effective["mtu"]


@pytest.mark.parametrize("local", [{"interface": "nosuch0"}, {"address": "192.0.2.77"}])
def test_a_way_that_is_not_there_is_said(local: dict[str, str]) -> None:
    here = HostSpec("here", local=True, **local)
    with stock() as (port, _), pytest.raises(BenchError) as refused:
        measure(port, here)
    assert refused.value.fix


def test_a_name_that_does_not_resolve_is_said() -> None:
    with (
        pytest.raises(BenchError, match="has no address"),
        closing(Iperf3Instrument(asked(5201, host="esx-07.invalid"))) as instrument,
    ):
        instrument.contact_server()


def test_nothing_that_listens_is_said_with_the_fix() -> None:
    with (
        closing(Iperf3Instrument(asked(programs.free_port()))) as instrument,
        pytest.raises(BenchError, match="Connection refused") as refused,
    ):
        instrument.contact_server()
    assert "iperf3 -s" in str(refused.value.fix)


def test_a_server_that_is_busy_is_asked_again_and_that_is_noted() -> None:
    with run_fake_server(FakeServer()) as server, closing(Iperf3Instrument(asked(server.port))) as instrument:
        instrument.contact_server()
        server.busy_replies = 5
        done = instrument.measure(load(), lambda: False)
    assert server.busy_replies == 0
    assert [note for note in done.measurement.notes if note.startswith("esx-07 was unavailable for")]


def test_a_server_that_stays_busy_costs_the_trial_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iperf3_instrument, "PATIENCE_S", {"busy": 0.1})
    with run_fake_server(FakeServer()) as server, closing(Iperf3Instrument(asked(server.port))) as instrument:
        instrument.contact_server()
        server.busy_replies = 1000
        with pytest.raises(TrialFailed, match="busy"):
            instrument.measure(load(), lambda: False)


def test_waiting_for_a_busy_server_can_be_given_up() -> None:
    with run_fake_server(FakeServer()) as server, closing(Iperf3Instrument(asked(server.port))) as instrument:
        instrument.contact_server()
        server.busy_replies = 1000
        with pytest.raises(TrialAbandoned):
            instrument.measure(load(), lambda: True)


def test_what_the_server_refuses_is_the_treatments_fault_and_the_next_is_served() -> None:
    with (
        run_fake_server(FakeServer(refusal_code=141)) as server,
        closing(Iperf3Instrument(asked(server.port))) as instrument,
    ):
        with pytest.raises(TreatmentRefused, match="limits socket buffers to a smaller size") as refused:
            instrument.measure(load(), lambda: False)
        server.refusal_code = 0
        instrument.measure(load(), lambda: False)
    assert "esx-07" in str(refused.value.where)


def test_a_server_that_wants_a_password_is_said() -> None:
    with (
        run_fake_server(FakeServer(refusal_code=142, test_count=1)) as server,
        closing(Iperf3Instrument(asked(server.port))) as instrument,
        pytest.raises(BenchError, match="user name and a password"),
    ):
        instrument.contact_server()


def test_a_server_that_vanishes_in_a_trial_costs_it_and_another_takes_over() -> None:
    with stock() as (port, process), closing(Iperf3Instrument(asked(port))) as instrument:
        instrument.contact_server()
        threading.Timer(0.4, process.kill).start()
        with pytest.raises(TrialFailed, match=r"closed the control connection|(broke|failed).*esx-07"):
            instrument.measure(load(30.0), lambda: False)
        process.wait()
        command = [programs.stock_iperf3(), "-s", "-1", "-B", programs.HOST, "-p", str(port)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as another:
            programs.wait_for_listener(port, another)
            instrument.measure(load(), lambda: False)


@pytest.mark.parametrize("served", [stock, ours])
def test_a_server_that_is_ended_by_hand_says_so(served: type) -> None:
    with served() as (port, process), closing(Iperf3Instrument(asked(port))) as instrument:
        instrument.contact_server()
        threading.Timer(0.4, process.send_signal, (signal.SIGTERM,)).start()
        with pytest.raises(TrialFailed, match="the server has terminated"):
            instrument.measure(load(30.0), lambda: False)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_server_that_stalls_ends_the_trial_in_time(direction: str) -> None:
    with stock() as (port, process), closing(Iperf3Instrument(asked(port))) as instrument:
        instrument.contact_server()
        threading.Timer(0.2, process.send_signal, (signal.SIGSTOP,)).start()
        began = time.monotonic()
        with pytest.raises(TrialFailed, match=r"did not end the test"):
            instrument.measure(load(0.5, direction=direction), lambda: False)
    assert time.monotonic() - began < programs.TIMEOUT_S


def test_a_server_that_says_nothing_at_the_end_ends_the_trial_in_time() -> None:
    with (
        run_fake_server(FakeServer(silent_after=TEST_RUNNING)) as server,
        pytest.raises(TrialFailed, match="did not end the test"),
    ):
        measure(server.port)


def test_a_server_that_does_not_know_of_both_ways_is_told_by_that() -> None:
    with run_fake_server(FakeServer()) as server, pytest.raises(TrialFailed, match=r"iperf3 3\.7 or later"):
        measure(server.port, direction="both")


@pytest.mark.parametrize(
    ("counted", "words"),
    [(lambda n: 2 * n + 1, "were sent to it"), (lambda n: n // 2, "a proxy on the path acknowledged")],
)
def test_counts_that_cannot_be_of_one_trial_fail_it(counted: object, words: str) -> None:
    with run_fake_server(FakeServer(reported_bytes=counted)) as server, pytest.raises(TrialFailed, match=words):  # type: ignore[arg-type]
        measure(server.port)


def test_a_few_bytes_that_were_not_counted_are_noted() -> None:
    with run_fake_server(FakeServer(reported_bytes=lambda n: max(0, n - 7))) as server:
        done = measure(server.port)
    assert any("did not count the last" in note for note in done.measurement.notes)


def test_a_count_that_nobody_can_send_fails_the_trial() -> None:
    told = {"bytes_sent": 1 << 63, "bytes_received": 0, "congestion_control": None}
    with pytest.raises(TrialFailed, match="reports an impossible count"):
        check_server_totals({}, "esx-07", {"bytes_sent": 0, "bytes_received": 1}, told)


def test_a_congestion_control_that_the_server_did_not_use_is_refused() -> None:
    told = {"bytes_sent": 1, "bytes_received": 0, "congestion_control": "bbr"}
    with pytest.raises(TreatmentRefused, match="cubic had no effect: bbr was used"):
        check_server_totals(
            {"congestion_control": "cubic"}, "esx-07", {"bytes_sent": 0, "bytes_received": 1}, told
        )


def test_a_congestion_control_that_the_server_does_not_tell_is_noted() -> None:
    told = {"bytes_sent": 1, "bytes_received": 0, "congestion_control": None}
    notes = check_server_totals(
        {"congestion_control": "cubic"}, "esx-07", {"bytes_sent": 0, "bytes_received": 1}, told
    )
    assert notes == ["esx-07 does not report its congestion control; cubic was requested"]
