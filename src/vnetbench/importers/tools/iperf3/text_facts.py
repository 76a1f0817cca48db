"""What the lines of iperf3's text that are no rows say of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from vnetbench.importers.runs import Figure
from vnetbench.importers.tools.iperf3.endpoint_results import CLIENT, SERVER, connection
from vnetbench.importers.tools.iperf3.options import label_of
from vnetbench.importers.units import rounded

_STAMP = re.compile(
    r"\w{3} (?P<c>\w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})|(?P<iso>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)"
)
"""What `--timestamps` puts before a line: its own form, and the one that people ask for."""
_MOST_REMARKS = 5


@dataclass
class Facts:
    """They are filled in as lines come."""

    role: str = ""
    """`CLIENT` or `SERVER`; empty where the beginning is missing."""
    version: str = ""
    started_at: datetime | None = None
    streams: int = 0
    """Those both ways together."""
    protocol: str = ""
    """Empty where nothing says it yet."""
    is_reverse: bool = False
    is_both_ways: bool = False
    columns: str = ""
    """Of the first table, that of the intervals."""
    block_bytes: int | None = None
    bit_rate: int | None = None
    congestion: str = ""
    ip_version: int | None = None
    connection: str = ""
    cpu: tuple[Figure, Figure | None] | None = None
    """Of this end and of the other."""
    prefix: str = ""
    """What `--timestamps` and `--title`, or a syslog, put before the first line."""
    also: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def take_beginning(self, name: str, found: re.Match[str]) -> None:
        """One of the lines with which a run begins (`forms.BEGINNINGS`)."""
        if found.start() and not self.prefix:
            self.prefix = found.string[: found.start()]
            self.started_at = self.started_at or _stamped(self.prefix)
        _OF_BEGINNING[name](self, found)

    def take_note(self, name: str, found: re.Match[str]) -> None:
        """One of the other lines (`forms.NOTES`); many say nothing."""
        if name in _OF_NOTES:
            _OF_NOTES[name](self, found)

    @property
    def sends(self) -> bool:
        """Whether this end alone sends, as the columns of its intervals say."""
        return not self.is_both_ways and ("Retr" in self.columns or " Total Datagrams" in self.columns)

    def is_blank(self, line: str) -> bool:
        """Whether there is nothing in a line but what stands before all of them."""
        return not line.strip() or (bool(self.prefix) and _shape(line) == _shape(self.prefix))

    def labels(self) -> dict[str, str]:
        """What tells this run from others by no factor of ours."""
        return {label_of("sctp"): "on"} if self.protocol == "SCTP" else {}

    def _take_header(self, found: re.Match[str]) -> None:
        columns = found["columns"]
        if "Datagrams" in columns:
            self.protocol = "UDP"
        elif self.protocol == "UDP" or not self.protocol:
            self.protocol = "TCP"
        self.is_both_ways |= found["roles"] is not None
        self.columns = self.columns or columns

    def _take_connected(self, found: re.Match[str]) -> None:
        self.streams += 1
        self.ip_version = 6 if ":" in found["address"] else 4
        if self.streams == 1 and self.role:
            local, remote = f"{found['address']}:{found['port']}", found["remote"].replace(" port ", ":")
            self.connection = connection(self.role, local, remote)

    def _take_version(self, found: re.Match[str]) -> None:
        self.version = found["version"]

    def _take_role(self, role: str) -> None:
        self.role = role

    def _take_time(self, found: re.Match[str]) -> None:
        try:
            self.started_at = parsedate_to_datetime(found["time"]).astimezone(UTC)
        except ValueError:
            self.remarks.append(f"its time is none: {found['time']}")

    def _take_test(self, found: re.Match[str]) -> None:
        self.protocol, self.block_bytes = found["protocol"], int(found["block"])

    def _take_cpu(self, found: re.Match[str]) -> None:
        if self.cpu is None:
            self.cpu = rounded(found["local"]), rounded(found["remote"])

    def _take_warning(self, found: re.Match[str]) -> None:
        if len(self.remarks) < _MOST_REMARKS:
            self.remarks.append(f"it warned: {found['warning'].strip()[:200]}")

    def _take_reverse(self, _: re.Match[str]) -> None:
        self.is_reverse = True

    def _take_rate(self, found: re.Match[str]) -> None:
        self.bit_rate = int(found["bit_rate"])

    def _take_congestion(self, found: re.Match[str]) -> None:
        self.congestion = found["congestion"]

    def _take_noted(self, found: re.Match[str]) -> None:
        self.also[found["noted"]] = found["value"]

    def _take_disorder(self, found: re.Match[str]) -> None:
        self.also["datagrams received out-of-order"] = found["disorder"]


_Taker = Callable[[Facts, re.Match[str]], None]
_OF_BEGINNING: Mapping[str, _Taker] = {
    "is_version": Facts._take_version,
    "is_listening": lambda facts, _: facts._take_role(SERVER),
    "is_accepted": lambda facts, _: facts._take_role(SERVER),
    "is_connecting": lambda facts, _: facts._take_role(CLIENT),
    "is_connected": Facts._take_connected,
    "is_header": Facts._take_header,
}
_OF_NOTES: Mapping[str, _Taker] = {
    "is_reverse": Facts._take_reverse,
    "is_time": Facts._take_time,
    "is_test": Facts._take_test,
    "is_bit_rate": Facts._take_rate,
    "is_cpu": Facts._take_cpu,
    "is_congestion": Facts._take_congestion,
    "is_note": Facts._take_noted,
    "is_disorder": Facts._take_disorder,
    "is_warning": Facts._take_warning,
}


def _stamped(prefix: str) -> datetime | None:
    found = _STAMP.search(prefix)
    try:
        if found and found["c"]:
            return datetime.strptime(found["c"], "%b %d %H:%M:%S %Y")
        return datetime.fromisoformat(found["iso"]) if found else None
    except ValueError:
        return None


def _shape(text: str) -> str:
    return re.sub(r"\d", "0", text.strip())
