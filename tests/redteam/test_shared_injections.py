"""Parts of injections that several sets of causes share, without a testbed."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from bench.redteam.causes_third.cpu import finish_after
from bench.redteam.injections import after, alternate, fill_in, in_turn, limit_files, string_rules
from bench.redteam.model import Inject, tcp
from bench.redteam.target import InjectionError, Target

TIMEOUT_S = 30.0
OPEN_FILES_UNTIL_REFUSED = """
import os
print("ready", flush=True)
input()
count = 0
try:
    while True:
        os.open("/dev/null", os.O_RDONLY)
        count += 1
except OSError:
    print(count)
"""


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


def spawn_sleep(target: Target, value: object, stack: ExitStack) -> None:
    target.spawn(stack, "host", "sleep 60")


def test_a_fault_that_ends_before_the_run_leaves_the_checks_of_earlier_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Target, "sent_bytes", lambda target, endpoint: 0)
    target = make_target()
    with ExitStack() as stack:
        spawn_sleep(target, 1, stack)
        finish_after(30.0, spawn_sleep)(target, 1, stack)
        ((_, earlier),) = target.processes
        earlier.kill()
        earlier.wait()
        with pytest.raises(InjectionError, match="sleep 60"):
            target.check_processes()


def test_a_program_that_fails_at_its_start_fails_a_fault_that_ends_before_the_run() -> None:
    def part(target: Target, value: object, stack: ExitStack) -> None:
        target.spawn(stack, "host", "false").wait()

    with ExitStack() as stack, pytest.raises(InjectionError, match="ended with 1: false"):
        finish_after(30.0, part)(make_target(), 1, stack)


def test_two_actions_alternate_until_the_injection_ends() -> None:
    done: list[str] = []
    is_complete = threading.Event()

    def act(name: str) -> None:
        done.append(name)
        if len(done) == 4:
            is_complete.set()

    with ExitStack() as stack:
        alternate(make_target(), stack, lambda: act("on"), 0.0, lambda: act("off"), 0.0)
        assert done[0] == "on"
        assert is_complete.wait(TIMEOUT_S)
    assert done[:4] == ["on", "off", "on", "off"]


def test_a_command_of_an_injection_can_leave_no_entry_in_the_log() -> None:
    target = make_target()
    target.run("host", "true", is_logged=False)
    with pytest.raises(InjectionError, match="host: false: 1"):
        target.run("host", "false", is_logged=False)
    assert target.log == []
    target.run("host", "true")
    assert target.log == ["host: true"]


def test_a_search_for_more_patterns_than_declared_is_an_error() -> None:
    with ExitStack() as stack, pytest.raises(IndexError):
        string_rules("b1", "-A INPUT", ("one", "two"))(make_target(), 3, stack)


def test_an_agent_may_open_only_the_spare_files() -> None:
    target = make_target()
    with subprocess.Popen(
        [sys.executable, "-c", OPEN_FILES_UNTIL_REFUSED],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        target.agents["a1"] = process.pid
        limit_files(target, "a1", 3)
        output, _ = process.communicate("continue\n", TIMEOUT_S)
    assert output == "3\n"
