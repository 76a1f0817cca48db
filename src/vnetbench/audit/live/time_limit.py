"""Ends an audit of a hypervisor that accepts a connection and then no longer answers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from vnetbench.errors import BenchError

ANSWER_TIME_LIMIT_S = 60.0
"""Time limit for each answer of a hypervisor, and for connecting to it."""
Item = TypeVar("Item")


class _Failure(NamedTuple):
    error: BaseException


_END = object()


def yield_within_time_limit(
    items: Iterator[Item], where: str, limit_s: float = ANSWER_TIME_LIMIT_S
) -> Iterator[Item]:
    """Yield the items that a thread reads, each within a time limit.

    The libraries of hypervisors wait without end in places. The thread of such a wait ends with the program.

    Args:
        items: What to read.
        where: The hypervisor, for the error message.
        limit_s: Time limit for each item.

    Raises:
        BenchError: an item takes longer.
    """
    received: queue.SimpleQueue[object] = queue.SimpleQueue()

    def read() -> None:
        try:
            for item in items:
                received.put(item)
            received.put(_END)
        except BaseException as error:
            received.put(_Failure(error))

    threading.Thread(target=read, name=f"audit of {where}", daemon=True).start()
    while True:
        try:
            item = received.get(timeout=limit_s)
        except queue.Empty:
            raise BenchError(
                f"the hypervisor does not answer within {limit_s:g} s",
                where=where,
                fix="check the address and the port, and whether the service there works",
            ) from None
        if item is _END:
            return
        if isinstance(item, _Failure):
            raise item.error
        yield item  # type: ignore[misc]
