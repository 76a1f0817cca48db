"""Contradictions among the treatments of a study, by all level rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vnetbench.study.factors.registry import complete_levels, format_level
from vnetbench.study.factors.stream_counts import count_streams_per_direction
from vnetbench.study.model import Study
from vnetbench.study.problems import KeyLocator, Problem
from vnetbench.study.rules.adapter_rules import ADAPTER_RULES, adapter_limit_texts_by_placeholder
from vnetbench.study.rules.disruption_rules import (
    DISRUPTION_RULES,
    format_lowest_rate,
    format_shortest_trial,
)
from vnetbench.study.rules.frame_rules import FRAME_RULES, format_frame_sizes
from vnetbench.study.rules.guest_event_rules import GUEST_EVENT_RULES
from vnetbench.study.rules.load_rules import (
    LOAD_RULES,
    count_needed_source_ports,
    format_thread_cpus_outside_vm,
)
from vnetbench.study.rules.rule import TreatmentLevels
from vnetbench.study.rules.testbed_rules import TESTBED_RULES

_RULES = (
    *FRAME_RULES,
    *ADAPTER_RULES,
    *TESTBED_RULES,
    *LOAD_RULES,
    *DISRUPTION_RULES,
    *GUEST_EVENT_RULES,
)


def find_contradictions(
    study: Study, treatments: Iterable[TreatmentLevels], locate: KeyLocator
) -> Iterator[Problem]:
    """Yield one problem for each broken rule, with the levels of the first treatment that breaks it."""
    intact_rules = list(_RULES)
    for treatment in treatments:
        levels = complete_levels(treatment, study.workload, study.testbed.backend)
        for rule in [rule for rule in intact_rules if rule.is_broken(levels, study)]:
            intact_rules.remove(rule)
            forward, reverse = count_streams_per_direction(levels)
            texts = {
                **{name: format_level(name, level) for name, level in levels.items()},
                "forward": str(forward),
                "reverse": str(reverse),
                "shaper": study.testbed.shaper,
                "workload": study.workload,
                "needed_source_ports": str(count_needed_source_ports(levels, study.workload)),
                "missing_cpus": format_thread_cpus_outside_vm(levels),
                **adapter_limit_texts_by_placeholder(levels),
                **format_frame_sizes(levels),
                **format_shortest_trial(levels),
                **format_lowest_rate(levels),
            }
            yield locate("factors", rule.factor.name).make_problem(
                rule.what.format_map(texts), fix=rule.fix.format_map(texts)
            )
