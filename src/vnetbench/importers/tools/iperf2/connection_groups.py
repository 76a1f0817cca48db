"""Simultaneous connections of iperf 2: the rows of each stream, and which row covers the whole run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from vnetbench.importers.row_columns import Row
from vnetbench.importers.tools.iperf2.report_rows import (
    ALL_STREAMS_ID,
    STREAM_ROWS,
    ReportRow,
    ReportRows,
    split_id,
)


@dataclass
class ReportHeader:
    """What the head of a report, and the command line, say about all groups of connections."""

    command_text: str
    command_options: Mapping[str, str]
    """Options of the command line, by name."""
    is_client: bool = False
    is_udp: bool = False
    is_endpoint_known: bool = True
    """False for CSV without a command line: its lines are the same at both endpoints."""
    only_connects: bool = False
    """Whether the client opens connections and sends nothing (`--connect-only`)."""
    burst_text: str = ""
    """How the load is cut into bursts, in the tool's words."""
    size_bytes_by_factor: dict[str, int] = field(default_factory=dict)
    """Sizes in bytes, by factor."""
    other_results: dict[str, str] = field(default_factory=dict)
    error_message: str = ""


@dataclass
class StreamRows:
    """The rows of one stream, or of all streams together, in one direction."""

    rows: ReportRows = field(default_factory=ReportRows)
    receiver_report_row: ReportRow | None = None
    """What the receiver of a UDP sender reported to it."""

    @property
    def whole_run_row(self) -> ReportRow | None:
        """The row of the whole run: the last one, if it starts at 0. A single row may be an interval."""
        last = self.rows[-1] if self.rows else None
        if last is None or last.start_s > 0 or (len(self.rows) == 1 and last.is_probably_interval):
            return None
        return last

    @property
    def interval_rows(self) -> list[ReportRow]:
        """The rows of intervals."""
        return self.rows[: -1 if self.whole_run_row is not None else None]


@dataclass
class ConnectionGroup:
    """Connections that ran at the same time."""

    first_line: int
    last_line: int = 0
    is_reverse_by_stream_id: dict[str, bool] = field(default_factory=dict)
    """Whether the load of a connection goes in reverse, by its id."""
    rows_by_stream_and_is_reverse: dict[tuple[str, bool], StreamRows] = field(default_factory=dict)
    """Rows by stream (or `SUM`) and by whether it goes in reverse."""
    sent_datagrams_by_stream_id: dict[str, int] = field(default_factory=dict)
    """Datagrams of each UDP stream, as its sender counted them."""
    stream_ids_whose_next_row_is_server_report: set[str] = field(default_factory=set)
    """UDP streams whose next row is the receiver's report."""
    reordered_datagrams: int | None = None
    lacks_receiver_report: bool = False
    """Whether a UDP sender got no report."""
    has_requests: bool = False
    """Whether the connections carry round trips (`--bounceback`)."""
    request_bytes: int | None = None
    """Size of a request and of its response."""
    stream_count_of_sum: int = 0
    """Number of streams in the sums, where iperf prints no single streams."""
    peer_version: str = ""
    started_at: datetime | None = None

    def add_row(self, row: ReportRow) -> None:
        """Add a row of results."""
        self.stream_count_of_sum = max(self.stream_count_of_sum, row.stream_count)
        is_reverse = row.is_reverse or self.is_reverse_by_stream_id.get(row.stream_id, False)
        stream = self.rows_by_stream_and_is_reverse.setdefault((row.stream_id, is_reverse), StreamRows())
        if row.stream_id in self.stream_ids_whose_next_row_is_server_report:
            self.stream_ids_whose_next_row_is_server_report.discard(row.stream_id)
            stream.receiver_report_row = row
        else:
            stream.rows.append(row)

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Add rows of `STREAM_ROWS`."""
        streams: dict[str, ReportRows] = {}
        for row in rows:
            text = row[0]
            stream = streams.get(text)
            if stream is None:
                stream_id, is_starred, count = split_id(text)
                if stream_id in self.stream_ids_whose_next_row_is_server_report:
                    self.add_row(ReportRow.parse(dict(zip(STREAM_ROWS.names, row, strict=False))))
                    continue
                self.stream_count_of_sum = max(self.stream_count_of_sum, count)
                is_reverse = is_starred or self.is_reverse_by_stream_id.get(stream_id, False)
                key = (stream_id, is_reverse)
                stream = streams[text] = self.rows_by_stream_and_is_reverse.setdefault(key, StreamRows()).rows
            stream.append(row)

    @property
    def rows_of_streams_or_sum(self) -> dict[tuple[str, bool], StreamRows]:
        """Every single stream, or the sum where iperf printed nothing else."""
        single = {key: rows for key, rows in self.rows_by_stream_and_is_reverse.items() if key[0].isdigit()}
        return single or {
            key: rows for key, rows in self.rows_by_stream_and_is_reverse.items() if key[0] == ALL_STREAMS_ID
        }

    @property
    def is_reverse_of_used_directions(self) -> list[bool]:
        """The directions in use, as `is_reverse`: one of them or both."""
        return sorted({is_reverse for _, is_reverse in self.rows_of_streams_or_sum})

    def find_stream_rows(self, is_reverse: bool) -> list[StreamRows]:
        """Return the single streams of a direction."""
        return [rows for (_, reverse), rows in self.rows_of_streams_or_sum.items() if reverse == is_reverse]

    @property
    def all_streams_rows(self) -> StreamRows | None:
        """The sums that iperf prints.

        Use them with one direction only: with two they may cover both or one.
        """
        return next(
            (
                rows
                for (name, _), rows in self.rows_by_stream_and_is_reverse.items()
                if name == ALL_STREAMS_ID
            ),
            None,
        )

    @property
    def has_connections_or_results(self) -> bool:
        """Whether anything was transferred. A server that only listens has an empty group."""
        return bool(self.is_reverse_by_stream_id or self.rows_by_stream_and_is_reverse)

    @property
    def has_all_whole_run_rows(self) -> bool:
        """Whether every connection has the row of its whole run, in both directions of a full-duplex one."""
        names = {name for name, _ in self.rows_of_streams_or_sum}
        has_all = set(self.is_reverse_by_stream_id) <= names or names == {ALL_STREAMS_ID}
        return (
            bool(names)
            and has_all
            and all(rows.whole_run_row for rows in self.rows_of_streams_or_sum.values())
        )
