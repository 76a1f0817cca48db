"""The bench's side of the protocol, against agents that answer, refuse, say nonsense, hang or die."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from vnetbench.agents import transport
from vnetbench.agents.binary import agent_binary
from vnetbench.agents.client import AgentClient, AgentError


def agent() -> AgentClient:
    return AgentClient("a1", transport.spawn([str(agent_binary()), "stdio"], "t-client"))


def imposter(program: str) -> AgentClient:
    return AgentClient("a1", transport.spawn([sys.executable, "-c", program], "t-client"))


def test_a_real_agent_says_what_it_is_and_ends_with_its_input() -> None:
    client = agent()
    hello = client.call("agent.hello")
    assert hello["protocol"] == 1
    assert "tcp_stream" in hello["workloads"]
    os.kill(int(hello["pid"]), 0)
    client.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(hello["pid"]), 0)


def test_a_refusal_carries_its_code_and_data() -> None:
    client = agent()
    try:
        with pytest.raises(AgentError) as unknown:
            client.call("agent.dance")
        assert unknown.value.code == -32601
        with pytest.raises(AgentError) as refused:
            client.call("knob.get", interface="nosuch0", knobs=["mtu"])
        assert refused.value.code == -32003
        assert refused.value.data["interface"] == "nosuch0"
        assert not refused.value.is_dead
        assert client.call("agent.hello")["protocol"] == 1
    finally:
        client.close()


def test_a_killed_agent_fails_what_waits_and_what_comes_after() -> None:
    client = agent()
    pid = int(client.call("agent.hello")["pid"])
    client.call("path.listen", address="127.0.0.1")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(AgentError, match="killed by SIGKILL") as dead:
        for _ in range(100):
            client.call("agent.hello")
    assert dead.value.is_dead
    assert client.events.get(timeout=60) == ("agent.gone", {"reason": "the agent ended (killed by SIGKILL)"})
    client.close()


def test_replies_find_their_requests_whatever_their_order() -> None:
    client = imposter(
        "import sys, json\n"
        "lines = [json.loads(sys.stdin.readline()) for _ in range(3)]\n"
        "for m in reversed(lines):\n"
        "    print(json.dumps({'id': m['id'], 'result': {'was': m['method']}}), flush=True)\n"
        "sys.stdin.read()"
    )
    futures = [(name, client.send(name)) for name in ("first", "second", "third")]
    assert [client.wait(future, name)["was"] for name, future in futures] == ["first", "second", "third"]
    client.close()


def test_nonsense_on_the_line_is_passed_over() -> None:
    client = imposter(
        "import sys, json\n"
        "m = json.loads(sys.stdin.readline())\n"
        "print('warning: something'); print('[1, 2]'); print('{\"id\": 99, \"result\": {}}')\n"
        "print(json.dumps({'id': m['id'], 'result': {'fine': True}}), flush=True)\n"
        "sys.stdin.read()"
    )
    assert client.call("agent.hello") == {"fine": True}
    client.close()


def test_an_agent_that_does_not_answer_is_given_up_in_words() -> None:
    client = imposter("import sys; sys.stdin.read()")
    with pytest.raises(AgentError, match=r"did not answer agent.hello in 0.2 s"):
        client.call("agent.hello", timeout_s=0.2)
    client.close()


def test_an_agent_that_ignores_the_end_of_its_input_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vnetbench.agents.transport.CLOSING_TIMEOUT_S", 0.2)
    client = imposter(
        "import json, os, time\n"
        "print(json.dumps({'method': 'pid', 'params': {'pid': os.getpid()}}), flush=True)\n"
        "time.sleep(600)"
    )
    pid = client.events.get(timeout=60)[1]["pid"]
    client.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
