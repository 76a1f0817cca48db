"""Read `teamdctl TEAM state` and `teamdctl TEAM state dump` of the team driver's daemon."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vnetbench.teaming.state.team_state import TeamState, make_state_error, parse_json, refuse_team_name
from vnetbench.teaming.team import Team, Uplink

DUMP_FORMAT = "teamdctl state"
_TEXT_PATTERN = re.compile(r"\A\s*setup:\s*\n\s+runner: ", re.MULTILINE)
_SETUP_PATTERN = re.compile(r"^setup:", re.MULTILINE)
_POLICY_BY_RUNNER = {
    "activebackup": "active-backup",
    "roundrobin": "balance-rr",
    "broadcast": "broadcast",
    "loadbalance": "team-hash",
    "lacp": "team-hash",
}
_HASH_NOTE = "The state of teamd does not contain tx_hash, which decides with loadbalance and lacp."


def is_teamd_state(text: str) -> bool:
    """Return whether the text is the state of teamd, as text or JSON."""
    return _TEXT_PATTERN.match(text) is not None or (text.lstrip()[:1] == "{" and '"runner_name"' in text)


def read_teamd_state(text: str, team_name: str | None = None) -> TeamState:
    """Return the state of the team.

    Raises:
        BenchError: The dump is damaged, has several teams, an unknown runner or no ports.
    """
    refuse_team_name(DUMP_FORMAT, team_name)
    teams = len(_SETUP_PATTERN.findall(text))
    if teams > 1:
        raise make_state_error(DUMP_FORMAT, f"has {teams} teams", "give the state of one team")
    is_text = _TEXT_PATTERN.match(text) is not None
    try:
        runner, active, uplinks = _parse_text(text) if is_text else _parse_json(parse_json(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise make_state_error(
            DUMP_FORMAT, "is damaged", "write it again with teamdctl team0 state dump > FILE"
        ) from None
    if runner not in _POLICY_BY_RUNNER:
        raise make_state_error(
            DUMP_FORMAT, f'has the runner "{runner}"', "give --policy and --links; random cannot be predicted"
        )
    if not uplinks:
        raise make_state_error(DUMP_FORMAT, "has no port", "add a port to the team, or give --links instead")
    names = [uplink.name for uplink in uplinks]
    notes = [f"{uplink.name} is down." for uplink in uplinks if not uplink.is_up]
    policy = _POLICY_BY_RUNNER[runner]
    if policy == "team-hash":
        notes.append(_HASH_NOTE)
    team = Team(tuple(uplinks), active=names.index(active) if active in names else None)
    return TeamState(f"{DUMP_FORMAT}, runner {runner}", team, policy, tuple(notes))


def _parse_json(document: Any) -> tuple[str, str, list[Uplink]]:
    """Return runner, active port and ports of a dump (teamd_state.c, teamd_runner_*.c)."""
    runner = str(document["setup"]["runner_name"])
    active = str(document.get("runner", {}).get("active_port", ""))
    return runner, active, [_read_port(name, port) for name, port in document.get("ports", {}).items()]


def _read_port(name: str, port: Mapping[str, Any]) -> Uplink:
    speed = port.get("link", {}).get("speed", 0)
    is_up = bool(port.get("link_watches", {}).get("up", port.get("link", {}).get("up", False)))
    if "selected" in port.get("runner", {}):
        is_up = is_up and bool(port["runner"]["selected"])
    has_speed = isinstance(speed, int) and 0 < speed < 10**7
    return Uplink(str(name), speed * 10**6 if has_speed else None, is_up)


def _parse_text(text: str) -> tuple[str, str, list[Uplink]]:
    runner = active = ""
    uplinks: list[Uplink] = []
    for path, value in _walk_lines(text):
        if path == ("setup", "runner"):
            runner = value
        elif path == ("runner", "active port"):
            active = value
        elif path[0] == "ports" and len(path) == 2:
            uplinks.append(Uplink(path[1], None, True))
        elif path[0] == "ports" and path[-1] == "link summary":
            uplinks[-1] = Uplink(uplinks[-1].name, None, uplinks[-1].is_up and value == "up")
        elif path[0] == "ports" and path[2:] == ("runner", "selected"):
            uplinks[-1] = Uplink(uplinks[-1].name, None, uplinks[-1].is_up and value == "yes")
    return runner, active, uplinks


def _walk_lines(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each line's keys, from the outermost by indentation, and its value."""
    stack: list[tuple[int, str]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        key, _, value = (part.strip() for part in line.partition(":"))
        while stack and stack[-1][0] >= indent:
            stack.pop()
        stack.append((indent, key))
        yield tuple(each for _, each in stack), value
