"""The state of a team as a dump gives it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable
from vnetbench.teaming.team import Team


@dataclass(frozen=True)
class TeamState:
    """What a dump says about a team.

    Attributes:
        dump_format: The command or file that the dump is from.
        team: Members with speed, link state, active member and table.
        policy_name: Name of the policy; None if the dump does not state it.
        notes: Sentences about what the dump shows or lacks.
    """

    dump_format: str
    team: Team
    policy_name: str | None
    notes: tuple[str, ...] = ()


def parse_number(text: str) -> int | None:
    """Return a number of at most ten ASCII digits; None for anything else."""
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) else None


def parse_json(text: str) -> Any:
    """Return a JSON document; half of a surrogate pair, which nothing can print, becomes a question mark.

    Raises:
        ValueError: The text is no JSON.
        RecursionError: The document is nested too deeply.
    """
    value = json.loads(text)
    if "\\ud" not in text.lower():
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def refuse_team_name(dump_format: str, team_name: str | None) -> None:
    """Refuse a name for a dump that has one team and does not name it.

    Raises:
        BenchError: There is a name.
    """
    if team_name is not None:
        raise make_state_error(
            dump_format,
            f"has one team without a name, so --team {team_name} selects nothing",
            "remove --team",
        )


def make_state_error(dump_format: str, what: str, fix: str) -> BenchError:
    """Return the error for a dump that is recognised and cannot be used."""
    return BenchError(f"the dump of {dump_format} {make_printable(what)}", fix=fix)
