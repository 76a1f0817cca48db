"""Tests with peers that stall, disappear or violate the protocol: clear errors, other tests unaffected."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.free_ports import take_free_port
from tests.iperf3 import programs

COOKIE = b"a" * 36 + b"\0"
PARAMETER_EXCHANGE, CREATE_STREAMS = b"\x09", b"\x0a"
SERVER_ERROR, ACCESS_DENIED = b"\xfe", b"\xff"


IDLE_TIMEOUT_MS = 2000
"""Short enough to wait for. A stock client of the same server pauses for less, also on a busy machine."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[programs.JsonServer]:
    """Run our server."""
    with programs.run_server(tmp_path) as running:
        yield running


@pytest.fixture
def impatient_server(tmp_path: Path) -> Iterator[programs.JsonServer]:
    """Run our server with a short idle timeout."""
    with programs.run_server(tmp_path, "--rcv-timeout", str(IDLE_TIMEOUT_MS)) as running:
        yield running


def open_control_connection(server: programs.JsonServer, first: bytes) -> socket.socket:
    control = socket.create_connection((programs.HOST, server.port), timeout=programs.TIMEOUT_S)
    control.sendall(first)
    return control


def receive_until_closed(control: socket.socket) -> bytes:
    received = b""
    while part := control.recv(4096):
        received += part
    return received


def check_serves_client(server: programs.JsonServer) -> None:
    """Check that a stock client completes a test."""
    command = [programs.stock_iperf3(), "-c", programs.HOST, "-p", str(server.port), "-n", "1M", "-J"]
    code, document, errors = programs.run_json(command)
    assert code == 0, errors
    assert document["end"]["sum_received"]["bytes"] >= 1 << 20


def encode_document(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\xff\xff\xff\xff", 114),
        (b"\0\0\0\0", 114),
        (encode_document(b"no JSON"), 114),
        (encode_document(b"[]"), 114),
        (encode_document(b'{"parallel": 100000}'), 6),
        (encode_document(b'{"sctp": true}'), 18),
        (encode_document(b'{"len": 99999999}'), 7),
        (encode_document(b'{"congestion": "no-such"}'), 134),
        (encode_document(b'{"window": 400000000}'), 141),
        (encode_document(b'{"server_affinity": 900}'), 132),
        (encode_document(b"{}") + b"\x04", 110),
    ],
)
def test_an_invalid_client_gets_an_error_code_and_other_clients_are_served(
    server: programs.JsonServer, sent: bytes, code: int
) -> None:
    check_gets_error_code(server, sent, code)


def test_a_client_that_opens_no_streams_gets_an_error_code(impatient_server: programs.JsonServer) -> None:
    check_gets_error_code(impatient_server, encode_document(b"{}"), 204)


def check_gets_error_code(server: programs.JsonServer, sent: bytes, code: int) -> None:
    """Check that the server answers an invalid client with this code, and serves a stock client meanwhile."""
    with open_control_connection(server, COOKIE + sent) as control:
        check_serves_client(server)
        received = receive_until_closed(control)
    assert received[:1] == PARAMETER_EXCHANGE
    state, error_code, _ = struct.unpack(">cII", received[-9:])
    assert (state, error_code) == (SERVER_ERROR, code)
    check_serves_client(server)


@pytest.mark.parametrize(
    "first", [b"", b"a", COOKIE, b"GET / HTTP/1.1\r\nHost: somebody\r\nAccept: */*\r\n\r\n"]
)
def test_a_client_that_stalls_is_dropped_while_others_are_served(
    impatient_server: programs.JsonServer, first: bytes
) -> None:
    with open_control_connection(impatient_server, first) as control:
        check_serves_client(impatient_server)
        receive_until_closed(control)


def test_a_test_without_data_is_aborted(impatient_server: programs.JsonServer) -> None:
    server = impatient_server
    with (
        open_control_connection(server, COOKIE + encode_document(b'{"time": 60}')) as control,
        socket.create_connection((programs.HOST, server.port)) as stream,
    ):
        # The stream must arrive after the control connection.
        assert control.recv(1) == PARAMETER_EXCHANGE
        assert control.recv(1) == CREATE_STREAMS
        stream.sendall(COOKIE)
        received = receive_until_closed(control)
    assert struct.unpack(">cII", received[-9:])[1] == 144


def test_a_killed_client_loses_only_its_own_test(server: programs.JsonServer) -> None:
    command = [
        programs.stock_iperf3(),
        "-c",
        programs.HOST,
        "-p",
        str(server.port),
        "-t",
        "60",
        "-P",
        "3",
        "--bidir",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as killed:
        programs.wait_for_load(server.port)
        check_serves_client(server)
        killed.kill()
    check_serves_client(server)
    failed = [document for document in server.wait_for_documents(3) if "error" in document]
    assert len(failed) == 1
    assert "closed" in failed[0]["error"] or "failed" in failed[0]["error"]
    assert failed[0]["intervals"]


def test_many_stock_clients_are_served_at_once_from_one_address(server: programs.JsonServer) -> None:
    def run_client(number: int) -> int:
        options = ["-u", "-b", "2M", "-P", "3"] if number % 2 else ["-P", "3", "-b", "5M"]
        command = [programs.stock_iperf3(), "-c", programs.HOST, "-p", str(server.port), "-t", "1", *options]
        return programs.run(command)[0]

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(run_client, range(12))) == [0] * 12


def test_a_port_in_use_is_reported(server: programs.JsonServer) -> None:
    code, _, errors = programs.run([*programs.agent_command("serve"), "-p", str(server.port)])
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{server.port}" in errors
    assert "Choose another port with -p" in errors


def test_the_server_listens_only_on_loopback_by_default(server: programs.JsonServer) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=programs.TIMEOUT_S)


def run_our_client(answer: Callable[[socket.socket], None], *options: str) -> tuple[int, str]:
    """Run our client against a server that answers like this; return its exit code and error output."""
    with socket.create_server((programs.HOST, 0)) as listener:

        def serve() -> None:
            control, _ = listener.accept()
            with control:
                answer(control)

        thread = threading.Thread(target=serve)
        thread.start()
        port = str(listener.getsockname()[1])
        arguments = [programs.HOST, "-p", port, "-t", "1", *options]
        code, _, errors = programs.run([*programs.agent_command("client"), *arguments])
        thread.join()
    return code, errors


def encode_error(code: int, errno: int) -> bytes:
    return SERVER_ERROR + struct.pack(">II", code, errno)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda control: control.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "does not speak iperf3"),
        (lambda control: control.sendall(ACCESS_DENIED), "busy"),
        (lambda control: control.recv(37) and None, "closed the control connection"),
        (lambda control: control.sendall(encode_error(134, 2)), "does not support this congestion control"),
        (lambda control: control.sendall(encode_error(4711, 0)), "iperf3 error 4711"),
        (lambda control: control.sendall(b"\x0b"), "has terminated"),
        (lambda control: control.sendall(b"\x0d"), "out of turn"),
    ],
)  # fmt: skip
def test_a_faulty_server_is_reported(answer: Callable[[socket.socket], None], expected: str) -> None:
    code, errors = run_our_client(answer)
    assert code == 1
    assert expected in errors


def test_a_silent_server_is_reported() -> None:
    def never_answer(control: socket.socket) -> None:
        receive_until_closed(control)

    code, errors = run_our_client(never_answer, "--rcv-timeout", "500")
    assert code == 1
    assert "did not answer in time" in errors


def test_a_missing_server_is_reported() -> None:
    port = str(take_free_port())
    code, _, errors = programs.run([*programs.agent_command("client"), programs.HOST, "-p", port])
    assert (code, f"cannot connect to 127.0.0.1:{port}: Connection refused" in errors) == (1, True)
    code, document, _ = programs.run_json(
        [*programs.agent_command("client"), programs.HOST, "-p", port, "-J"]
    )
    assert (code, "Connection refused" in document["error"]) == (1, True)


def test_a_server_killed_under_load_is_reported_with_the_intervals_so_far(tmp_path: Path) -> None:
    with programs.run_server(tmp_path) as dying:
        options = ["-t", "60", "-i", "0.1", "-b", "8M", "-J"]
        command = [*programs.agent_command("client"), programs.HOST, "-p", str(dying.port), *options]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client,
            programs.act_under_load(dying.port, dying.process.kill),
        ):
            output, _ = client.communicate(timeout=programs.TIMEOUT_S)
    assert client.returncode == 1
    document = json.loads(output)
    assert document["error"]
    # A client that waits for a CPU has fewer intervals, but they contain all bytes.
    assert sum(each["sum"]["bytes"] for each in document["intervals"]) >= programs.LEAST_LOAD_BYTES


def test_a_second_client_of_a_stock_server_reports_that_it_is_busy() -> None:
    port = take_free_port()
    serve = [programs.stock_iperf3(), "-s", "-1", "-B", programs.HOST, "-p", str(port)]
    with subprocess.Popen(serve, stdout=subprocess.DEVNULL) as stock:
        try:
            programs.wait_for_listener(port, stock)
            with socket.create_connection((programs.HOST, port)) as first:
                first.sendall(COOKIE)
                assert first.recv(1) == PARAMETER_EXCHANGE
                first.sendall(encode_document(b'{"tcp": true, "time": 1, "parallel": 1, "len": 1000}'))
                assert first.recv(1) == CREATE_STREAMS
                code, _, errors = programs.run(
                    [*programs.agent_command("client"), programs.HOST, "-p", str(port)]
                )
                assert (code, "busy" in errors) == (1, True)
        finally:
            stock.kill()


def test_ctrl_c_at_our_client_ends_the_test_with_results(tmp_path: Path) -> None:
    with programs.run_server(tmp_path) as server:
        arguments = [programs.HOST, "-p", str(server.port), "-t", "0", "-i", "0.1"]
        with subprocess.Popen(
            [*programs.agent_command("client"), *arguments], stdout=subprocess.PIPE, text=True
        ) as client:
            programs.wait_for_output(client, " sec ")
            client.send_signal(signal.SIGINT)
            output, _ = client.communicate(timeout=programs.TIMEOUT_S)
        documents = server.wait_for_documents(1)
    assert client.returncode == 0
    assert output.count("sender") == output.count("receiver") == 1
    assert [document.get("error") for document in documents] == [None]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("direction", [[], ["-R"], ["-u"]], ids=str)
def test_a_server_ended_by_a_signal_informs_its_clients(
    tmp_path: Path, number: signal.Signals, direction: list[str]
) -> None:
    with programs.run_server(tmp_path) as server:
        command = [
            programs.stock_iperf3(),
            "-c",
            programs.HOST,
            "-p",
            str(server.port),
            "-t",
            "60",
            *direction,
        ]
        with subprocess.Popen(
            [*command, "--forceflush"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as client:
            programs.wait_for_output(client, " sec ")
            server.process.send_signal(number)
            _, errors = client.communicate(timeout=programs.TIMEOUT_S)
        assert "the server has terminated" in errors
        assert server.process.wait(programs.TIMEOUT_S) == 0
        assert server.documents()[0]["error"] == "a signal ended the server"
