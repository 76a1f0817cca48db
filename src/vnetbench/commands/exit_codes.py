"""What the commands exit with, beside 0."""

from __future__ import annotations

NOTHING_MEASURED = 1
BAD_INPUT = 2
WORSE = 3
NOT_ALL_READ = 4
INTERRUPTED = 130
