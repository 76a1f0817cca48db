"""Every option both ways against Debian's iperf3: the cells run side by side, each is a test of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.iperf3 import programs
from tests.iperf3.cells import TCP, UDP, Cell, Outcome, check

CELLS = [Cell(line) for line in (*TCP, *UDP)]
SIDE_BY_SIDE = 6


def stock_client_at(server: programs.Server, cell: Cell) -> Outcome:
    """Debian's client against our one server, which serves others at the same time."""
    command = [programs.stock(), "-c", programs.HOST, "-p", str(server.port), "-J", *cell.line.split()]
    code, client, errors = programs.run_json(command)
    cookie = client.get("start", {}).get("cookie")
    return Outcome(code, client, server.document_of(cookie) if cookie else {}, errors)


def our_client_at_a_stock_server(cell: Cell) -> Outcome:
    """Our client against a server of Debian's of its own: it serves one at a time."""
    port = str(programs.free_port())
    serve = [programs.stock(), "-s", "-1", "-J", "-B", programs.HOST, "-p", port]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        try:
            programs.wait_for_listener(int(port), process)
            command = [*programs.ours("client"), programs.HOST, "-p", port, "-J", *cell.line.split()]
            code, client, errors = programs.run_json(command)
            output, _ = process.communicate(timeout=programs.PATIENCE_S)
        finally:
            process.kill()
    return Outcome(code, client, json.loads(output), errors)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Future[Outcome]]]:
    with (
        programs.server(tmp_path_factory.mktemp("iperf3")) as server,
        ThreadPoolExecutor(SIDE_BY_SIDE) as pool,
    ):
        running = {("server", cell.line): pool.submit(stock_client_at, server, cell) for cell in CELLS}
        running |= {("client", cell.line): pool.submit(our_client_at_a_stock_server, cell) for cell in CELLS}
        yield running
        for future in running.values():
            future.cancel()


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.line)
def test_a_stock_client_runs_against_ours_as_against_its_own(
    cell: Cell, outcomes: dict[tuple[str, str], Future[Outcome]]
) -> None:
    check(cell, outcomes["server", cell.line].result(), ours_serves=True)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.line)
def test_our_client_runs_against_a_stock_server(
    cell: Cell, outcomes: dict[tuple[str, str], Future[Outcome]]
) -> None:
    check(cell, outcomes["client", cell.line].result(), ours_serves=False)


def test_what_a_stock_client_cannot_have_is_refused_in_its_own_words(tmp_path: Path) -> None:
    with programs.server(tmp_path) as server:
        for options, words in (
            (["-R", "-Z"], "not implemented"),
            (["-R", "-w", "400M"], "socket buffer size not set correctly"),
            (["-R", "--fq-rate", "1M"], "unable to set socket pacing"),
        ):
            command = [programs.stock(), "-c", programs.HOST, "-p", str(server.port), "-t", "1", *options]
            code, output, errors = programs.run(command)
            assert (code, words in output + errors) == (1, True), output + errors
        refused = [document["error"] for document in server.documents_of(3)]
    assert ["sendfile" in refused[0], "buffers" in refused[1], "--fq-rate" in refused[2]] == [True] * 3
