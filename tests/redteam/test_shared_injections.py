"""Parts of injections that several sets of causes share, without a testbed."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from bench.redteam.injections import after, fill_in, in_turn
from bench.redteam.model import Inject, tcp
from bench.redteam.target import Target

TIMEOUT_S = 30.0


def make_target() -> Target:
    return Target({}, {}, 0, (0, 1), tcp(1), "bridge")


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("spin @v", "0.3", "spin 0.3"),
        ("spin @v on @cpu", 2, "spin 2 on 1"),
        ("rate @1 for @2, all of @v", "10 20", "rate 10 for 20, all of 10 20"),
    ],
)
def test_placeholders_of_a_command_are_filled_in(text: str, value: str | int, expected: str) -> None:
    assert fill_in(text, make_target(), value) == expected


def test_parts_of_an_injection_are_made_in_turn_with_the_same_value() -> None:
    made: list[tuple[str, object]] = []

    def part(name: str) -> Inject:
        return lambda target, value, stack: made.append((name, value))

    with ExitStack() as stack:
        in_turn(part("a"), part("b"))(make_target(), 3, stack)
    assert made == [("a", 3), ("b", 3)]


def test_a_fault_halfway_does_not_start_after_the_end() -> None:
    seen: list[object] = []
    with ExitStack() as stack:
        after(30.0, lambda t, v, s: seen.append(v))(make_target(), 1, stack)
    assert seen == []


def test_a_fault_halfway_waits_for_the_load_and_ends_with_the_injection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = {"bytes": 0}
    started, ended = threading.Event(), threading.Event()
    monkeypatch.setattr(Target, "sent_bytes", lambda target, endpoint: sent["bytes"])

    def part(target: Target, value: object, stack: ExitStack) -> None:
        stack.callback(ended.set)
        started.set()

    with ExitStack() as stack:
        after(0.0, part, first_bytes=True)(make_target(), 1, stack)
        assert not started.wait(0.1)
        sent["bytes"] = 10**12
        assert started.wait(TIMEOUT_S)
        assert not ended.is_set()
    assert ended.is_set()
