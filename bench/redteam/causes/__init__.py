"""All causes of the red-team corpus, by family."""

from __future__ import annotations

from bench.redteam.causes import controls, cpu, failures, guests, links, loss, packet_work, settings
from bench.redteam.model import Cause

CAUSES: tuple[Cause, ...] = (
    *cpu.CAUSES,
    *links.CAUSES,
    *loss.CAUSES,
    *packet_work.CAUSES,
    *settings.CAUSES,
    *failures.CAUSES,
    *guests.CAUSES,
    *controls.CAUSES,
)
BY_ID = {cause.id: cause for cause in CAUSES}
