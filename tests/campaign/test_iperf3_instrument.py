"""Trials with an iperf3 server as one endpoint: counts, facts, errors and fixes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial

import pytest

from tests.free_ports import take_free_port
from tests.iperf3 import programs
from tests.iperf3.fake_server import TEST_RUNNING, FakeServer, run_fake_server
from tests.machine import FIRST_CPU
from vnetbench.campaign import iperf3_instrument
from vnetbench.campaign.count_checks import check_server_totals
from vnetbench.campaign.instrument import CompletedTrial
from vnetbench.campaign.iperf3_instrument import Iperf3Instrument
from vnetbench.campaign.trial import TrialAbandoned, TrialLoad
from vnetbench.errors import BenchError
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import ExistingEndpointSpec, Level, TestbedSpec
from vnetbench.study.workloads import TCP_STREAM


def make_spec(port: int, *others: ExistingEndpointSpec, host: str = programs.HOST) -> TestbedSpec:
    return TestbedSpec(
        lab="hosts",
        existing_endpoints=(ExistingEndpointSpec("esx-07", iperf3_server=f"{host}:{port}"), *others),
    )


def load(duration_s: float = 0.2, **levels: Level) -> TrialLoad:
    return TrialLoad(complete_levels(levels, TCP_STREAM, HOSTS), duration_s, 0.05)


def measure(port: int, *others: ExistingEndpointSpec, **levels: Level) -> CompletedTrial:
    with closing(Iperf3Instrument(make_spec(port, *others))) as instrument:
        return instrument.measure(load(0.2, **levels), lambda: False)


def stock_server(*options: str) -> AbstractContextManager[tuple[int, subprocess.Popen[bytes]]]:
    return run_server(programs.stock_iperf3(), "-s", "-B", programs.HOST, *options)


def own_server() -> AbstractContextManager[tuple[int, subprocess.Popen[bytes]]]:
    return run_server(*programs.agent_command("serve"))


@contextmanager
def run_server(*command: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run an iperf3 server on a free port, and kill it afterwards."""
    port = take_free_port()
    command = (*command, "-p", str(port))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            programs.wait_for_listener(port, process)
            yield port, process
        finally:
            process.kill()


@pytest.mark.parametrize("serve", [stock_server, own_server])
@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
def test_both_endpoints_count_the_same_bytes(serve: type, streams: int, direction: str) -> None:
    with serve() as (port, _):
        measurement = measure(port, streams=streams, direction=direction).measurement
    local, server, host = measurement.endpoints
    assert [each.name for each in (local, server, host)] == ["here", "esx-07", "host"]
    assert local.samples
    assert host.samples
    assert (server.samples, server.is_sampled) == ((), False)
    uncounted = sum(
        int(number)
        for note in measurement.notes
        for number in re.findall(r"did not count the last (\d+) of", note)
    )
    assert server.bytes_received == local.bytes_sent - uncounted
    assert abs(server.bytes_sent - local.bytes_received) <= streams * 2**20
    is_sending, is_receiving = direction != "reverse", direction != "forward"
    assert (local.bytes_sent > 0, local.bytes_received > 0) == (is_sending, is_receiving)
    assert len(server.totals["streams"]) == streams * (2 if direction == "both" else 1)  # type: ignore[arg-type]


def test_samples_of_a_source_contain_acknowledged_bytes() -> None:
    message_bytes = 4096
    with stock_server() as (port, _):
        local = measure(port, message_size=message_bytes).measurement.endpoints[0]
    acknowledged = [stream.bytes_acked for sample in local.samples for stream in sample.streams]
    # Bytes count as sent when their write ends, so the last write can be acknowledged and not counted.
    assert 0 < sum(acknowledged) <= local.bytes_sent + message_bytes


def test_the_version_of_the_server_is_stored_as_a_fact() -> None:
    with stock_server("--json") as (port, _), closing(Iperf3Instrument(make_spec(port))) as instrument:
        instrument.measure(load(), lambda: False)
        new_facts = instrument.take_new_facts()
    assert str(new_facts.facts_by_subject["esx-07"]["iperf3"]).startswith("iperf 3.")
    assert new_facts.facts_by_subject["host"]["kernel"]
    (description,) = new_facts.testbed_descriptions.values()
    assert [end["name"] for end in description["endpoints"]] == ["here", "esx-07"]


def test_the_local_endpoint_has_the_requested_name_address_and_cpus() -> None:
    local = ExistingEndpointSpec("web-01", is_bench_machine=True, interface="lo", address=programs.HOST)
    with stock_server() as (port, _):
        trial = measure(port, local, cpus=str(FIRST_CPU), socket_buffer=65536)
    assert trial.testbed_shape == "web-01 to esx-07"
    assert trial.measurement.endpoints[0].name == "web-01"
    assert trial.measurement.effective["cpus"] == str(FIRST_CPU)
    assert trial.measurement.effective["send_buffer_bytes"] == 2 * 65536
    assert trial.measurement.effective["mtu"]


@pytest.mark.parametrize("levels", [{"interface": "nosuch0"}, {"address": "192.0.2.77"}])
def test_a_missing_local_interface_or_address_is_an_error_with_a_fix(levels: dict[str, str]) -> None:
    local = ExistingEndpointSpec("here", is_bench_machine=True, **levels)
    with stock_server() as (port, _), pytest.raises(BenchError) as refused:
        measure(port, local)
    assert refused.value.fix


def test_a_name_that_does_not_resolve_is_an_error() -> None:
    with (
        pytest.raises(BenchError, match=r"cannot resolve esx-07\.invalid"),
        closing(Iperf3Instrument(make_spec(5201, host="esx-07.invalid"))) as instrument,
    ):
        instrument.contact_server()


def test_an_unreachable_server_is_an_error_with_a_fix() -> None:
    with (
        closing(Iperf3Instrument(make_spec(take_free_port()))) as instrument,
        pytest.raises(BenchError, match="Connection refused") as refused,
    ):
        instrument.contact_server()
    assert "iperf3 -s" in str(refused.value.fix)


def test_a_busy_server_is_retried_with_a_note() -> None:
    with (
        run_fake_server(FakeServer()) as server,
        closing(Iperf3Instrument(make_spec(server.port))) as instrument,
    ):
        instrument.contact_server()
        server.busy_replies = 5
        measurement = instrument.measure(load(), lambda: False).measurement
    assert server.busy_replies == 0
    assert [
        note for note in measurement.notes if note.startswith("the iperf3 server esx-07 was unavailable for")
    ]


def test_a_server_that_stays_busy_fails_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iperf3_instrument, "RETRY_TIMEOUT_S_BY_ERROR", {"busy": 0.1})
    with (
        run_fake_server(FakeServer()) as server,
        closing(Iperf3Instrument(make_spec(server.port))) as instrument,
    ):
        instrument.contact_server()
        server.busy_replies = 1000
        with pytest.raises(TrialFailed, match="busy"):
            instrument.measure(load(), lambda: False)


def test_the_wait_for_a_busy_server_can_be_abandoned() -> None:
    with (
        run_fake_server(FakeServer()) as server,
        closing(Iperf3Instrument(make_spec(server.port))) as instrument,
    ):
        instrument.contact_server()
        server.busy_replies = 1000
        with pytest.raises(TrialAbandoned):
            instrument.measure(load(), lambda: True)


def test_a_refusal_by_the_server_refuses_only_that_treatment() -> None:
    with (
        run_fake_server(FakeServer(refusal_code=141)) as server,
        closing(Iperf3Instrument(make_spec(server.port))) as instrument,
    ):
        with pytest.raises(TreatmentRefused, match="limits socket buffers to a smaller size") as refused:
            instrument.measure(load(), lambda: False)
        server.refusal_code = 0
        instrument.measure(load(), lambda: False)
    assert "esx-07" in str(refused.value.where)


def test_a_server_that_requires_a_password_is_an_error() -> None:
    with (
        run_fake_server(FakeServer(refusal_code=142, test_count=1)) as server,
        closing(Iperf3Instrument(make_spec(server.port))) as instrument,
        pytest.raises(BenchError, match="user name and a password"),
    ):
        instrument.contact_server()


def test_a_server_that_disappears_fails_the_trial_and_can_be_replaced() -> None:
    with stock_server() as (port, process), closing(Iperf3Instrument(make_spec(port))) as instrument:
        instrument.contact_server()
        with (
            programs.act_under_load(port, process.kill),
            pytest.raises(TrialFailed, match=r"closed the control connection|broke.*esx-07"),
        ):
            instrument.measure(load(30.0), lambda: False)
        process.wait()
        command = [programs.stock_iperf3(), "-s", "-1", "-B", programs.HOST, "-p", str(port)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as replacement:
            programs.wait_for_listener(port, replacement)
            instrument.measure(load(), lambda: False)


@pytest.mark.parametrize("serve", [stock_server, own_server])
def test_a_terminated_server_reports_its_termination(serve: type) -> None:
    with serve() as (port, process), closing(Iperf3Instrument(make_spec(port))) as instrument:
        instrument.contact_server()
        with (
            programs.act_under_load(port, process.terminate),
            pytest.raises(TrialFailed, match="the server has terminated"),
        ):
            instrument.measure(load(30.0), lambda: False)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_stopped_server_fails_the_trial_before_the_timeout(direction: str) -> None:
    with stock_server() as (port, process), closing(Iperf3Instrument(make_spec(port))) as instrument:
        instrument.contact_server()
        start = time.monotonic()
        with (
            programs.act_under_load(port, partial(process.send_signal, signal.SIGSTOP)),
            pytest.raises(TrialFailed, match=r"did not end the test"),
        ):
            instrument.measure(load(2.0, direction=direction), lambda: False)
    assert time.monotonic() - start < programs.TIMEOUT_S


def test_a_server_that_is_silent_at_the_end_fails_the_trial() -> None:
    with (
        run_fake_server(FakeServer(silent_after=TEST_RUNNING)) as server,
        pytest.raises(TrialFailed, match="did not end the test"),
    ):
        measure(server.port)


def test_a_server_without_bidirectional_tests_fails_the_trial_with_a_hint() -> None:
    with run_fake_server(FakeServer()) as server, pytest.raises(TrialFailed, match=r"iperf3 3\.7 or later"):
        measure(server.port, direction="both")


@pytest.mark.parametrize(
    ("reported_bytes", "message"),
    [(lambda n: 2 * n + 1, "were sent to it"), (lambda n: n // 2, "a proxy on the path acknowledged")],
)
def test_contradictory_byte_counts_fail_the_trial(reported_bytes: Callable[[int], int], message: str) -> None:
    with (
        run_fake_server(FakeServer(reported_bytes=reported_bytes)) as server,
        pytest.raises(TrialFailed, match=message),
    ):
        measure(server.port)


def test_a_few_uncounted_bytes_are_noted() -> None:
    with run_fake_server(FakeServer(reported_bytes=lambda n: max(0, n - 7))) as server:
        measurement = measure(server.port).measurement
    assert any("did not count the last" in note for note in measurement.notes)


def test_an_impossible_byte_count_fails_the_trial() -> None:
    server_totals = {"bytes_sent": 1 << 63, "bytes_received": 0, "congestion_control": None}
    with pytest.raises(TrialFailed, match="which is impossible"):
        check_server_totals({}, "esx-07", {"bytes_sent": 0, "bytes_received": 1}, server_totals)


def test_another_congestion_control_on_the_server_is_refused() -> None:
    server_totals = {"bytes_sent": 1, "bytes_received": 0, "congestion_control": "bbr"}
    with pytest.raises(TreatmentRefused, match="cubic had no effect: the iperf3 server used bbr"):
        check_server_totals(
            {"congestion_control": "cubic"}, "esx-07", {"bytes_sent": 0, "bytes_received": 1}, server_totals
        )


def test_an_unreported_congestion_control_is_noted() -> None:
    server_totals = {"bytes_sent": 1, "bytes_received": 0, "congestion_control": None}
    notes = check_server_totals(
        {"congestion_control": "cubic"}, "esx-07", {"bytes_sent": 0, "bytes_received": 1}, server_totals
    )
    assert notes == [
        "the iperf3 server esx-07 does not report which congestion control it used. The treatment requests "
        "cubic"
    ]


@pytest.mark.parametrize("serve", [stock_server, own_server])
def test_named_source_ports_serve_one_trial_after_another(serve: type) -> None:
    ports = [20_600 + 10 * (os.getpid() % 1000) + i for i in range(6)]
    with serve() as (port, _):
        for level in ("spread", *[f"{ports[0]}-{ports[-1]}"] * 2):
            effective = measure(port, streams=3, direction="both", source_ports=level).measurement.effective
    assert effective["source_ports"] == {"here": ports}


def test_a_source_port_in_use_is_refused_at_this_machine() -> None:
    with stock_server() as (port, _), socket.socket() as other:
        other.bind((programs.HOST, 0))
        other.listen()
        used = other.getsockname()[1]
        with pytest.raises(TreatmentRefused, match=f"the source port {used}: another socket") as refused:
            measure(port, source_ports=f"{used}-{used}")
    assert (refused.value.where, "name other ports" in str(refused.value.fix)) == ("here", True)
