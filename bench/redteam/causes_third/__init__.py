"""Third set of red-team causes, by an author who read no rule, no page of evidence and no other cause.

`CAUSES` has the order in which the runs are made, so that a part of them covers every family and workload.
"""

from bench.redteam.causes_third import (
    controls,
    cpu,
    datagrams,
    links,
    losses,
    outages,
    packet_work,
    pairs,
    windows,
)
from bench.redteam.causes_third.order import interleave

CAUSES = interleave(
    (
        cpu.CAUSES,
        links.CAUSES,
        losses.CAUSES,
        windows.CAUSES,
        datagrams.CAUSES,
        packet_work.CAUSES,
        outages.CAUSES,
        pairs.CAUSES,
    ),
    controls.CAUSES,
)
