"""Collect facts about a run from the lines of iperf3's text that are not rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from vnetbench.importers.runs import RoundedValue
from vnetbench.importers.tools.iperf3.endpoint_results import CLIENT, SERVER, format_connection
from vnetbench.importers.tools.iperf3.options import label_name_for_option
from vnetbench.importers.units import parse_rounded

_TIMESTAMP_PATTERN = re.compile(
    r"\w{3} (?P<c>\w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})|(?P<iso>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)"
)
"""What `--timestamps` puts in front of a line: its default format, and ISO 8601."""
_MAX_REMARKS = 5


@dataclass
class TextFacts:
    """Facts about a run, filled in as lines arrive."""

    role: str = ""
    """`CLIENT` or `SERVER`; empty if the start is missing."""
    version: str = ""
    started_at: datetime | None = None
    total_stream_count: int = 0
    """Streams of both directions together."""
    protocol: str = ""
    """Empty until a line reveals it."""
    is_reverse: bool = False
    is_bidirectional: bool = False
    interval_table_columns: str = ""
    """Columns of the table of intervals."""
    block_bytes: int | None = None
    bit_rate: int | None = None
    congestion: str = ""
    ip_version: int | None = None
    first_connection_addresses: str = ""
    local_and_remote_cpu: tuple[RoundedValue, RoundedValue | None] | None = None
    """CPU shares of this endpoint and of the other one."""
    line_prefix: str = ""
    """What `--timestamps`, `--title` or a syslog put in front of the first line."""
    other_results: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add_start_line(self, name: str, match: re.Match[str]) -> None:
        """Record a line with which a run starts (`line_patterns.START_LINE_PATTERNS_BY_NAME`)."""
        if match.start() and not self.line_prefix:
            self.line_prefix = match.string[: match.start()]
            self.started_at = self.started_at or _parse_timestamp(self.line_prefix)
        _HANDLER_BY_START_LINE[name](self, match)

    def add_other_line(self, name: str, match: re.Match[str]) -> None:
        """Record another line (`line_patterns.OTHER_LINE_PATTERNS_BY_NAME`). Many have no facts."""
        if name in _HANDLER_BY_OTHER_LINE:
            _HANDLER_BY_OTHER_LINE[name](self, match)

    @property
    def is_this_endpoint_only_sender(self) -> bool:
        """Whether only this endpoint sends, as the columns of its intervals reveal."""
        return not self.is_bidirectional and (
            "Retr" in self.interval_table_columns or " Total Datagrams" in self.interval_table_columns
        )

    def is_blank_after_prefix(self, line: str) -> bool:
        """Return whether a line has nothing but the prefix of all lines."""
        return not line.strip() or (
            bool(self.line_prefix) and _mask_digits(line) == _mask_digits(self.line_prefix)
        )

    def labels_without_factor(self) -> dict[str, str]:
        """Return labels for properties without a factor."""
        return {label_name_for_option("sctp"): "on"} if self.protocol == "SCTP" else {}

    def _add_table_header(self, match: re.Match[str]) -> None:
        columns = match["columns"]
        if "Datagrams" in columns:
            self.protocol = "UDP"
        elif self.protocol == "UDP" or not self.protocol:
            self.protocol = "TCP"
        self.is_bidirectional |= match["roles"] is not None
        self.interval_table_columns = self.interval_table_columns or columns

    def _add_connection(self, match: re.Match[str]) -> None:
        self.total_stream_count += 1
        self.ip_version = 6 if ":" in match["address"] else 4
        if self.total_stream_count == 1 and self.role:
            local, remote = f"{match['address']}:{match['port']}", match["remote"].replace(" port ", ":")
            self.first_connection_addresses = format_connection(self.role, local, remote)

    def _add_version(self, match: re.Match[str]) -> None:
        self.version = match["version"] or match["other_version"]

    def _set_role(self, role: str) -> None:
        self.role = role

    def _add_start_time(self, match: re.Match[str]) -> None:
        try:
            self.started_at = parsedate_to_datetime(match["time"]).astimezone(UTC)
        except ValueError:
            self.remarks.append(f"The start time {match['time']} is invalid")

    def _add_test_header(self, match: re.Match[str]) -> None:
        self.protocol, self.block_bytes = match["protocol"], int(match["block"])

    def _add_cpu_utilization(self, match: re.Match[str]) -> None:
        if self.local_and_remote_cpu is None:
            self.local_and_remote_cpu = parse_rounded(match["local"]), parse_rounded(match["remote"])

    def _add_warning(self, match: re.Match[str]) -> None:
        if len(self.remarks) < _MAX_REMARKS:
            self.remarks.append(f"iperf3 warned: {match['warning'].strip()[:200]}")

    def _mark_as_reverse(self, _: re.Match[str]) -> None:
        self.is_reverse = True

    def _add_bit_rate(self, match: re.Match[str]) -> None:
        self.bit_rate = int(match["bit_rate"])

    def _add_congestion_control(self, match: re.Match[str]) -> None:
        self.congestion = match["congestion"]

    def _add_named_value(self, match: re.Match[str]) -> None:
        self.other_results[match["value_name"]] = match["value"]

    def _add_reordered_datagrams(self, match: re.Match[str]) -> None:
        self.other_results["datagrams received out-of-order"] = match["disorder"]


_LineHandler = Callable[[TextFacts, re.Match[str]], None]
_HANDLER_BY_START_LINE: Mapping[str, _LineHandler] = {
    "is_version": TextFacts._add_version,
    "is_listening": lambda facts, _: facts._set_role(SERVER),
    "is_accepted": lambda facts, _: facts._set_role(SERVER),
    "is_connecting": lambda facts, _: facts._set_role(CLIENT),
    "is_connected": TextFacts._add_connection,
    "is_header": TextFacts._add_table_header,
}
_HANDLER_BY_OTHER_LINE: Mapping[str, _LineHandler] = {
    "is_reverse": TextFacts._mark_as_reverse,
    "is_time": TextFacts._add_start_time,
    "is_test": TextFacts._add_test_header,
    "is_bit_rate": TextFacts._add_bit_rate,
    "is_cpu": TextFacts._add_cpu_utilization,
    "is_congestion": TextFacts._add_congestion_control,
    "is_named_value": TextFacts._add_named_value,
    "is_disorder": TextFacts._add_reordered_datagrams,
    "is_warning": TextFacts._add_warning,
}


def _parse_timestamp(prefix: str) -> datetime | None:
    match = _TIMESTAMP_PATTERN.search(prefix)
    try:
        if match and match["c"]:
            return datetime.strptime(match["c"], "%b %d %H:%M:%S %Y")
        return datetime.fromisoformat(match["iso"]) if match else None
    except ValueError:
        return None


def _mask_digits(text: str) -> str:
    return re.sub(r"\d", "0", text.strip())
