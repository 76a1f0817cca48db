"""Value type of CPU quotas: one for all VMs, or one for each VM of a pair."""

from __future__ import annotations

from vnetbench.study.factors.value_types import ValueType, percentages
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, format_raw_value


def vm_cpu_quotas(low_share: float, high_share: float, no_quota: str) -> ValueType:
    """Make the type of one CPU quota for all VMs, or of "85 %/none" for the first and second VM of a pair."""
    single = percentages(low_share, high_share, no_quota)
    expected = f'{single.expected_form}, or one for each VM of a pair such as "85 %/{no_quota}"'

    def parse(raw: object) -> Level:
        if not isinstance(raw, str) or "/" not in raw:
            return single.parse(raw)
        quotas = [single.parse(part) for part in raw.split("/")]
        if len(quotas) != 2:
            raise WrongValue(f"{format_raw_value(raw)} names more than two VMs", fix=f"write {expected}")
        return quotas[0] if quotas[0] == quotas[1] else "/".join(map(single.format, quotas))

    pattern = rf"{single.pattern}(\s*/\s*{single.pattern})?"
    return ValueType(expected, parse, single.format, pattern, keywords=single.keywords)
