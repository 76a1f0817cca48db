"""Read `ovs-appctl bond/show`, as bond_print_details() of ofproto/bond.c prints it (2.5 to 3.x)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vnetbench.teaming.policies.open_vswitch import BUCKETS
from vnetbench.teaming.state.team_state import TeamState, make_state_error, parse_number
from vnetbench.teaming.team import Team, Uplink

DUMP_FORMAT = "ovs-appctl bond/show"
_BOND_PATTERN = re.compile(r"^---- (.+) ----$", re.MULTILINE)
_MEMBER_PATTERN = re.compile(r"^(?:member|slave) (.+): (enabled|disabled)$")
_BUCKET_PATTERN = re.compile(r"^\s+hash ([0-9]{1,9}): [0-9]+ kB load$")
_ACTIVE_PATTERN = re.compile(r"^\s+active (?:member|slave)$")
_BUCKET_RULE_PATTERN = re.compile(
    r",dp_hash=(0x[0-9a-f]{1,2}|0)/0xff,actions=output:([0-9]{1,5})\s*$", re.MULTILINE
)
_MODES = ("balance-slb", "balance-tcp", "active-backup")


def is_bond_show(text: str) -> bool:
    """Return whether the text is from `ovs-appctl bond/show`."""
    return _BOND_PATTERN.search(text) is not None and "bond_mode:" in text


def read_bond_show(text: str, team_name: str | None) -> TeamState:
    """Return the state of the bond; `team_name` selects one of several.

    Raises:
        BenchError: The dump has several bonds, an unknown mode, or LACP that lets nothing pass.
    """
    text = _select_bond(text, team_name)
    fields = dict(re.findall(r"^([a-z][a-z_ -]*): (.*)$", text, re.MULTILINE))
    mode = fields.get("bond_mode", "")
    if mode not in _MODES:
        raise make_state_error(DUMP_FORMAT, f'has the unknown bond_mode "{mode}"', f"use {', '.join(_MODES)}")
    uplinks: list[Uplink] = []
    table: dict[int, int] = {}
    active = None
    for line in text.splitlines():
        if member := _MEMBER_PATTERN.match(line):
            uplinks.append(Uplink(member[1], None, member[2] == "enabled"))
        elif uplinks and (bucket := _BUCKET_PATTERN.match(line)) and int(bucket[1]) < BUCKETS:
            table[int(bucket[1])] = len(uplinks) - 1
        elif uplinks and _ACTIVE_PATTERN.match(line):
            active = len(uplinks) - 1
    if not uplinks:
        raise make_state_error(
            DUMP_FORMAT, "has no member", "run ovs-appctl bond/show with the name of a bond"
        )
    basis = parse_number(fields.get("bond-hash-basis", "0")) or 0
    policy, notes = _effective_policy(mode, fields)
    team = Team(
        tuple(uplinks),
        active=active,
        uplink_by_bucket=table,
        hash_basis=basis % 2**32,
    )
    if policy != "active-backup" and not table:
        notes.append(_empty_table_note(fields))
    notes += [f"{uplink.name} is disabled." for uplink in uplinks if not uplink.is_up]
    return TeamState(f"{DUMP_FORMAT}, {mode}", team, policy, tuple(notes))


def read_bucket_rules(flow_dump: str, uplink_by_port: Mapping[int, int]) -> dict[int, int]:
    """Return the member of each bucket of a balance-tcp bond, as the switch's own rules give it.

    `bond/show` omits buckets that carried less than 1 kB; these rules list all that have a member.

    Args:
        flow_dump: Output of `ovs-appctl bridge/dump-flows BRIDGE` (ofproto/bond.c, update_recirc_rules__).
        uplink_by_port: Index of the member with each OpenFlow port number.
    """
    rules = _BUCKET_RULE_PATTERN.findall(flow_dump)
    return {
        int(bucket, 16): uplink_by_port[int(port)] for bucket, port in rules if int(port) in uplink_by_port
    }


def _select_bond(text: str, team_name: str | None) -> str:
    """Return the part of the dump that is about the named bond, or about the only one."""
    heads = list(_BOND_PATTERN.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    part_by_name = {head[1]: text[head.start() : end] for head, end in zip(heads, ends, strict=True)}
    if team_name is None and len(heads) == 1:
        return text
    if team_name not in part_by_name:
        what = f"has the bonds {', '.join(list(part_by_name)[:8])}"
        raise make_state_error(DUMP_FORMAT, what, f"add --team {heads[0][1]}, or the name of another")
    return part_by_name[team_name]


def _empty_table_note(fields: dict[str, str]) -> str:
    """Return why no bucket is listed: bond_print_details() omits those below 1 kB, and all if none moves."""
    if "next rebalance" not in fields:
        return "The dump lists no buckets, because bond-rebalance-interval is 0."
    return "The dump lists no buckets, because none carried 1 kB yet."


def _effective_policy(mode: str, fields: dict[str, str]) -> tuple[str, list[str]]:
    """Return the policy that choose_output_member() applies, and why if it is another one."""
    lacp = fields.get("lacp_status", "off")
    falls_back = fields.get("lacp_fallback_ab") == "true"
    if lacp == "configured" and falls_back:
        return "active-backup", ["LACP is not negotiated, so the bond falls back to active-backup."]
    if lacp == "configured" or (mode == "balance-tcp" and lacp != "negotiated"):
        raise make_state_error(
            DUMP_FORMAT,
            f"has {mode} with lacp_status {lacp}, so the bond drops every packet",
            "configure LACP on both sides, or set other_config:lacp-fallback-ab=true",
        )
    return mode, []
