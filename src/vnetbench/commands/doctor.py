"""The command `doctor`: test what this machine can measure, and report what is missing and the fix."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from rich.console import Console

from vnetbench.agents.binary import agent_binary_path
from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.agents.launch import start_observer
from vnetbench.campaign.instrument import CompletedTrial, Instrument, LabInstrument
from vnetbench.campaign.iperf3_instrument import Iperf3Instrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.commands import guest_setup
from vnetbench.commands.doctor_check import GOOD, LIMITED, MISSING, Check, print_check
from vnetbench.errors import BenchError
from vnetbench.estimate.trial_metrics import trial_metrics
from vnetbench.lab import privilege
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.links import delay_line, netem
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.quantity import format_bit_rate, format_bytes, format_exact_bytes
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.factor import DoctorTreatment
from vnetbench.study.factors.load_factors import CONGESTION_CONTROL, DIRECTION, SOCKET_BUFFER
from vnetbench.study.factors.registry import FACTORS, complete_levels
from vnetbench.study.factors.testbed_factors import VSWITCH
from vnetbench.study.file.host_value_types import iperf3_servers
from vnetbench.study.labs import HOSTS, IPERF3_BACKEND
from vnetbench.study.model import ExistingEndpointSpec, TestbedSpec
from vnetbench.study.workloads import FRAMES, TCP_STREAM, UDP_STREAM

DOCTOR_TRIAL_DURATION_S = 0.3
VSOCK_PREPARE_TIMEOUT_S = 0.5
VSOCK_LOOPBACK_CID = 1
"""VMADDR_CID_LOCAL (vsock(7))."""
REQUIRED_CHECKS = ("agent", f"{VSWITCH.name} bridge")
"""Checks that must pass for a campaign to run."""
REQUIRED_SERVER_CHECK = f"{DIRECTION.name} forward"
WANTED_CONGESTION_CONTROLS = ("cubic", "bbr", "reno")

DEFAULT_LEVEL_TREATMENTS = (
    DoctorTreatment(REQUIRED_CHECKS[1], {}),
    DoctorTreatment(UDP_STREAM, {}, UDP_STREAM),
)
"""A treatment of default levels for each workload; each factor adds its own (`Factor.doctor_treatments`)."""
_IMPAIRMENT_TEXTS = {
    netem.BACKEND_NAME: "the kernel's netem",
    delay_line.BACKEND_NAME: "the bench's delay line",
}
"""Text for each value of `link_impairment_backend` in a trial's `effective`."""
MIN_SOCKET_BUFFER_BYTES = 1 << 20
"""Smaller socket buffers overflow within a millisecond at a million datagrams a second."""


def check_machine(console: Console) -> int:
    """Run all checks and print a line for each; return 0 if a campaign can run here, else 1."""
    try:
        agent_binary_path()
        privilege.acquire_network_rights()
    except BenchError as error:
        print_check(console, Check("a campaign", MISSING, error.what, error.fix or ""))
        return 1
    is_usable = True
    for check in _run_machine_checks():
        print_check(console, check)
        is_usable = is_usable and not (check.name in REQUIRED_CHECKS and check.state == MISSING)
    return 0 if is_usable else 1


def _run_machine_checks() -> Iterator[Check]:
    if privilege.is_in_user_namespace():
        yield Check("privilege", LIMITED, privilege.USER_NAMESPACE_LIMITS, "run with sudo")
    else:
        yield Check("privilege", GOOD, "root")
    try:
        observer = start_observer("doctor")
        facts = observer.call("agent.facts")
        vsock = _check_vsock_loopback(observer)
        observer.close()
    except (AgentError, BenchError) as error:
        yield Check("agent", MISSING, str(error), "make install")
        return
    yield from _check_kernel_and_hardware(facts)
    yield vsock
    yield from map(_check_treatment, list_doctor_treatments())
    yield _check_frame_generation()
    yield from guest_setup.run_guest_checks()


def list_doctor_treatments() -> Iterator[DoctorTreatment]:
    """Yield the treatments to try: for each workload its default levels, then those of the factors."""
    for base in DEFAULT_LEVEL_TREATMENTS:
        yield base
        for factor in FACTORS.values():
            yield from (check for check in factor.doctor_treatments if check.workload == base.workload)


def _check_vsock_loopback(agent: AgentClient) -> Check:
    """Connect a stream over the VSOCK loopback, which no lab of namespaces uses."""
    common = {"workload": "tcp_stream", "secret": secrets.token_hex(16), "timeout_s": VSOCK_PREPARE_TIMEOUT_S}

    def prepare(trial: str, role: str, **transport: object) -> dict[str, Any]:
        streams = [{"id": 0, "role": role}]
        request = agent.send("trial.prepare", trial=trial, streams=streams, **common, **transport)
        return agent.wait(request, "trial.prepare")

    try:
        port = prepare("sink", "sink", listen={"vsock": {}})["port"]
        prepare("source", "source", connect={"vsock": {"cid": VSOCK_LOOPBACK_CID, "port": port}})
    except AgentError as error:
        fix = "modprobe vsock_loopback (not needed between a VM and its host)"
        return Check("VSOCK loopback", LIMITED, error.message, fix)
    finally:
        for trial in ("sink", "source"):
            agent.send("trial.stop", trial=trial)
    return Check("VSOCK loopback", GOOD, "connected")


def _check_kernel_and_hardware(facts: Mapping[str, Any]) -> Iterator[Check]:
    cpu = facts.get("cpu") or {}
    yield Check(
        "kernel", GOOD, f"Linux {facts['kernel']['release']} on {cpu.get('model') or 'an unknown CPU'}"
    )
    count = int(cpu.get("count") or 0)
    yield Check(
        "CPUs", GOOD if count >= 2 else LIMITED, str(count),
        "" if count >= 2 else "the endpoints share this machine's only CPU. Add CPUs to this machine",
    )  # fmt: skip
    perf = facts.get("perf") or {}
    hardware = perf.get("system_cycles") == "hardware"
    yield Check(
        "cycles per byte", GOOD if hardware else LIMITED,
        "measured with hardware counters" if hardware
        else f"estimated from CPU time and clock rate: {perf.get('reason') or 'no hardware counters'}",
        "",
    )  # fmt: skip
    available = set((facts.get("tcp") or {}).get("available_congestion_control") or ())
    lacking = [name for name in WANTED_CONGESTION_CONTROLS if name not in available]
    yield Check(
        CONGESTION_CONTROL.name, GOOD if not lacking else LIMITED, " ".join(sorted(available)) or "unknown",
        "; ".join(f"modprobe tcp_{name}" for name in lacking),
    )  # fmt: skip
    buffers = facts.get("socket_buffers") or {}
    for name in ("rmem_max", "wmem_max"):
        if most := buffers.get(name):
            yield Check(
                name,
                GOOD if most >= MIN_SOCKET_BUFFER_BYTES else LIMITED,
                f"{SOCKET_BUFFER.name} up to {format_exact_bytes(most)}",
                ""
                if most >= MIN_SOCKET_BUFFER_BYTES
                else f"sysctl -w net.core.{name}={MIN_SOCKET_BUFFER_BYTES} (or more)",
            )
    yield Check("memory", GOOD, format_bytes(int(facts.get("memory_bytes") or 0)))


def check_server(console: Console, server: str) -> int:
    """Check an iperf3 server and print a line for each check; return 0 if it is usable, else 1."""
    host = ExistingEndpointSpec("server", iperf3_server=str(iperf3_servers().parse(server)))
    is_usable = False
    with closing(Iperf3Instrument(TestbedSpec(lab=HOSTS, existing_endpoints=(host,)))) as instrument:
        for check in _run_server_checks(instrument):
            print_check(console, check)
            is_usable = is_usable or (check.state == GOOD and check.name == REQUIRED_SERVER_CHECK)
    return 0 if is_usable else 1


def _run_server_checks(instrument: Iperf3Instrument) -> Iterator[Check]:
    try:
        server_facts = instrument.contact_server()
    except BenchError as error:
        yield Check("iperf3 server", MISSING, error.what, error.fix or "")
        return
    if version := server_facts["version"]:
        yield Check("iperf3 server", GOOD, f"{version} on {server_facts['system'] or 'an unknown system'}")
    else:
        fix = "start the server with --json to record its version in the results"
        yield Check("iperf3 server", LIMITED, "the server answers, but does not report its version", fix)
    for direction in ("forward", "reverse", "both"):
        load = TrialLoad(
            complete_levels({DIRECTION.name: direction}, TCP_STREAM, IPERF3_BACKEND),
            DOCTOR_TRIAL_DURATION_S,
            DOCTOR_TRIAL_DURATION_S / 2,
        )
        yield _check_short_load_runs(f"{DIRECTION.name} {direction}", instrument, load)


def _check_treatment(treatment: DoctorTreatment) -> Check:
    """Apply a treatment to a new testbed and run a short load."""
    testbed_spec = TestbedSpec(shaper=treatment.shaper)
    levels = complete_levels(treatment.levels, treatment.workload)
    load = TrialLoad(levels, DOCTOR_TRIAL_DURATION_S, DOCTOR_TRIAL_DURATION_S / 2, treatment.workload)
    with closing(LabInstrument(NetnsLab(testbed_spec, "doctor"), testbed_spec)) as instrument:
        return _check_short_load_runs(treatment.name, instrument, load)


def _check_frame_generation() -> Check:
    """Send frames for a short time, and report how this machine generates and counts them."""
    testbed_spec = TestbedSpec()
    load = TrialLoad(
        complete_levels({}, FRAMES), DOCTOR_TRIAL_DURATION_S, DOCTOR_TRIAL_DURATION_S / 2, FRAMES
    )
    with closing(LabInstrument(NetnsLab(testbed_spec, "doctor"), testbed_spec)) as instrument:
        trial = _run_short_load(FRAMES, instrument, load)
    if isinstance(trial, Check):
        return trial
    backends = trial.measurement.effective
    text = f"generated by {backends['generator']}, counted by {backends['sink']}"
    if why := backends.get("fallback_reason"):
        each = dict.fromkeys(why.values()) if isinstance(why, Mapping) else [str(why)]
        return Check(
            FRAMES, LIMITED, text, f"remove what prevents the faster generator or counter: {'; '.join(each)}"
        )
    return Check(FRAMES, GOOD, text)


def _run_short_load(check_name: str, instrument: Instrument, load: TrialLoad) -> CompletedTrial | Check:
    """Run a short load; return its measurement, or the failed check."""
    try:
        return instrument.measure(load, lambda: False)
    except BenchError as error:
        return Check(check_name, MISSING, error.what, error.fix or "")
    except TrialFailed as error:
        return Check(check_name, MISSING, str(error))


def _check_short_load_runs(check_name: str, instrument: Instrument, load: TrialLoad) -> Check:
    done = _run_short_load(check_name, instrument, load)
    if isinstance(done, Check):
        return done
    trial = TrialRecord(
        0, 0, done.testbed_shape, 0.0, DOCTOR_TRIAL_DURATION_S, done.setup_s, {}, done.measurement.endpoints
    )
    try:
        goodput_bps = trial_metrics(trial, 0)["goodput_bps"]
    except ValueError:
        return Check(
            check_name, LIMITED, "the load ran, but no sample was taken", "try again when the machine is idle"
        )
    by = done.measurement.effective.get("link_impairment_backend", "none")
    impairment = "" if by == "none" else f", impaired by {_IMPAIRMENT_TEXTS[str(by)]}"
    return Check(check_name, GOOD, f"measured {format_bit_rate(goodput_bps)}{impairment}")
