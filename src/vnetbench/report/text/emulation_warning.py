"""What must stand beside every figure of guests that ran without the CPU's help."""

from __future__ import annotations

from vnetbench.estimate.summary import CampaignSummary

_TCG = "tcg"
EMULATION_WARNING = (
    "Guests ran under TCG, QEMU's translator, without KVM: figures compare treatments of this campaign, "
    "and are far below what hardware gives."
)


def find_accelerator(summary: CampaignSummary) -> str | None:
    """What ran the guests, `kvm` or `tcg`; None where there were no guests."""
    known = [t.effective.get("accelerator") for t in summary.treatments]
    return next((str(name) for name in (*known, summary.testbed.get("accelerator")) if name), None)


def emulation_warnings(summary: CampaignSummary) -> tuple[str, ...]:
    """The sentence that goes with figures taken under TCG; nothing for others."""
    return (EMULATION_WARNING,) if find_accelerator(summary) == _TCG else ()
