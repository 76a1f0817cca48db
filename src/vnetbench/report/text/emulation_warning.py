"""The warning for results of guests that ran without hardware virtualization."""

from __future__ import annotations

from vnetbench.estimate.summary import CampaignSummary

_TCG_ACCELERATOR = "tcg"
EMULATION_WARNING = (
    "The guests ran under TCG (QEMU's translator) without KVM. Compare treatments within this campaign only: "
    "the values are far below the values of hardware."
)


def find_accelerator(summary: CampaignSummary) -> str | None:
    """Return what ran the guests, `kvm` or `tcg`; None for a campaign without guests."""
    names = [treatment.effective.get("accelerator") for treatment in summary.treatments]
    return next((str(name) for name in (*names, summary.testbed.get("accelerator")) if name), None)


def emulation_warnings(summary: CampaignSummary) -> tuple[str, ...]:
    """Return the warning for results taken under TCG; empty for all others."""
    return (EMULATION_WARNING,) if find_accelerator(summary) == _TCG_ACCELERATOR else ()
