"""The error that users see: what is wrong, where, and the fix."""

from __future__ import annotations


class BenchError(Exception):
    """An error that the user can fix; it is printed without a traceback.

    Attributes:
        what: What is wrong, as a sentence.
        where: A `file:line`, an endpoint or a setting.
        fix: What to do next.
    """

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}\n  fix: {self.fix}" if self.fix else head
