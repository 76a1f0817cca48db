"""Tests of every set of options against Debian's iperf3, with our program as server and as client."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.free_ports import take_free_port
from tests.iperf3 import programs
from tests.iperf3.option_matrix import TCP_OPTIONS, UDP_OPTIONS, Iperf3Outcome, OptionSet, check_outcome

OPTION_SETS = [OptionSet(line) for line in (*TCP_OPTIONS, *UDP_OPTIONS)]
PARALLEL_TESTS = 6


def run_stock_client(server: programs.JsonServer, options: OptionSet) -> Iperf3Outcome:
    """Run Debian's client against our server, which serves other clients at the same time."""
    command = [
        programs.stock_iperf3(),
        "-c",
        programs.HOST,
        "-p",
        str(server.port),
        "-J",
        *options.text.split(),
    ]
    code, client, errors = programs.run_json(command)
    cookie = client.get("start", {}).get("cookie")
    return Iperf3Outcome(code, client, server.wait_for_document(cookie) if cookie else {}, errors)


def run_our_client(options: OptionSet) -> Iperf3Outcome:
    """Run our client against its own stock server: a stock server serves one client at a time."""
    port = str(take_free_port())
    serve = [programs.stock_iperf3(), "-s", "-1", "-J", "-B", programs.HOST, "-p", port]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, env=programs.ENVIRONMENT) as process:
        try:
            programs.wait_for_listener(int(port), process)
            command = [
                *programs.agent_command("client"),
                programs.HOST,
                "-p",
                port,
                "-J",
                *options.text.split(),
            ]
            code, client, errors = programs.run_json(command)
            output, _ = process.communicate(timeout=programs.TIMEOUT_S)
        finally:
            process.kill()
    return Iperf3Outcome(code, client, json.loads(output), errors)


@pytest.fixture(scope="module")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[tuple[str, str], Future[Iperf3Outcome]]]:
    with (
        programs.run_server(tmp_path_factory.mktemp("iperf3")) as server,
        ThreadPoolExecutor(PARALLEL_TESTS) as pool,
    ):
        running = {
            ("server", options.text): pool.submit(run_stock_client, server, options)
            for options in OPTION_SETS
        }
        running |= {("client", options.text): pool.submit(run_our_client, options) for options in OPTION_SETS}
        yield running
        for future in running.values():
            future.cancel()


@pytest.mark.parametrize("options", OPTION_SETS, ids=lambda options: options.text)
def test_a_stock_client_completes_a_test_against_our_server(
    options: OptionSet, outcomes: dict[tuple[str, str], Future[Iperf3Outcome]]
) -> None:
    check_outcome(options, outcomes["server", options.text].result(), is_our_server=True)


@pytest.mark.parametrize("options", OPTION_SETS, ids=lambda options: options.text)
def test_our_client_completes_a_test_against_a_stock_server(
    options: OptionSet, outcomes: dict[tuple[str, str], Future[Iperf3Outcome]]
) -> None:
    check_outcome(options, outcomes["client", options.text].result(), is_our_server=False)


def test_a_stock_client_prints_its_own_message_for_an_unsupported_option(tmp_path: Path) -> None:
    with programs.run_server(tmp_path) as server:
        for options, words in (
            (["-R", "-Z"], "not implemented"),
            (["-R", "-w", "400M"], "socket buffer size not set correctly"),
            (["-R", "--fq-rate", "1M"], "unable to set socket pacing"),
        ):
            command = [
                programs.stock_iperf3(),
                "-c",
                programs.HOST,
                "-p",
                str(server.port),
                "-t",
                "1",
                *options,
            ]
            code, output, errors = programs.run(command)
            assert (code, words in output + errors) == (1, True), output + errors
        refused = [document["error"] for document in server.wait_for_documents(3)]
    assert ["sendfile" in refused[0], "buffers" in refused[1], "--fq-rate" in refused[2]] == [True] * 3
