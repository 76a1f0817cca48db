"""The one kind of error that reaches a person: what is wrong, where, and the fix."""

from __future__ import annotations


class BenchError(Exception):
    """Something the user, the study or the machine must change; shown without a traceback.

    `what` is a sentence, `where` a file:line, an endpoint or a setting, `fix` the thing to do next.
    """

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}\n  fix: {self.fix}" if self.fix else head
