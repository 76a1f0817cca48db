"""Logs of an xfr client behind its command line, which names what the output does not."""

from __future__ import annotations

from io import BytesIO

import pytest

from tests.docs.pages import ROOT
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.runs import Run

pytestmark = pytest.mark.pure

LOGS = ROOT / "tests" / "data" / "logs" / "xfr"


def read_run(log_name: str, command: str) -> Run:
    """Return the only run of a recorded log with this command line in front of it."""
    log = f"$ {command}\n".encode() + (LOGS / log_name).read_bytes()
    (run,) = parse_log(decode_lines(BytesIO(log)))
    assert isinstance(run, Run) and not run.failure
    return run


@pytest.mark.parametrize(
    "log_name",
    ["udp-reverse-client.log", "csv-udp-reverse-client.log", "json-stream-udp-reverse-client.log"],
)
def test_the_command_line_names_the_direction_of_the_run_and_of_its_intervals(log_name: str) -> None:
    command = "xfr 127.0.0.1 -t 2s -u -R"
    run = read_run(log_name, command)
    assert (run.factors["direction"], run.command) == ("reverse", command)
    assert {each.direction for each in run.intervals} == {"reverse"}


@pytest.mark.parametrize("log_name", ["csv-client.log", "json-stream-parallel-client.log"])
def test_a_command_line_without_options_stands_for_an_upload(log_name: str) -> None:
    run = read_run(log_name, "xfr 127.0.0.1")
    assert run.factors["direction"] == "forward"
    assert {each.direction for each in run.intervals} == {"forward"}
