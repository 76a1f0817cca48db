"""What the bench reads from an agent's replies and from its `trial.end`, as models (docs/protocol.md).

An agent runs on a machine that may be hostile or broken. Each message is checked here once, when it arrives,
so that the rest of the bench can index it. The models name only what the bench reads. Other keys pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

MAX_CPU_NUMBER = 4095
"""Highest CPU number in a list, as in a study."""
MAX_LIST_LENGTH = 1024
"""Most streams, threads, watched parts and interfaces of one agent ("Limits" in docs/protocol.md)."""
MAX_ARRIVAL_GAPS, MAX_ARRIVAL_INTERVALS = 64, 8192
"""Most gaps, and most intervals with a count of arrivals, of one stream (`arrivals`)."""
_MAX_REASON_CHARACTERS = 200

Count = Annotated[int, Field(ge=0, le=2**64)]
NonNegativeNumber = Annotated[float, Field(ge=0, le=2**64, allow_inf_nan=False)]
PortNumber = Annotated[int, Field(ge=0, lt=2**32)]
"""Ports of VSOCK have 32 bits."""
Scalar = bool | int | float | str | None


class InvalidMessage(ValueError):
    """A message that does not follow the protocol. The text says which part, as a phrase."""


def _check_cpu_list(text: str) -> str:
    """Return a list of CPUs; raises ValueError if the bench cannot read it."""
    for part in text.split(",") if text.strip() else ():
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high <= MAX_CPU_NUMBER:
            raise ValueError("is no list of CPUs")
    return text


def _check_interrupt_cpus(text: str | None) -> str | None:
    for part in (text or "").split(";") if text != "spread" else ():
        _check_cpu_list(part)
    return text


CpuList = Annotated[str, Field(max_length=4096), AfterValidator(_check_cpu_list)]
InterruptCpus = Annotated[str | None, AfterValidator(_check_interrupt_cpus)]
"""CPU lists of several interrupts or threads, separated by semicolons, or `spread`."""


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _Hello(_Message):
    protocol: int
    pid: Annotated[int, Field(gt=0)]


class _KernelFacts(_Message):
    release: str


class _CpuFacts(_Message):
    model: str | None = None
    count: Count | None = None


class _TcpFacts(_Message):
    available_congestion_control: list[str] | None = None


class _SocketBufferFacts(_Message):
    rmem_max: Count | None = None
    wmem_max: Count | None = None


class _CycleFacts(_Message):
    system_cycles: Literal["hardware", "estimated"] | None = None
    reason: str | None = None


class _InterfaceFacts(_Message):
    name: str
    mac: str | None
    adapter: str | None = None
    driver: str | None = None
    driver_version: str | None = None


class _Facts(_Message):
    kernel: _KernelFacts
    kernel_id: str | None = None
    cpu: _CpuFacts | None = None
    memory_bytes: Count | None = None
    tcp: _TcpFacts | None = None
    socket_buffers: _SocketBufferFacts | None = None
    perf: _CycleFacts | None = None
    hypervisor: str | None = None
    interfaces: list[_InterfaceFacts]


class _KnobValues(BaseModel):
    """Values of knobs: each knob is a scalar, and the bench calculates with these."""

    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, Scalar]
    # Each interface has an MTU, and each agent CPUs: these two are absent if not requested, but never null.
    mtu: Annotated[int, Field(gt=0, lt=2**32)] = 0
    cpus: CpuList = ""
    rps_cpus: CpuList | None = None
    irq_cpus: InterruptCpus = None
    napi_cpus: InterruptCpus = None


class _Knobs(_Message):
    values: _KnobValues


class _SetKnob(_Message):
    effective: Scalar


class _Path(_Message):
    path: str
    port: PortNumber


class _PathProbe(_Message):
    forward: bool
    reverse: bool
    reason: str
    rtt_us: NonNegativeNumber | None = None


class _ServerProbe(_Message):
    version: str | None
    system: str | None


class _ReportedImpairments(_Message):
    delay_us: NonNegativeNumber
    jitter_us: NonNegativeNumber
    loss: NonNegativeNumber
    reorder: NonNegativeNumber


class _DelayLineCounts(_Message):
    cpu_s: NonNegativeNumber
    elapsed_s: NonNegativeNumber
    queue_drops: Count
    port_drops: Count
    lateness_p50_us: NonNegativeNumber | None


class _DelayLineDirection(_Message):
    requested: _ReportedImpairments
    tid: Count
    cpus: CpuList
    has_priority: bool
    counts: _DelayLineCounts


class _DelayLine(_Message):
    line: str
    forward: _DelayLineDirection
    reverse: _DelayLineDirection


class _Started(_Message):
    started_monotonic_ns: Count | None = None


class _Listener(_Message):
    port: PortNumber


class _SocketOptions(_Message):
    """Effective options of a stream's socket."""

    __pydantic_extra__: dict[str, Scalar]
    id: Count
    send_buffer_bytes: Count | None = None
    receive_buffer_bytes: Count | None = None
    local_port: PortNumber | None = None
    remote_port: PortNumber | None = None


class _ChosenFrameBackends(_Message):
    generator: str | None = None
    sink: str | None = None
    reason: str | None = None


class _Ready(_Message):
    streams: Annotated[list[_SocketOptions], Field(max_length=MAX_LIST_LENGTH)]
    thread_cpus: Annotated[list[CpuList], Field(max_length=MAX_LIST_LENGTH)]
    frames: _ChosenFrameBackends = _ChosenFrameBackends()


class _ZeroCopyCounts(_Message):
    in_place: Count
    copied: Count
    uncompleted: Count


class _ArrivalGap(_Message):
    length_ns: Count
    started_monotonic_ns: Count
    number_before: Count
    number_after: Count
    sent_apart_ns: Count


class _ArrivalCounts(_Message):
    started_monotonic_ns: Count
    interval_ns: Annotated[int, Field(gt=0, le=2**64)]
    datagrams: Annotated[list[Count], Field(max_length=MAX_ARRIVAL_INTERVALS)]


class _Arrivals(_Message):
    gaps: Annotated[list[_ArrivalGap], Field(max_length=MAX_ARRIVAL_GAPS)]
    counts: _ArrivalCounts
    last_monotonic_ns: Count
    clock_step_ns: Count
    clock_error_ns: Count


class _StreamTotals(_Message):
    id: Count
    role: Literal["source", "sink"]
    part: str | None = None
    transport: str | None = None
    zero_copy: _ZeroCopyCounts | None = None
    datagrams: Count | None = None
    duplicates: Count = 0
    # A datagram that was counted as lost may arrive later.
    lost: int = 0
    socket_drops: Count = 0
    foreign_datagrams: Count = 0
    frames_sent: Count = 0
    frames_received: Count = 0
    frames_rejected: Count = Field(0, alias="rejected")
    out_of_order: Count = 0
    arrivals: _Arrivals | None = None

    @model_validator(mode="after")
    def _check_datagrams(self) -> _StreamTotals:
        """Check that counts which the bench calculates with come together."""
        present = self.model_fields_set
        needed = {"datagrams", "duplicates", "lost"} if self.role == "sink" else {"datagrams"}
        if present & {"datagrams", "socket_drops"} and (not needed <= present or self.datagrams is None):
            raise ValueError(f"has not all of {', '.join(sorted(needed))}")
        return self


class _Pacing(_Message):
    due: Count = 0
    sent: Count = 0
    lateness_p99_us: NonNegativeNumber | None = None


class _InstrumentTotals(_Message):
    sampler_cpu_s: NonNegativeNumber = 0.0
    sampler_lateness_max_s: NonNegativeNumber = 0.0
    events_lost: Count = 0
    pacing: _Pacing | None = None


class _WatchedThreadOrInterface(_Message):
    name: str
    is_gone: bool = False


class _ForeignFrames(_Message):
    from_other_senders: Count = Field(alias="other_senders")
    own_returned: Count
    from_other_trials: Count = Field(alias="other_trial")
    example: str | None = None


class _ServerStream(_Message):
    id: Count
    role: Literal["source", "sink"]
    bytes: Count


class _ServerTotals(_Message):
    streams: Annotated[list[_ServerStream], Field(max_length=MAX_LIST_LENGTH)]
    congestion_control: str | None = None


class _TrialEnd(_Message):
    reason: str = "done"
    fault: str = ""
    fault_kind: str | None = None
    bytes_sent: Count = 0
    bytes_received: Count = 0
    drained: bool = True
    unanswered: Count | None = None
    foreign_connections: Count = 0
    foreign_frames: _ForeignFrames | None = None
    sink_dropped: Count = 0
    instrument: _InstrumentTotals = _InstrumentTotals()
    streams: Annotated[list[_StreamTotals], Field(max_length=MAX_LIST_LENGTH)] = []
    threads: Annotated[list[_WatchedThreadOrInterface], Field(max_length=MAX_LIST_LENGTH)] = []
    interfaces: Annotated[list[_WatchedThreadOrInterface], Field(max_length=MAX_LIST_LENGTH)] = []
    server: _ServerTotals | None = None


_REPLY_MODEL_BY_METHOD: Mapping[str, type[BaseModel]] = {
    "agent.hello": _Hello,
    "agent.facts": _Facts,
    "knob.get": _Knobs,
    "knob.set": _SetKnob,
    "path.listen": _Path,
    "path.probe": _PathProbe,
    "iperf3.probe": _ServerProbe,
    "delay_line.start": _DelayLine,
    "delay_line.set": _DelayLine,
    "delay_line.read": _DelayLine,
    "trial.prepare": _Ready,
    "trial.ready": _Ready,
    "trial.start": _Started,
}
"""The replies that the bench reads. It reads nothing of the others."""


def check_reply(method: str, params: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
    """Raise InvalidMessage if a reply lacks what the bench reads, or has it in another form.

    Args:
        method: The method of the request.
        params: Its parameters.
        reply: The reply's result.
    """
    model = _REPLY_MODEL_BY_METHOD.get(method)
    if method == "trial.prepare" and params.get("listen") is not None:
        model = _Listener
    _check_reply_is_valid_json(reply)
    if model is not None:
        _check_model(model, reply)
    if method == "knob.get" and (missing := set(params.get("knobs") or ()) - set(reply["values"])):
        raise InvalidMessage(f"values.{min(missing)} is missing")


def check_trial_end(params: Mapping[str, Any]) -> None:
    """Raise InvalidMessage if the parameters of a `trial.end` have another form than the bench reads."""
    _check_model(_TrialEnd, params)


def _check_reply_is_valid_json(reply: Mapping[str, Any]) -> None:
    """Raise InvalidMessage for numbers and texts that JSON and Unicode do not have: they cannot be stored."""
    try:
        json.dumps(reply, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise InvalidMessage("it has a value that is no JSON") from None


def _check_model(model: type[BaseModel], message: Mapping[str, Any]) -> None:
    try:
        model.model_validate(message)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise InvalidMessage(f"{where}: {first['msg']}"[:_MAX_REASON_CHARACTERS]) from None
