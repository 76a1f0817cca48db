"""Client of the agent's protocol (docs/protocol.md): requests, replies and events of one agent."""

from __future__ import annotations

import itertools
import json
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, NamedTuple

from vnetbench.agents.messages import InvalidMessage, check_reply
from vnetbench.agents.sample_lines import SAMPLE_METHOD, SampleLines, is_sample
from vnetbench.agents.transport import Transport, has_too_many_values, parse_message_or_none
from vnetbench.printable import make_printable

PROTOCOL_VERSION = 3
DEFAULT_REPLY_TIMEOUT_S = 30.0
"""An agent in an emulated guest on a busy machine has needed more than 15 s."""
INVALID_REPLY_CODE = -1
"""Code of an AgentError for a reply that does not follow the protocol."""

Event = tuple[str, dict[str, Any]]


class _PendingRequest(NamedTuple):
    """A request without a reply."""

    method: str
    params: Mapping[str, Any]
    future: Future[dict[str, Any]]


class AgentError(Exception):
    """An error reply of the agent, or the end of the agent (`code` is then 0)."""

    def __init__(
        self, endpoint: str, message: str, code: int = 0, data: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{endpoint}: {message}")
        self.endpoint = endpoint
        self.message = message
        self.code = code
        self.data = data or {}

    @property
    def has_agent_ended(self) -> bool:
        """Whether the agent itself has ended, so that no request can succeed."""
        return self.code == 0


class AgentClient:
    """A connection to one agent.

    Its events arrive in `events`, in order, except for samples. `sample_lines` has those.
    """

    def __init__(self, endpoint: str, transport: Transport) -> None:
        self.endpoint = endpoint
        self.events: queue.Queue[Event] = queue.Queue()
        self.sample_lines = SampleLines()
        self._transport = transport
        self._ids = itertools.count(1)
        self._pending: dict[int, _PendingRequest] = {}
        self._lock = threading.Lock()
        self._end_error: AgentError | None = None
        self._end_reason = ""
        self._reader = threading.Thread(target=self._read_messages, name=f"agent {endpoint}", daemon=True)
        self._reader.start()

    def send(self, method: str, **params: Any) -> Future[dict[str, Any]]:
        """Send a request without waiting.

        Returns:
            A future whose result is the reply and whose exception is an AgentError.
        """
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            if self._end_error:
                future.set_exception(self._end_error)
                return future
            number = next(self._ids)
            self._pending[number] = _PendingRequest(method, params, future)
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            self._transport.write_line(line.encode())
        except OSError:
            self._fail_pending_requests()
        return future

    def call(self, method: str, timeout_s: float = DEFAULT_REPLY_TIMEOUT_S, **params: Any) -> dict[str, Any]:
        """Send a request and return its reply.

        Raises:
            AgentError: on an error reply or one that does not follow the protocol, if the agent has ended, or
                after `timeout_s` without a reply.
        """
        return self.wait(self.send(method, **params), method, timeout_s)

    def wait(
        self, future: Future[dict[str, Any]], method: str, timeout_s: float = DEFAULT_REPLY_TIMEOUT_S
    ) -> dict[str, Any]:
        """Return the reply to an earlier `send`; raises as `call` does."""
        try:
            return future.result(timeout_s)
        except FutureTimeout:
            raise AgentError(self.endpoint, f"the agent did not answer {method} in {timeout_s:g} s") from None

    def discard_events(self) -> None:
        """Discard the events and samples of an earlier trial."""
        self.sample_lines.clear()
        while True:
            try:
                self.events.get_nowait()
            except queue.Empty:
                return

    def close(self) -> None:
        """Close the connection, which ends the agent."""
        self._transport.close()
        self._reader.join(timeout=5)

    def _read_messages(self) -> None:
        try:
            for line in self._transport.lines():
                if has_too_many_values(line):
                    self._end_reason = "it sent a message with more values than any message of an agent has"
                    return
                if is_sample(line):
                    self.sample_lines.append(line)
                    continue
                message = parse_message_or_none(line)
                if not isinstance(message, dict):  # Another program may have written to the agent's output.
                    continue
                if message.get("method") == SAMPLE_METHOD:
                    self.sample_lines.append(line)
                else:
                    self._dispatch_message(message)
        finally:
            self._fail_pending_requests()

    def _dispatch_message(self, message: dict[str, Any]) -> None:
        """Route one message to its future or to `events`; ignore what does not follow the protocol."""
        if "method" in message:
            if isinstance(method := message["method"], str):
                self.events.put((method, _object_or_empty(message.get("params"))))
            return
        number = message.get("id")
        with self._lock:
            request = self._pending.pop(number, None) if isinstance(number, int) else None
        if request is None:
            return
        if "error" not in message:
            self._check_result_and_resolve_request(request, _object_or_empty(message.get("result")))
            return
        error = _object_or_empty(message["error"])
        code = error.get("code")
        text = error.get("message") or "the agent refused the request and gave no reason"
        request.future.set_exception(
            AgentError(
                self.endpoint,
                make_printable(text, keep="\n") if isinstance(text, str) else "its reason is no text",
                code if isinstance(code, int) and code else -1,
                _object_or_empty(error.get("data")),
            )
        )

    def _check_result_and_resolve_request(self, request: _PendingRequest, reply: dict[str, Any]) -> None:
        """Hand over a reply, or the error that it does not follow the protocol."""
        try:
            check_reply(request.method, request.params, reply)
        except InvalidMessage as error:
            text = make_printable(
                f"the agent's reply to {request.method} does not follow the protocol ({error})"
            )
            request.future.set_exception(AgentError(self.endpoint, text, INVALID_REPLY_CODE))
        else:
            request.future.set_result(reply)

    def _fail_pending_requests(self) -> None:
        reason = self._end_reason or self._transport.end_reason()
        gone = AgentError(self.endpoint, f"the agent ended ({reason})")
        with self._lock:
            if self._end_error:
                return
            self._end_error = gone
            waiting = list(self._pending.values())
            self._pending.clear()
        for request in waiting:
            request.future.set_exception(gone)
        self.events.put(("agent.gone", {"reason": gone.message}))


def _object_or_empty(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
