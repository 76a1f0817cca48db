"""Limits for what the archives of one import may unpack to, and the errors beyond them."""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.errors import BenchError

MAX_LOGS_PER_IMPORT = 20_000
MAX_UNPACKED_BYTES = 4 * 2**30
"""Bytes that all archives of one import may unpack to."""
MAX_UNPACKED_LINES = 50_000_000
"""Lines that all archives of one import may unpack to. Logs of the maximum size have about as many. A short
line takes nearly as much time as a long one, so bytes alone do not bound the time."""
MAX_ARCHIVE_MEMBERS = 200_000
"""Members of all archives of one import: logs, folders, other files, and concatenated compressed files."""


@dataclass
class UnpackBudget:
    """What archives may still unpack to."""

    remaining_bytes: int = MAX_UNPACKED_BYTES
    remaining_lines: int = MAX_UNPACKED_LINES
    remaining_members: int = MAX_ARCHIVE_MEMBERS
    remaining_logs: int = MAX_LOGS_PER_IMPORT

    def subtract_data(self, archive_name: str, unpacked: bytes) -> None:
        """Subtract data that was unpacked. Raises BenchError if the budget is exhausted."""
        self.remaining_bytes -= len(unpacked)
        # A line may end with CR, LF or both.
        self.remaining_lines -= max(unpacked.count(b"\n"), unpacked.count(b"\r"))
        if self.remaining_bytes < 0:
            raise _too_large_error(archive_name, f"{MAX_UNPACKED_BYTES >> 30} GiB")
        if self.remaining_lines < 0:
            raise _too_large_error(archive_name, f"{MAX_UNPACKED_LINES:,} lines")

    def subtract_member(self, archive_name: str) -> None:
        """Subtract a member of an archive. Raises BenchError if the budget is exhausted."""
        self.remaining_members -= 1
        if self.remaining_members < 0:
            raise _too_large_error(archive_name, f"{MAX_ARCHIVE_MEMBERS:,} files and folders")

    def subtract_log(self, log_name: str) -> None:
        """Subtract a log. Raises BenchError if the budget is exhausted."""
        self.remaining_logs -= 1
        if self.remaining_logs < 0:
            raise BenchError(
                f"there are more than {MAX_LOGS_PER_IMPORT} logs",
                where=log_name,
                fix="import fewer logs at once",
            )


def _too_large_error(archive_name: str, limit: str) -> BenchError:
    return BenchError(
        f"the archives unpack to more than {limit}",
        where=archive_name,
        fix="unpack the archives, and import only the logs that you need",
    )
