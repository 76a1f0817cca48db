"""What `team predict` gets as options, and the team, policy and flows that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vnetbench.errors import BenchError

if TYPE_CHECKING:
    from vnetbench.teaming.flows import Flow
    from vnetbench.teaming.policies.policy import Policy
    from vnetbench.teaming.predict import TeamPrediction
    from vnetbench.teaming.state.team_state import TeamState
    from vnetbench.teaming.team import Team

ASSUMPTIONS: dict[str, dict[str, Any]] = {
    "no-packet-hash": {"packets_carry_hash": False},
    "vlan-tag-in-frame": {"is_vlan_tag_in_frame": True},
    "big-endian": {"byte_order": "big"},
    "no-dynamic-lb": {"has_dynamic_load_balancing": False},
    "drops-hash-bit-of-all": {"dropped_hash_bit": "all"},
    "drops-no-hash-bit": {"dropped_hash_bit": "none"},
    "kernel-datapath": {"has_random_datapath_hash": True},
}
"""Fields of a team that `--assume` sets, by its choice."""
_SHORT_RATE_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([GMk])", re.IGNORECASE)
_MAX_SPEED_BPS = 10**13


@dataclass(frozen=True)
class TeamArguments:
    """The options of `team predict`, as given."""

    policy: str | None
    links: int | None
    states: tuple[Path, ...]
    team_name: str | None
    flow_texts: tuple[str, ...]
    pcap: Path | None
    socket_list: Path | None
    random_count: int | None
    seed: int
    speed: str | None
    reverse_policy: str | None
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class TeamQuestion:
    """What the options name: policies, team and flows, and notes about the files that were read."""

    policy: Policy
    reverse_policy: Policy | str | None
    team: Team
    flows: tuple[Flow, ...]
    notes: tuple[str, ...]

    def predict(self) -> TeamPrediction:
        """Return the prediction of all flows; raises BenchError if a flow lacks a field."""
        from vnetbench.teaming.predict import predict_flows

        return predict_flows(self.flows, self.policy, self.team, self.reverse_policy)


def resolve_arguments(arguments: TeamArguments) -> TeamQuestion:
    """Return what the options name.

    Raises:
        BenchError: An option is missing, contradicts another or has a wrong value.
    """
    from vnetbench.teaming.policies.linux_bonding import MODES_WITH_HASH
    from vnetbench.teaming.policies.registry import find_policy
    from vnetbench.teaming.predict import REVERSE_RULES

    state = _read_state(arguments)
    team = _make_team(arguments, state)
    name = arguments.policy or (state.policy_name if state else None)
    if name is None:
        fix = "add --policy; `vnetbench team policies` lists them"
        raise BenchError("the policy is unknown: no option and no dump names it", fix=fix)
    policy = find_policy(name)
    policy.check_team(team)
    _check_one_speed_of_lacp(name, state, team)
    reverse_name = arguments.reverse_policy
    is_rule = reverse_name is None or reverse_name in REVERSE_RULES
    flows, notes = _collect_flows(arguments)
    if state is not None:
        notes = [f"State from {state.dump_format}.", *state.notes, *notes]
        if state.policy_name is not None and find_policy(state.policy_name) is not policy:
            notes.append(f"The dump states {state.policy_name}; --policy replaces it.")
    if name.strip().lower() in MODES_WITH_HASH:
        notes.append(f"{name} hashes by layer2 unless xmit_hash_policy is set: name it as {name}/layer3+4.")
    return TeamQuestion(
        policy, reverse_name if is_rule else find_policy(str(reverse_name)), team, tuple(flows), tuple(notes)
    )


def _read_state(arguments: TeamArguments) -> TeamState | None:
    if not arguments.states:
        if arguments.team_name is not None:
            raise BenchError("--team selects a team of a dump", fix="add --state FILE, or remove --team")
        return None
    if arguments.links is not None:
        raise BenchError("--links and --state both state the uplinks", fix="remove --links")
    from vnetbench.teaming.state.reader import read_state_files

    return read_state_files(arguments.states, arguments.team_name)


def _make_team(arguments: TeamArguments, state: TeamState | None) -> Team:
    from vnetbench.teaming.team import make_team

    if state is not None:
        team = state.team
    elif arguments.links is None:
        raise BenchError("the uplinks are unknown", fix="add --links N, or --state FILE")
    else:
        team = make_team(arguments.links)
    for assumption in arguments.assumptions:
        team = replace(team, **ASSUMPTIONS[assumption])
    return team if arguments.speed is None else _set_speeds(team, arguments.speed)


def _check_one_speed_of_lacp(policy_name: str, state: TeamState | None, team: Team) -> None:
    """Raise BenchError if a bond with LACP would send by links of different speeds.

    Such links have different keys (bond_3ad.c, __get_link_speed), so they are in different aggregators, and
    the bond uses one of these.
    """
    from vnetbench.quantity import format_exact_bit_rate
    from vnetbench.study.bonding_policies import LACP_MODE

    is_lacp_dump = state is not None and state.dump_format.endswith(f" {LACP_MODE}")
    if policy_name.strip().lower().split("/")[0] != LACP_MODE and not is_lacp_dump:
        return
    speeds = sorted({team.uplinks[i].speed_bps or 0 for i in team.usable} - {0}, reverse=True)
    if len(speeds) > 1:
        listed = " and ".join(map(format_exact_bit_rate, speeds))
        raise BenchError(
            f"LACP bundles links of one speed, and these have {listed}",
            where="--speed",
            fix="give --links and --speed of the links in one aggregator only, which is what the bond uses; "
            "balance-xor and its hash policies take links of any speed",
        )


def _set_speeds(team: Team, text: str) -> Team:
    """Return the team with the speeds of `--speed`."""
    speeds = [_parse_speed(part) for part in text.split(",")]
    count = len(team.uplinks)
    if len(speeds) not in (1, count):
        raise BenchError(
            f"--speed has {len(speeds)} rates for {count} uplinks",
            fix=f"give one rate, or {count} with commas",
        )
    speeds = speeds * count if len(speeds) == 1 else speeds
    uplinks = tuple(replace(u, speed_bps=s) for u, s in zip(team.uplinks, speeds, strict=True))
    return replace(team, uplinks=uplinks)


def _parse_speed(text: str) -> int:
    from vnetbench.quantity import parse_bit_rate

    if text.strip().startswith("-"):
        raise BenchError("a speed is not negative", where="--speed", fix="write a rate such as 1G")
    short = _SHORT_RATE_PATTERN.fullmatch(text.strip())
    prefix = {"g": "G", "m": "M", "k": "k"}[short[2].lower()] if short else ""
    try:
        speed = parse_bit_rate(f"{short[1]} {prefix}bit/s" if short else text)
    except BenchError as error:
        raise BenchError(error.what, where="--speed", fix=error.fix) from None
    if speed == 0:
        raise BenchError(
            "an uplink of 0 bit/s carries nothing", where="--speed", fix="write a rate such as 1G"
        )
    if speed > _MAX_SPEED_BPS:
        raise BenchError(
            "no uplink has more than 10 Tbit/s", where="--speed", fix="write a rate such as 400G"
        )
    return speed


def _collect_flows(arguments: TeamArguments) -> tuple[list[Flow], list[str]]:
    """Return the flows of all options in the order --flow, --pcap, --ss, --random, and notes about them."""
    from vnetbench.quantity import format_count_with_noun
    from vnetbench.teaming.flow_syntax import MAX_FLOWS, parse_flow_option

    flows = [flow for text in arguments.flow_texts for flow in parse_flow_option(text)]
    notes: list[str] = []
    if arguments.pcap is not None:
        flows += _read_pcap(arguments.pcap, notes)
    if arguments.socket_list is not None:
        flows += _read_socket_list(arguments.socket_list, notes)
    if arguments.random_count is not None:
        if not 1 <= arguments.random_count <= MAX_FLOWS:
            raise BenchError(
                f"--random draws 1 to {MAX_FLOWS} flows, not {arguments.random_count}",
                fix="correct the number",
            )
        from vnetbench.teaming.random_flows import draw_flows

        flows += draw_flows(arguments.random_count, arguments.seed)
        count = format_count_with_noun(arguments.random_count, "random flow")
        notes.append(
            f"{count}, seed {arguments.seed}: TCP to port 5201,"
            " with the even source ports that Linux tries first."
        )
    if not flows:
        fix = "add --flow 10.0.0.1:50000-10.0.0.2:5201, --pcap FILE, --ss FILE or --random N"
        raise BenchError("there is no flow to predict", fix=fix)
    if len(flows) > MAX_FLOWS:
        raise BenchError(f"{len(flows)} flows are too many", fix=f"give at most {MAX_FLOWS}")
    return flows, notes


def _read_pcap(path: Path, notes: list[str]) -> list[Flow]:
    from vnetbench.quantity import format_count_with_noun
    from vnetbench.teaming.flow_sources.pcap import read_captured_flows

    captured = read_captured_flows(path)
    packets = format_count_with_noun(captured.packets, "packet")
    if not captured.flows:
        damage = ", and is damaged or cut off behind them" if captured.is_damaged else ""
        raise BenchError(
            f"the capture has no flow with IP addresses in {packets}{damage}",
            where=str(path),
            fix="capture the flows on an interface that carries them",
        )
    text = f"{path}: {format_count_with_noun(len(captured.flows), 'flow')} in {packets}"
    notes.append(
        text + (f"; {captured.skipped} without IP addresses or damaged" if captured.skipped else "") + "."
    )
    if not captured.is_complete:
        notes.append(f"The capture is too long: packets after number {captured.packets} were not read.")
    if captured.is_damaged:
        notes.append(
            f"The capture is damaged or cut off after packet {captured.packets}; nothing after it was read."
        )
    return list(captured.flows)


def _read_socket_list(path: Path, notes: list[str]) -> list[Flow]:
    from vnetbench.regular_file import read_bounded
    from vnetbench.teaming.flow_sources.socket_list import MAX_LIST_BYTES, parse_socket_list

    try:
        listed = parse_socket_list(read_bounded(path, MAX_LIST_BYTES).decode(errors="replace"))
    except BenchError as error:
        raise BenchError(error.what, where=str(path), fix=error.fix) from None
    if not listed.flows:
        raise BenchError(
            "the list has no connection to another host",
            where=str(path),
            fix="write it with ss -tin > FILE while the flows run",
        )
    if listed.skipped_loopback:
        notes.append(
            f"{path}: connections within the host use no uplink ({listed.skipped_loopback} left out)."
        )
    return list(listed.flows)
