"""The factor of docs/how-to/extend/add-a-factor.md: whether sockets acknowledge data at once."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import DoctorTreatment, Factor

QUICK_ACK = Factor(
    name="quick_ack",
    value_type=value_types.on_off(),
    unit="",
    default="off",
    description="Whether receivers acknowledge data at once (TCP_QUICKACK) instead of delaying the ACK.",
    examples=('["on", "off"]', '"on"'),
    workloads=("tcp_stream", "tcp_rr"),
    label="Quick ACK",
    phrase_template="quick ACK {}",
    doctor_treatments=(DoctorTreatment("quick_ack on", {"quick_ack": "on"}),),
    agent_parameter="quick_ack",
)
