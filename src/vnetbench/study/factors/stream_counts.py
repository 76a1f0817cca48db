"""Number of streams of a treatment, whatever its workload counts: streams, connections or generators."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.factors.directions import StreamsPerDirection, parse_stream_multipliers
from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.factors.load_factors import DIRECTION, THREADS
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.model import Level


def count_streams_per_direction(levels: Mapping[str, Level]) -> StreamsPerDirection:
    """Return the forward and reverse streams (or connections, or generators) of a pair."""
    counting = (
        factor for factor in FACTORS.values() if factor.is_stream_count and factor.is_present_in(levels)
    )
    factor = next(counting, None)
    count = 1 if factor is None else int(levels[factor.name])
    forward, reverse = parse_stream_multipliers(str(DIRECTION.read_level(levels)))
    return StreamsPerDirection(count * forward, count * reverse)


def count_known_streams_per_direction(levels: Mapping[str, Level]) -> StreamsPerDirection | None:
    """Return the same; None if logs leave the number of streams or the direction unspecified."""
    names = [DIRECTION.name, *(factor.name for factor in FACTORS.values() if factor.is_stream_count)]
    is_unknown = any(levels.get(name) == UNSPECIFIED for name in names)
    return None if is_unknown else count_streams_per_direction(levels)


def count_load_threads_per_vm(levels: Mapping[str, Level]) -> int:
    """Return the load threads of each VM: those of the factor `threads`, else one for each stream."""
    threads = levels.get(THREADS.name)
    return threads if isinstance(threads, int) else max(1, sum(count_streams_per_direction(levels)))
