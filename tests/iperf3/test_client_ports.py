"""The option `--cport`, as in iperf3 3.12: the streams' source ports, one after the other."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.iperf3 import programs
from tests.iperf3.option_matrix import Document, OptionSet
from tests.iperf3.test_option_matrix import run_our_client

MAX_STREAMS = 4


def free_ports() -> int:
    """Return the first of some free ports, different for each process.

    They are below the ports that the kernel gives to other programs.
    """
    for turn in range(1000):
        first = 20_000 + (os.getpid() + turn) % 1000 * MAX_STREAMS
        with ExitStack() as stack:
            try:
                for port in range(first, first + MAX_STREAMS):
                    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                        stack.enter_context(socket.socket(type=kind)).bind((programs.HOST, port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


def local_ports(document: Document) -> list[int]:
    """Return the source ports of a client's streams."""
    return [stream["local_port"] for stream in document["start"]["connected"]]


def remote_ports(document: Document) -> list[int]:
    """Return the ports that a server sees."""
    return [stream["remote_port"] for stream in document["start"]["connected"]]


@pytest.mark.parametrize(
    ("options", "streams"), [("-P 3", 3), ("-P 2 --bidir", 4), ("-u -P 2 -R", 2), ("-u -P 2 --bidir", 4)]
)
def test_our_client_uses_these_ports_towards_a_stock_server(options: str, streams: int) -> None:
    first = free_ports()
    outcome = run_our_client(OptionSet(f"-t 0.1 --cport {first} {options}"))
    assert outcome.client_code == 0, outcome.client
    expected = list(range(first, first + streams))
    assert (local_ports(outcome.client), remote_ports(outcome.server)) == (expected, expected)


def test_a_stock_client_uses_the_same_ports_again_at_once_with_our_server(tmp_path: Path) -> None:
    first = free_ports()
    with programs.run_server(tmp_path) as server:
        command = [programs.stock_iperf3(), "-c", programs.HOST, "-p", str(server.port), "-J", "-n", "100K"]
        for options in ("-P 3", "-P 3 -R", "-P 2 --bidir", "-P 3"):
            code, client, errors = programs.run_json([*command, "--cport", str(first), *options.split()])
            assert code == 0, (options, client.get("error"), errors)
            assert local_ports(client)[0] == first
            seen = server.wait_for_document(client["start"]["cookie"])
            assert remote_ports(seen) == local_ports(client)


def test_a_port_in_use_is_an_error_that_names_it(tmp_path: Path) -> None:
    first = free_ports()
    with programs.run_server(tmp_path) as server, socket.socket() as other:
        other.bind((programs.HOST, first + 1))
        other.listen()
        command = [*programs.agent_command("client"), programs.HOST, "-p", str(server.port)]
        code, _, errors = programs.run([*command, "--cport", str(first), "-P", "2", "-t", "1"])
    assert code == 1
    assert f"cannot use the source port {first + 1}: " in errors
    assert "Choose another --cport" in errors
