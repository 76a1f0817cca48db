"""Peers that stall, vanish, lie or speak something else: a clear error, and nobody else is harmed."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.iperf3 import programs

COOKIE = b"a" * 36 + b"\0"
PARAMETER_EXCHANGE, CREATE_STREAMS = b"\x09", b"\x0a"
SERVER_ERROR, ACCESS_DENIED = b"\xfe", b"\xff"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[programs.Server]:
    """One that gives up after half a second."""
    with programs.server(tmp_path, "--rcv-timeout", "500") as running:
        yield running


def connected(server: programs.Server, first: bytes) -> socket.socket:
    control = socket.create_connection((programs.HOST, server.port), timeout=programs.PATIENCE_S)
    control.sendall(first)
    return control


def until_closed(control: socket.socket) -> bytes:
    said = b""
    while part := control.recv(4096):
        said += part
    return said


def serves(server: programs.Server) -> None:
    """A stock client has a whole test."""
    command = [programs.stock(), "-c", programs.HOST, "-p", str(server.port), "-n", "1M", "-J"]
    code, document, errors = programs.run_json(command)
    assert code == 0, errors
    assert document["end"]["sum_received"]["bytes"] >= 1 << 20


def framed(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


@pytest.mark.parametrize(
    ("sent", "number"),
    [
        (b"\xff\xff\xff\xff", 114),
        (b"\0\0\0\0", 114),
        (framed(b"no JSON"), 114),
        (framed(b"[]"), 114),
        (framed(b'{"parallel": 100000}'), 6),
        (framed(b'{"sctp": true}'), 18),
        (framed(b'{"len": 99999999}'), 7),
        (framed(b'{"congestion": "no-such"}'), 134),
        (framed(b'{"window": 400000000}'), 141),
        (framed(b'{"server_affinity": 900}'), 132),
        (framed(b"{}") + b"\x04", 110),
        (framed(b"{}"), 204),
    ],
)
def test_a_client_that_is_wrong_is_told_by_number_and_others_are_served(
    server: programs.Server, sent: bytes, number: int
) -> None:
    with connected(server, COOKIE + sent) as control:
        serves(server)
        said = until_closed(control)
    assert said[:1] == PARAMETER_EXCHANGE
    state, reason, _ = struct.unpack(">cII", said[-9:])
    assert (state, reason) == (SERVER_ERROR, number)
    serves(server)


@pytest.mark.parametrize(
    "first", [b"", b"a", COOKIE, b"GET / HTTP/1.1\r\nHost: somebody\r\nAccept: */*\r\n\r\n"]
)
def test_a_client_that_stalls_is_dropped_while_others_are_served(
    server: programs.Server, first: bytes
) -> None:
    with connected(server, first) as control:
        serves(server)
        until_closed(control)


def test_a_stream_in_which_nothing_moves_is_given_up(server: programs.Server) -> None:
    with (
        connected(server, COOKIE + framed(b'{"time": 60}')) as control,
        socket.create_connection((programs.HOST, server.port)) as stream,
    ):
        # It is to come after its control connection.
        assert control.recv(1) == PARAMETER_EXCHANGE
        assert control.recv(1) == CREATE_STREAMS
        stream.sendall(COOKIE)
        said = until_closed(control)
    assert struct.unpack(">cII", said[-9:])[1] == 144


def test_a_client_that_is_killed_costs_only_its_own_test(server: programs.Server) -> None:
    command = [
        programs.stock(),
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
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        while "connected to" not in killed.stdout.readline():
            pass
        serves(server)
        killed.kill()
    serves(server)
    failed = [document for document in server.documents_of(3) if "error" in document]
    assert len(failed) == 1
    assert "closed" in failed[0]["error"] or "broke" in failed[0]["error"]
    assert failed[0]["intervals"]


def test_many_stock_clients_are_served_at_once_from_one_address(server: programs.Server) -> None:
    def one(number: int) -> int:
        options = ["-u", "-b", "2M", "-P", "3"] if number % 2 else ["-P", "3", "-b", "5M"]
        command = [programs.stock(), "-c", programs.HOST, "-p", str(server.port), "-t", "1", *options]
        return programs.run(command)[0]

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(one, range(12))) == [0] * 12


def test_a_port_in_use_is_named(server: programs.Server) -> None:
    code, _, errors = programs.run([*programs.ours("serve"), "-p", str(server.port)])
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{server.port}" in errors
    assert "choose one with -p" in errors


def test_the_server_is_on_loopback_alone_unless_told_otherwise(server: programs.Server) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=programs.PATIENCE_S)


def client_of(answer: Callable[[socket.socket], None], *options: str) -> tuple[int, str]:
    """Our client's exit code and errors, at a server that answers like this."""
    with socket.create_server((programs.HOST, 0)) as listener:

        def attend() -> None:
            control, _ = listener.accept()
            with control:
                answer(control)

        thread = threading.Thread(target=attend)
        thread.start()
        port = str(listener.getsockname()[1])
        arguments = [programs.HOST, "-p", port, "-t", "1", "--rcv-timeout", "500", *options]
        code, _, errors = programs.run([*programs.ours("client"), *arguments])
        thread.join()
    return code, errors


def refusal(reason: int, errno: int) -> bytes:
    return SERVER_ERROR + struct.pack(">II", reason, errno)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda control: control.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "does not speak iperf3"),
        (lambda control: control.sendall(ACCESS_DENIED), "busy"),
        (lambda control: control.recv(37) and None, "closed the control connection"),
        (lambda control: until_closed(control) and None, "did not answer in time"),
        (lambda control: control.sendall(refusal(134, 2)), "no such congestion control"),
        (lambda control: control.sendall(refusal(4711, 0)), "error 4711"),
        (lambda control: control.sendall(b"\x0b"), "has terminated"),
        (lambda control: control.sendall(b"\x0d"), "out of turn"),
    ],
)  # fmt: skip
def test_a_server_that_is_no_good_is_told_in_words(
    answer: Callable[[socket.socket], None], words: str
) -> None:
    code, errors = client_of(answer)
    assert code == 1
    assert words in errors


def test_a_server_that_is_not_there_is_told_in_words() -> None:
    port = str(programs.free_port())
    code, _, errors = programs.run([*programs.ours("client"), programs.HOST, "-p", port])
    assert (code, f"cannot connect to 127.0.0.1:{port}: Connection refused" in errors) == (1, True)
    code, document, _ = programs.run_json([*programs.ours("client"), programs.HOST, "-p", port, "-J"])
    assert (code, "Connection refused" in document["error"]) == (1, True)


def test_a_server_that_dies_under_load_is_told_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    with programs.server(tmp_path) as dying:
        arguments = [programs.HOST, "-p", str(dying.port), "-t", "60", "-i", "0.1", "-J"]
        with subprocess.Popen(
            [*programs.ours("client"), *arguments], stdout=subprocess.PIPE, text=True
        ) as client:
            timer = threading.Timer(0.5, dying.process.kill)
            timer.start()
            output, _ = client.communicate(timeout=programs.PATIENCE_S)
    assert client.returncode == 1
    assert '"error": "' in output
    assert output.count('"sum"') >= 2


def test_a_second_client_of_a_stock_server_is_told_that_it_is_busy() -> None:
    port = programs.free_port()
    serve = [programs.stock(), "-s", "-1", "-B", programs.HOST, "-p", str(port)]
    with subprocess.Popen(serve, stdout=subprocess.DEVNULL) as stock:
        try:
            programs.wait_for_listener(port, stock)
            with socket.create_connection((programs.HOST, port)) as first:
                first.sendall(COOKIE)
                assert first.recv(1) == PARAMETER_EXCHANGE
                first.sendall(framed(b'{"tcp": true, "time": 1, "parallel": 1, "len": 1000}'))
                assert first.recv(1) == CREATE_STREAMS
                code, _, errors = programs.run([*programs.ours("client"), programs.HOST, "-p", str(port)])
                assert (code, "busy" in errors) == (1, True)
        finally:
            stock.kill()


def test_ctrl_c_at_our_client_ends_the_test_with_its_figures(tmp_path: Path) -> None:
    with programs.server(tmp_path) as server:
        arguments = [programs.HOST, "-p", str(server.port), "-t", "0", "-i", "0.1"]
        with subprocess.Popen(
            [*programs.ours("client"), *arguments], stdout=subprocess.PIPE, text=True
        ) as client:
            assert client.stdout is not None
            while "0.10-" not in client.stdout.readline():
                pass
            client.send_signal(signal.SIGINT)
            output, _ = client.communicate(timeout=programs.PATIENCE_S)
        documents = server.documents_of(1)
    assert client.returncode == 0
    assert output.count("sender") == output.count("receiver") == 1
    assert [document.get("error") for document in documents] == [None]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("direction", [[], ["-R"], ["-u"]], ids=str)
def test_clients_of_a_server_that_is_ended_by_hand_are_told(
    tmp_path: Path, number: signal.Signals, direction: list[str]
) -> None:
    with programs.server(tmp_path) as server:
        command = [programs.stock(), "-c", programs.HOST, "-p", str(server.port), "-t", "60", *direction]
        with subprocess.Popen(
            [*command, "--forceflush"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as client:
            assert client.stdout is not None
            while " sec " not in client.stdout.readline():
                pass
            server.process.send_signal(number)
            _, errors = client.communicate(timeout=programs.PATIENCE_S)
        assert "the server has terminated" in errors
        assert server.process.wait(programs.PATIENCE_S) == 0
        assert server.documents()[0]["error"] == "the server has been ended by hand"
