"""Tests of the agent client against agents that answer, refuse, send garbage, hang or end."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from vnetbench.agents import transport
from vnetbench.agents.binary import agent_binary_path
from vnetbench.agents.client import PROTOCOL_VERSION, AgentClient, AgentError


def start_agent() -> AgentClient:
    return AgentClient("a1", transport.spawn_process([str(agent_binary_path()), "stdio"], "t-client"))


def start_fake_agent(program: str) -> AgentClient:
    return AgentClient("a1", transport.spawn_process([sys.executable, "-c", program], "t-client"))


def test_an_agent_reports_its_protocol_and_ends_with_its_input() -> None:
    client = start_agent()
    hello = client.call("agent.hello")
    assert hello["protocol"] == PROTOCOL_VERSION
    assert "tcp_stream" in hello["workloads"]
    os.kill(int(hello["pid"]), 0)
    client.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(hello["pid"]), 0)


def test_an_error_reply_carries_its_code_and_data() -> None:
    client = start_agent()
    try:
        with pytest.raises(AgentError) as unknown:
            client.call("agent.dance")
        assert unknown.value.code == -32601
        with pytest.raises(AgentError) as refused:
            client.call("knob.get", interface="nosuch0", knobs=["mtu"])
        assert refused.value.code == -32003
        assert refused.value.data["interface"] == "nosuch0"
        assert not refused.value.has_agent_ended
        assert client.call("agent.hello")["protocol"] == PROTOCOL_VERSION
    finally:
        client.close()


def test_a_killed_agent_fails_pending_and_later_requests() -> None:
    client = start_agent()
    pid = int(client.call("agent.hello")["pid"])
    client.call("path.listen", address="127.0.0.1")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(AgentError, match="killed by SIGKILL") as dead:
        for _ in range(100):
            client.call("agent.hello")
    assert dead.value.has_agent_ended
    assert client.events.get(timeout=60) == ("agent.gone", {"reason": "the agent ended (killed by SIGKILL)"})
    client.close()


def test_replies_match_their_requests_in_any_order() -> None:
    client = start_fake_agent(
        "import sys, json\n"
        "lines = [json.loads(sys.stdin.readline()) for _ in range(3)]\n"
        "for m in reversed(lines):\n"
        "    print(json.dumps({'id': m['id'], 'result': {'was': m['method']}}), flush=True)\n"
        "sys.stdin.read()"
    )
    futures = [(name, client.send(name)) for name in ("first", "second", "third")]
    assert [client.wait(future, name)["was"] for name, future in futures] == ["first", "second", "third"]
    client.close()


def test_lines_that_are_not_messages_are_ignored() -> None:
    client = start_fake_agent(
        "import sys, json\n"
        "m = json.loads(sys.stdin.readline())\n"
        "print('warning: something'); print('[1, 2]'); print('{\"id\": 99, \"result\": {}}')\n"
        "print(json.dumps({'id': m['id'], 'result': {'fine': True}}), flush=True)\n"
        "sys.stdin.read()"
    )
    assert client.call("test.call") == {"fine": True}
    client.close()


def test_json_that_is_nested_too_deeply_is_ignored() -> None:
    client = start_fake_agent(
        "import sys, json\n"
        "m = json.loads(sys.stdin.readline())\n"
        "print('[' * 200_000); print('{\"method\":' + '[' * 900 + ']' * 900 + '}')\n"
        "print(json.dumps({'id': m['id'], 'result': {'fine': True}}), flush=True)\n"
        "sys.stdin.read()"
    )
    assert client.call("test.call", timeout_s=60) == {"fine": True}
    assert client.events.empty()
    client.close()


@pytest.mark.parametrize(
    ("sent", "printed"),
    [("'\\x1b[2J'", "\N{REPLACEMENT CHARACTER}[2J"), ("[['x']]", "its reason is no text")],
)
def test_the_text_of_an_error_can_be_printed(sent: str, printed: str) -> None:
    client = start_fake_agent(
        "import sys, json\n"
        "m = json.loads(sys.stdin.readline())\n"
        f"print(json.dumps({{'id': m['id'], 'error': {{'code': -1, 'message': {sent}}}}}), flush=True)\n"
        "sys.stdin.read()"
    )
    with pytest.raises(AgentError) as refused:
        client.call("agent.hello", timeout_s=60)
    assert refused.value.message == printed
    client.close()


def test_a_request_without_a_reply_times_out_with_a_message() -> None:
    client = start_fake_agent("import sys; sys.stdin.read()")
    with pytest.raises(AgentError, match=r"did not answer agent.hello in 0.2 s"):
        client.call("agent.hello", timeout_s=0.2)
    client.close()


def test_an_agent_that_ignores_the_end_of_its_input_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vnetbench.agents.transport.CLOSE_TIMEOUT_S", 0.2)
    client = start_fake_agent(
        "import json, os, time\n"
        "print(json.dumps({'method': 'pid', 'params': {'pid': os.getpid()}}), flush=True)\n"
        "time.sleep(600)"
    )
    pid = client.events.get(timeout=60)[1]["pid"]
    client.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
