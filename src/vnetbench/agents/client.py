"""The bench's side of the agent's protocol (docs/protocol.md): requests, replies and events of one agent."""

from __future__ import annotations

import itertools
import json
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from vnetbench.agents.transport import Transport

PROTOCOL = 1
DEFAULT_TIMEOUT_S = 15.0

Event = tuple[str, dict[str, Any]]


class AgentError(Exception):
    """The agent answered with an error, or can no longer answer (`code` is then 0)."""

    def __init__(
        self, endpoint: str, message: str, code: int = 0, data: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{endpoint}: {message}")
        self.endpoint = endpoint
        self.message = message
        self.code = code
        self.data = data or {}

    @property
    def is_dead(self) -> bool:
        """Whether the agent itself is gone, not only the request refused."""
        return self.code == 0


class AgentClient:
    """One agent, at the other end of a transport. Its events arrive in `events`, in order."""

    def __init__(self, endpoint: str, transport: Transport) -> None:
        self.endpoint = endpoint
        self.events: queue.Queue[Event] = queue.Queue()
        self._transport = transport
        self._ids = itertools.count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._gone: AgentError | None = None
        self._reader = threading.Thread(target=self._read, name=f"agent {endpoint}", daemon=True)
        self._reader.start()

    def send(self, method: str, **params: Any) -> Future[dict[str, Any]]:
        """Ask without waiting; the future's result is the reply, its exception an AgentError."""
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            if self._gone:
                future.set_exception(self._gone)
                return future
            number = next(self._ids)
            self._waiting[number] = future
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            self._transport.write_line(line.encode())
        except OSError:
            self._end()
        return future

    def call(self, method: str, timeout_s: float = DEFAULT_TIMEOUT_S, **params: Any) -> dict[str, Any]:
        """Ask and wait; raises AgentError on an error, a dead agent or no answer within `timeout_s`."""
        return self.wait(self.send(method, **params), method, timeout_s)

    def wait(
        self, future: Future[dict[str, Any]], method: str, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, Any]:
        """The reply to an earlier `send`; raises as `call` does."""
        try:
            return future.result(timeout_s)
        except FutureTimeout:
            raise AgentError(self.endpoint, f"the agent did not answer {method} in {timeout_s:g} s") from None

    def forget_events(self) -> None:
        """Drop events that a former trial left behind."""
        while True:
            try:
                self.events.get_nowait()
            except queue.Empty:
                return

    def close(self) -> None:
        """End the agent: it ends by itself when its input closes."""
        self._transport.close()
        self._reader.join(timeout=5)

    def _read(self) -> None:
        try:
            for line in self._transport.lines():
                try:
                    message = json.loads(line)
                except ValueError:
                    continue  # not the agent's: something else wrote to its output
                if isinstance(message, dict):
                    self._take(message)
        finally:
            self._end()

    def _take(self, message: dict[str, Any]) -> None:
        """One message of the agent; what has another shape than the protocol's is passed over."""
        if "method" in message:
            self.events.put((str(message["method"]), _object(message.get("params"))))
            return
        number = message.get("id")
        with self._lock:
            future = self._waiting.pop(number, None) if isinstance(number, int) else None
        if future is None:
            return
        if "error" not in message:
            future.set_result(_object(message.get("result")))
            return
        error = _object(message["error"])
        code = error.get("code")
        future.set_exception(
            AgentError(
                self.endpoint,
                str(error.get("message") or "the agent refused and did not say why"),
                code if isinstance(code, int) and code else -1,
                _object(error.get("data")),
            )
        )

    def _end(self) -> None:
        gone = AgentError(self.endpoint, f"the agent ended ({self._transport.how_it_ended()})")
        with self._lock:
            if self._gone:
                return
            self._gone = gone
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for future in waiting:
            future.set_exception(gone)
        self.events.put(("agent.gone", {"reason": gone.message}))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
