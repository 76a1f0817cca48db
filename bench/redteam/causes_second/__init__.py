"""Second set of red-team causes, by an author who read neither the rules nor the first set."""

from bench.redteam.causes_second import (
    controls,
    harmless,
    links,
    losses,
    outages,
    packets,
    processors,
    windows,
)

CAUSES = (
    *processors.CAUSES,
    *links.CAUSES,
    *losses.CAUSES,
    *outages.CAUSES,
    *packets.CAUSES,
    *windows.CAUSES,
    *harmless.CAUSES,
    *controls.CAUSES,
)
