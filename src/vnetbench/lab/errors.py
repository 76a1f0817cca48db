"""Errors that end one treatment or one trial, but not the campaign."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.errors import BenchError


class TreatmentRefused(BenchError):
    """The treatment cannot be measured: a setting did not take effect, or the path is not as requested.

    Attributes:
        kind: What failed: a failure kind of docs/results-file.md, or the agent's own kind of error;
            empty if a setting is the reason.
        evidence: What the bench observed about the failure, for the results file.
        factor: The factor whose level did not take effect; empty for other reasons.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        fix: str | None = None,
        kind: str = "",
        evidence: Mapping[str, object] | None = None,
        factor: str = "",
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.kind = kind
        self.factor = factor
        self.evidence = dict(evidence or {})


class TrialFailed(Exception):
    """The trial failed, but a retry may succeed: an agent ended, or an interface vanished.

    Attributes:
        kind: What failed, a failure kind of docs/results-file.md; empty if unknown.
        evidence: What the bench observed about the failure, for the results file.
    """

    def __init__(
        self, what: str = "", *, kind: str = "", evidence: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(what)
        self.kind = kind
        self.evidence = dict(evidence or {})
