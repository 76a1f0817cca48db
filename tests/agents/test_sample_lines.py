"""Samples are kept as lines, in bounded memory."""

from __future__ import annotations

import sys

import pytest

from vnetbench.agents import sample_lines, transport
from vnetbench.agents.client import AgentClient
from vnetbench.agents.sample_lines import SampleLines, is_sample

pytestmark = pytest.mark.pure

SAMPLE = b'{"jsonrpc":"2.0","method":"trial.sample","params":{"trial":"t"}}\n'


def client_after(*lines: str) -> AgentClient:
    """Return the client of an agent that sent these lines and then answered a request."""
    answer = "print(json.dumps({'id': json.loads(sys.stdin.readline())['id'], 'result': {}}), flush=True)"
    program = f"import sys, json\nprint({chr(10).join(lines)!r})\n{answer}\nsys.stdin.read()"
    client = AgentClient("a1", transport.spawn_process([sys.executable, "-c", program], "t-samples"))
    client.call("any.request", timeout_s=60)
    return client


def test_samples_of_an_agent_are_kept_apart_from_its_events_in_order() -> None:
    unusual = '{"params": {"trial": "t"}, "method": "trial.sample"}'
    client = client_after(SAMPLE.decode().strip(), '{"method":"trial.end","params":{}}', unusual)
    assert client.sample_lines.take() == [SAMPLE, unusual.encode() + b"\n"]
    assert client.events.get_nowait() == ("trial.end", {}) and client.events.empty()
    client.close()


def test_samples_of_an_earlier_trial_are_discarded() -> None:
    client = client_after(SAMPLE.decode().strip())
    client.discard_events()
    assert client.sample_lines.take() == []
    client.close()


def test_an_answer_is_no_sample() -> None:
    assert is_sample(SAMPLE)
    assert not is_sample(b'{"jsonrpc":"2.0","id":1,"result":{"method":"trial.sample"}}')


@pytest.mark.parametrize("line", [b"", b"x" * 10_000])
def test_samples_without_end_are_dropped(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_lines, "MAX_BYTES", 1 << 16)
    kept = SampleLines()
    for _ in range(2000):
        kept.append(line)
    assert not kept._lines
    with pytest.raises(ValueError, match="MiB of samples"):
        kept.take()
    kept.append(SAMPLE)
    assert kept.take() == [SAMPLE]
