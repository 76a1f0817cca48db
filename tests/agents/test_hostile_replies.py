"""Replies of a hostile or broken agent: they raise an error that names the endpoint, and no other."""

from __future__ import annotations

import copy
import json
import queue
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from vnetbench.agents import transport
from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.agents.launch import check_protocol_version
from vnetbench.agents.messages import InvalidMessage, check_reply, check_trial_end
from vnetbench.agents.transport import PipeTransport
from vnetbench.campaign.count_checks import find_count_error
from vnetbench.campaign.frame_counts import sum_endpoint_counts
from vnetbench.campaign.frame_ports import merge_frame_backends
from vnetbench.campaign.load_checks import (
    check_and_return_socket_settings,
    check_and_return_thread_cpus,
    sum_zero_copy_counts,
)
from vnetbench.campaign.source_port_checks import EndpointSockets, check_and_return_source_ports
from vnetbench.campaign.trial_notes import delay_line_notes, instrument_notes
from vnetbench.commands.doctor import _check_kernel_and_hardware
from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.knobs import (
    CPU_LIST_KNOBS,
    INTERFACE_KNOBS,
    KnobSetting,
    read_knobs,
    set_knob,
    smallest_mtu,
)
from vnetbench.lab.path_probe import has_passed_both_ways, probe_paths, stored_path_proof_values
from vnetbench.lab.testbed import query_mac_address
from vnetbench.results.records import EndpointRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.workloads import TCP_STREAM

pytestmark = pytest.mark.pure

ENDPOINT = Endpoint("a1", "a", 1, "eth0", "10.0.0.1", "")
SETTING = KnobSetting(ENDPOINT, "mtu", 9000, "mtu = 9000")
LEVELS = complete_levels({"socket_buffer": 65536}, "tcp_stream")
STREAM = {"id": 0, "role": "sink", "datagrams": 5, "duplicates": 0, "lost": 0, "socket_drops": 1,
          "zero_copy": {"in_place": 1, "copied": 0, "uncompleted": 0}}  # fmt: skip
DIRECTION = {
    "requested": {"delay_us": 0, "jitter_us": 0, "loss": 0, "reorder": 0}, "tid": 7, "cpus": "0-1",
    "has_priority": True,
    "counts": {"cpu_s": 0.1, "elapsed_s": 1.0, "queue_drops": 0, "port_drops": 0, "lateness_p50_us": None},
}  # fmt: skip
REPLIES: dict[str, dict[str, Any]] = {
    "agent.hello": {"protocol": 3, "pid": 12},
    "agent.facts": {
        "kernel": {"release": "6.1"}, "cpu": {"model": None, "count": 2}, "memory_bytes": 1 << 30,
        "tcp": {"available_congestion_control": ["cubic"]}, "socket_buffers": {"rmem_max": 1 << 20},
        "perf": {"system_cycles": "hardware", "reason": ""},
        "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:01"}],
    },
    "knob.get": {"values": dict.fromkeys(INTERFACE_KNOBS) | {"mtu": 1500, "cpus": "0-1", "irq_cpus": "0;1"}},
    "knob.set": {"effective": 9000},
    "path.listen": {"path": "p1", "port": 40001},
    "path.probe": {"forward": True, "reverse": False, "reason": "no answer", "rtt_us": 41.0},
    "delay_line.read": {"line": "l1", "forward": DIRECTION, "reverse": DIRECTION},
    "trial.prepare": {
        "streams": [{"id": 0, "congestion_control": "cubic", "send_buffer_bytes": 1 << 20,
                     "receive_buffer_bytes": 1 << 20, "local_port": 50000, "remote_port": 5201}],
        "thread_cpus": ["0-1"], "frames": {"generator": "xdp", "sink": None, "reason": ""},
    },
}  # fmt: skip
TRIAL_END: dict[str, Any] = {
    "reason": "done", "fault": "", "fault_kind": None, "bytes_sent": 1, "bytes_received": 1, "drained": True,
    "unanswered": 0, "foreign_connections": 0, "sink_dropped": 0, "streams": [STREAM],
    "foreign_frames": {"other_senders": 1, "own_returned": 0, "other_trial": 0, "example": None},
    "instrument": {"sampler_cpu_s": 0.1, "sampler_lateness_max_s": 0.2, "events_lost": 0,
                   "pacing": {"due": 5, "sent": 5, "lateness_p99_us": None}},
    "threads": [{"name": "vcpu0", "is_gone": True}], "interfaces": [{"name": "sw0"}],
}  # fmt: skip
WRONG_VALUES: tuple[Any, ...] = (
    None,
    "x",
    -1,
    1.5,
    [],
    {},
    [[]],
    {"x": []},
    True,
    1e300,
    float("nan"),
    "\ud800",
)


class ScriptedTransport:
    """An agent that gives the same replies to all requests."""

    def __init__(self, replies: Mapping[str, Any]) -> None:
        self._replies = replies
        self._lines: queue.Queue[bytes] = queue.Queue()

    def write_line(self, line: bytes) -> None:
        request = json.loads(line)
        self._lines.put(
            json.dumps({"id": request["id"], "result": self._replies[request["method"]]}).encode()
        )

    def lines(self) -> Iterator[bytes]:
        while line := self._lines.get():
            yield line

    def end_reason(self) -> str:
        return "closed"

    def close(self) -> None:
        self._lines.put(b"")


def use_replies(client: AgentClient) -> None:
    """Do with each reply what the bench does."""
    agents = {"a1": client}
    check_protocol_version(client)
    for _ in _check_kernel_and_hardware(client.call("agent.facts")):
        pass
    query_mac_address(client, "eth0")
    values = read_knobs([ENDPOINT], agents)
    smallest_mtu(values["a1"])
    for knob in CPU_LIST_KNOBS:
        KnobSetting(ENDPOINT, knob, "0-1", "").matches(values["a1"].get(knob))
    SETTING.matches(set_knob(client, SETTING, "a fix"))
    probes = probe_paths([(ENDPOINT, ENDPOINT)], agents, 1500, "4")
    stored_path_proof_values(1500, probes)
    assert {has_passed_both_ways(each) for each in probes} <= {True, False}
    delay_line_notes([client.call("delay_line.read", line="l1")])
    ready = client.call("trial.prepare", listen=None)
    check_and_return_socket_settings(LEVELS, ready["streams"])
    sockets = EndpointSockets("a1", "a", ready["streams"], ready["streams"])
    check_and_return_source_ports(TCP_STREAM, LEVELS, [sockets])
    check_and_return_thread_cpus({"a1": ["0-1"]}, {"a1": ready["thread_cpus"]})
    merge_frame_backends({"a1": ready})


def mutations(message: Any) -> Iterator[Any]:
    """Yield copies of a message, each with one value replaced or removed."""
    for path in list(_paths(message)):
        for value in (*WRONG_VALUES, "removed"):
            mutated = copy.deepcopy(message)
            place = mutated
            for key in path[:-1]:
                place = place[key]
            if value == "removed":
                del place[path[-1]]
            else:
                place[path[-1]] = value
            yield mutated


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


def test_the_replies_of_a_good_agent_are_used() -> None:
    client = AgentClient("a1", ScriptedTransport({**REPLIES, "path.close": {}}))
    use_replies(client)
    client.close()


@pytest.mark.parametrize("method", REPLIES)
def test_a_reply_with_any_wrong_value_raises_an_error_for_people(method: str) -> None:
    refused = 0
    for reply in mutations(REPLIES[method]):
        client = AgentClient("a1", ScriptedTransport({**REPLIES, "path.close": {}, method: reply}))
        try:
            use_replies(client)
        except (AgentError, BenchError) as error:
            # Another BenchError has a value of the right form that the treatment does not permit.
            cause = error.__cause__ if isinstance(error.__cause__, AgentError) else error
            if isinstance(cause, AgentError):
                what = f"a1: the agent's reply to {method} does not follow the protocol"
                assert str(cause).startswith(what)
                refused += 1
        finally:
            client.close()
    assert refused >= 7


def test_the_end_of_a_trial_with_any_wrong_value_is_refused_or_used() -> None:
    def use(params: Mapping[str, Any]) -> None:
        record = EndpointRecord("a1", "sink", params, ())
        frames = complete_levels({}, "frames")
        instrument_notes(1.0, 0.1, {"host": {}, "a1": params})
        find_count_error("udp_stream", 1.0, [record])
        sum_zero_copy_counts([params])
        sum_endpoint_counts([record, record], frames)

    use(TRIAL_END)
    check_trial_end(TRIAL_END)
    refused = 0
    for params in mutations(TRIAL_END):
        try:
            check_trial_end(params)
        except InvalidMessage:
            refused += 1
        else:
            use(params)
    assert refused >= 100


def test_a_knob_that_was_requested_must_be_in_the_reply() -> None:
    check_reply("knob.get", {"knobs": ["mtu"]}, {"values": {"mtu": 1500, "tso": None}})
    with pytest.raises(InvalidMessage, match=r"values\.tso is missing"):
        check_reply("knob.get", {"knobs": ["mtu", "tso"]}, {"values": {"mtu": 1500}})


@pytest.mark.parametrize("cpus", ["0-4096", "1-0", "0-99999999999", "x", "-1"])
def test_a_cpu_list_that_the_bench_cannot_read_is_refused(cpus: str) -> None:
    with pytest.raises(InvalidMessage, match=r"values\.cpus"):
        check_reply("knob.get", {}, {"values": {"cpus": cpus}})


def test_a_listener_needs_a_port() -> None:
    check_reply("trial.prepare", {"listen": {}}, {"port": 40002})
    with pytest.raises(InvalidMessage, match="port"):
        check_reply("trial.prepare", {"listen": {}}, {"streams": []})


def start_process(program: str) -> AgentClient:
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=nowhere)
    return AgentClient("a1", PipeTransport(process, closing_timeout_s=1))


def test_a_message_of_very_many_values_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    monkeypatch.setattr(
        "vnetbench.agents.client.parse_message_or_none", lambda line: parsed.append(len(line))
    )
    client = start_process("import sys; print('[' + '[],' * 2_000_000 + '[]]', flush=True); sys.stdin.read()")
    try:
        with pytest.raises(AgentError, match=r"a1: the agent ended \(it sent a message with more values"):
            client.call("agent.hello", timeout_s=60)
    finally:
        client.close()
    assert parsed == []


def test_an_agent_that_does_not_read_its_requests_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "WRITE_TIMEOUT_S", 0.3)
    client = start_process("import time; time.sleep(600)")
    try:
        with pytest.raises(AgentError, match=r"a1: the agent ended \(it did not read a request"):
            client.call("test.call", timeout_s=60, text="x" * (1 << 20))
    finally:
        client.close()
