"""The JSON of `vnetbench team predict --json` (docs/team-predict.md)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from vnetbench.teaming.advice import Advice
from vnetbench.teaming.answer import answer_sentences
from vnetbench.teaming.expectation import Expectation
from vnetbench.teaming.flows import Flow, format_end, format_mac
from vnetbench.teaming.loads import TeamLoad, UplinkLoad
from vnetbench.teaming.predict import FlowPrediction, TeamPrediction
from vnetbench.teaming.prediction import Prediction

TEAM_JSON_VERSION = 1
"""Format version. It increases when a key is removed or changes its meaning."""

JsonObject = dict[str, Any]
_NUMBER_FIELDS = (
    "protocol", "vlan", "vlan_priority", "source_port_id", "destination_port_id", "icmp_type", "icmp_id",
    "spi", "answer_spi",
)  # fmt: skip


def prediction_json(
    prediction: TeamPrediction, expectation: Expectation | None, advice: Advice, notes: tuple[str, ...]
) -> str:
    """Return the prediction as JSON; uplinks are counted from 0."""
    forward, reverse = prediction.forward_load, prediction.reverse_load
    forward_flows = _list_flows(each.forward for each in prediction.flows)
    reverse_flows = _list_flows(each.reverse for each in prediction.flows)
    fields = {
        "version": TEAM_JSON_VERSION,
        "answer": answer_sentences(prediction),
        "policy": prediction.policy.name,
        "policy_source": prediction.policy.source,
        "reverse_policy": prediction.reverse_policy_name,
        "notes": list(notes),
        "flows": [_flow_fields(each) for each in prediction.flows],
        "uplinks": [
            {
                "uplink": i,
                "name": uplink.name,
                "speed_bps": uplink.speed_bps,
                "up": uplink.is_up,
                "forward": _uplink_fields(forward.uplinks[i], forward_flows[i]),
                "reverse": _uplink_fields(reverse.uplinks[i], reverse_flows[i]),
            }
            for i, uplink in enumerate(prediction.team.uplinks)
        ],
        "forward": _load_fields(forward),
        "reverse": _load_fields(reverse),
        "random_flows": None if expectation is None else _expectation_fields(expectation),
        "advice": _advice_fields(advice),
    }
    return json.dumps(fields, indent=2, allow_nan=False)


def _flow_fields(each: FlowPrediction) -> JsonObject:
    flow = each.flow
    fields: JsonObject = {
        "source": format_end(flow.source, flow.source_mac, flow.source_port),
        "destination": format_end(flow.destination, flow.destination_mac, flow.destination_port),
    }
    for name in ("source_mac", "destination_mac"):
        mac = getattr(flow, name)
        if mac is not None:
            fields[name] = format_mac(mac)
    fields |= {name: getattr(flow, name) for name in _NUMBER_FIELDS if getattr(flow, name)}
    if flow.is_fragmented:
        fields["fragmented"] = True
    if flow.has_extension_headers:
        fields["extension_headers"] = True
    if flow.inner is not None:
        fields["inner"] = _inner_fields(flow.inner)
    return {
        **fields,
        "forward": _prediction_fields(each.forward),
        "reverse": _prediction_fields(each.reverse),
    }


def _inner_fields(flow: Flow) -> JsonObject:
    return {
        "source": format_end(flow.source, None, flow.source_port),
        "destination": format_end(flow.destination, None, flow.destination_port),
    }


def _prediction_fields(prediction: Prediction) -> JsonObject:
    fields: JsonObject = {
        "uplink": prediction.uplink,
        "ambiguous": prediction.is_ambiguous,
        "candidates": list(prediction.candidates),
    }
    if prediction.depends_on is not None:
        fields["depends_on"] = prediction.depends_on
    if prediction.assumption is not None:
        fields["assumption"] = prediction.assumption
    if prediction.spread != "one":
        fields["spread"] = prediction.spread
    return fields


def _list_flows(predictions: Iterable[Prediction]) -> defaultdict[int, list[int]]:
    """Return the indices of the flows of each uplink."""
    flows: defaultdict[int, list[int]] = defaultdict(list)
    for i, each in enumerate(predictions):
        if each.uplink is not None:
            flows[each.uplink].append(i)
    return flows


def _uplink_fields(load: UplinkLoad, flows: list[int]) -> JsonObject:
    return {
        "flows": flows,
        "certain_flows": load.certain_flows,
        "expected_flows": load.expected_flows,
    }


def _load_fields(load: TeamLoad) -> JsonObject:
    return {
        "uplinks_used": [load.least_used, load.most_used],
        "sum_bps": load.sum_bps,
        "most_bps": None if load.most_bps is None else [load.least_bps, load.most_bps],
        "equal_flows_bps": load.equal_flows_bps,
        "uplinks_used_by_formula": list(load.used_by_formula),
    }


def _expectation_fields(expectation: Expectation) -> JsonObject:
    return {
        "flows": expectation.flows,
        "mean_uplinks_used": expectation.mean_used,
        "uplinks_used_probabilities": list(expectation.used_probabilities),
        "mean_busiest_share": expectation.mean_busiest_share,
        "busiest_share_90": expectation.busiest_share_90,
        "mean_total_bps": expectation.mean_total_bps,
        "exact": expectation.is_exact,
    }


def _advice_fields(advice: Advice) -> JsonObject:
    return {
        "sentences": list(advice.sentences),
        "changes": [
            {
                "flow": change.index,
                "field": change.field,
                "before": change.before,
                "after": change.after,
                "uplink": change.uplink,
            }
            for change in advice.changes
        ],
    }
