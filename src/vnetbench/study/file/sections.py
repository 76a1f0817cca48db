"""All sections of a study file and their keys, with descriptions, value types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from vnetbench.published.catalog import TABLE_NAMES
from vnetbench.study.factors import list_types, value_types
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.file import host_value_types
from vnetbench.study.file.keys import KeyFormat, StudySection
from vnetbench.study.file.team_section import TeamSection
from vnetbench.study.labs import IMPORTED_LAB, LABS
from vnetbench.study.model import (
    ALL_COMBINATIONS,
    ONE_AT_A_TIME,
    ExistingEndpointSpec,
    FpsOrGeneratorMaximum,
    Precision,
    SearchSpec,
    SecondsOrChosenByBench,
    TestbedSpec,
    Timing,
)
from vnetbench.study.workloads import MAX_LOSS_GOALS, TCP_STREAM, WORKLOADS

HEAD_OF_FILE = ""
"""Name of the section without a heading, at the head of the file."""

_TESTBED, _HOST = TestbedSpec(), ExistingEndpointSpec("")
_TIMING, _SEARCH, _PRECISION = Timing(), SearchSpec(), Precision()


class HeadSection(StudySection):
    """Keys at the head of the file, before the first heading."""

    heading = HEAD_OF_FILE

    title: Annotated[str, KeyFormat(value_types.texts(120), '"Jumbo frames"')] = Field(
        description="Title of the study, one line."
    )
    question: Annotated[str, KeyFormat(value_types.texts(2000), '"Do jumbo frames make TCP faster?"')] = (
        Field("", description="Question that the study answers. The report shows the answer below it.")
    )
    workload: Annotated[str, KeyFormat(value_types.keywords(*WORKLOADS), '"tcp_stream"')] = Field(
        TCP_STREAM,
        description="Type of load. "
        + " ".join(f"`{each.name}`: {each.description}." for each in WORKLOADS.values()),
    )
    combine: Annotated[
        str, KeyFormat(value_types.keywords(ALL_COMBINATIONS, ONE_AT_A_TIME), '"one-at-a-time"')
    ] = Field(
        ALL_COMBINATIONS,
        description="How the levels make treatments. `all`: every combination. `one-at-a-time`: the base, "
        "which is the first level of every factor; the base with one factor changed, for every "
        "other level; and the treatments of `[[together]]`. The results compare each treatment "
        "with the base.",
    )
    published: Annotated[
        str | None,
        KeyFormat(value_types.keywords("none", *TABLE_NAMES), '"packet-forwarding-2011"', none_word="none"),
    ] = Field(None, description="Published measurement to compare the results with, for equal treatments.")


class TestbedSection(StudySection):
    """The testbed, except for the factors that vary it."""

    heading = "testbed"

    lab: Annotated[str, KeyFormat(value_types.keywords(*LABS, IMPORTED_LAB), '"netns"')] = Field(
        _TESTBED.lab,
        description="Lab that provides the testbed. `netns`: network namespaces as VMs. `qemu`: guests with "
        "real adapter drivers. `hosts`: existing machines, one `[[testbed.host]]` each. `libvirt`: the "
        "same, and the bench also changes the hardware of VMs that libvirt runs. `vsphere`: the same for VMs "
        "of vCenter or an ESXi host. "
        "`imported`: no lab; `vnetbench import` writes this value, for results from the logs of "
        "other tools.",
    )
    uplink: Annotated[bool, KeyFormat(value_types.booleans(), "true")] = Field(
        _TESTBED.uplink,
        description="`true`: two vSwitches joined by an uplink, with one VM of each pair on each. `false`: "
        "one vSwitch for all VMs.",
    )
    shaper: Annotated[str, KeyFormat(value_types.keywords("tbf", "htb"), '"htb"')] = Field(
        _TESTBED.shaper, description="Queueing discipline that implements `link_rate`."
    )
    vswitch_mtu: Annotated[int | None, KeyFormat(value_types.integers(576, 65535, unit="B"), "9000")] = Field(
        _TESTBED.vswitch_mtu,
        description="Fixed MTU in bytes of every port of the vSwitch. Without it, the ports use the factor "
        "`mtu`.",
    )
    vf_interface: Annotated[str | None, KeyFormat(host_value_types.interface_names(), '"ens1f0"')] = Field(
        _TESTBED.vf_interface,
        description="Lab `qemu`: the adapter of this machine whose virtual functions (SR-IOV, bound to vfio) "
        'become the adapters of guests with `adapter = "vf"`.',
    )
    connection: Annotated[
        str | None, KeyFormat(host_value_types.hypervisor_connections(), '"qemu:///system"')
    ] = Field(
        _TESTBED.connection,
        description="Lab `libvirt`: URI of the libvirt that runs the VMs, such as `qemu:///system` or "
        "`qemu+ssh://root@kvm-01/system`. Lab `vsphere`: address of vCenter or of an ESXi host, such as "
        "`vsphere://bench@vsphere.local@vc-01/`. It holds no password.",
    )
    load_destination_ports: Annotated[
        str | None, KeyFormat(host_value_types.port_ranges(), '"5300-5399"'), Field(alias="ports")
    ] = Field(
        _TESTBED.load_destination_ports,
        description="Labs `hosts`, `libvirt` and `vsphere`: TCP and UDP ports on which the second host of a "
        "pair receives load, so that you can open them in firewalls. Without it, any port.",
    )
    audit: Annotated[bool, KeyFormat(value_types.booleans(), "false")] = Field(
        _TESTBED.audit,
        description="Labs `hosts` and `qemu`: `true` audits the settings of the endpoints before the first "
        "trial and stores them in the results file. `false`, or `vnetbench run --no-audit`, leaves that out.",
    )


class HostSection(StudySection):
    """A machine of the lab `hosts`, `libvirt` or `vsphere`, with one such heading each.

    Hosts with `ssh` or `local` form pairs in the order of the file; the first of a pair sends in the
    direction forward. Or one host only has an `iperf3` server, and the other endpoint of every stream is the
    machine that the bench runs on.
    """

    heading = "testbed.host"

    name: Annotated[str, KeyFormat(host_value_types.host_names(), '"web-01"')] = Field(
        description="Name of the host in the results."
    )
    ssh_destination: Annotated[
        str | None, KeyFormat(host_value_types.ssh_destinations(), '"root@web-01"'), Field(alias="ssh")
    ] = Field(
        _HOST.ssh_destination,
        description="SSH destination of the host. The bench uses your OpenSSH client with its configuration, "
        "keys, agent and known hosts. It copies its agent to the host and removes it after the "
        "campaign. To set knobs, the agent needs root on the host.",
    )
    iperf3_server: Annotated[
        str | None, KeyFormat(host_value_types.iperf3_servers(), '"192.0.2.7:5201"'), Field(alias="iperf3")
    ] = Field(
        _HOST.iperf3_server,
        description="Address of the host's iperf3 server. The bench copies nothing to this machine.",
    )
    is_bench_machine: Annotated[bool, KeyFormat(value_types.booleans(), "true"), Field(alias="local")] = (
        Field(
            _HOST.is_bench_machine,
            description="`true`: the host is the machine that the bench runs on. With an iperf3 server you "
            "can leave out this host, whose name is then `here`.",
        )
    )
    interface: Annotated[str | None, KeyFormat(host_value_types.interface_names(), '"ens192"')] = Field(
        _HOST.interface,
        description="Interface of the load. Without it, the system's routes decide. With frame workloads, two"
        " hosts can be two interfaces of one machine, with the device under test between them.",
    )
    address: Annotated[str | None, KeyFormat(host_value_types.ip_addresses(), '"192.0.2.1"')] = Field(
        _HOST.address,
        description="The host's own address for the load. Without it, the bench uses the address of the "
        "interface, or the one that the system's routes choose. Frames between two interfaces of "
        "one machine need no address: they use 198.18.0.0/15.",
    )
    next_hop_mac: Annotated[
        str | None,
        KeyFormat(host_value_types.mac_addresses(), '"52:54:00:12:34:56"'),
        Field(alias="next_hop"),
    ] = Field(
        _HOST.next_hop_mac,
        description="Destination MAC address of the host's frames. Without it, the address of the pair's "
        "other interface, as a bridge needs it. For a router under test, write the router's own "
        "address on this link.",
    )
    domain: Annotated[str | None, KeyFormat(host_value_types.vm_names(), '"web-01"')] = Field(
        _HOST.domain,
        description="Labs `libvirt` and `vsphere`: name of the host's VM at the hypervisor. The bench "
        "changes its hardware, restarts it where that is necessary, and restores it. Without it, only "
        "settings inside the host change.",
    )
    adapter_mac: Annotated[str | None, KeyFormat(host_value_types.mac_addresses(), '"52:54:00:12:34:56"')] = (
        Field(
            _HOST.adapter_mac,
            description="Labs `libvirt` and `vsphere`: MAC address of the VM's adapter that carries the "
            "load. A VM with one adapter needs none.",
        )
    )


class TimingSection(StudySection):
    """Length and sampling of a trial."""

    heading = "timing"

    duration_s: Annotated[
        SecondsOrChosenByBench,
        KeyFormat(value_types.durations(0.1, 86400, "auto"), '"10 s"', none_word="auto"),
        Field(alias="duration"),
    ] = Field(
        _TIMING.duration_s,
        description="Length of a trial, including the warm-up but not the idle phase of `mixed`. `auto`: the "
        "bench chooses it for each treatment from its first trials.",
    )
    warmup_s: Annotated[
        float | None,
        KeyFormat(value_types.durations(0, 86400, "auto"), '"5 s"', none_word="auto"),
        Field(alias="warmup"),
    ] = Field(
        _TIMING.warmup_s,
        description="Time at the start of every trial that the estimates leave out. `auto`: the bench "
        "detects it in the trial's samples; none with `soak`.",
    )
    interval_s: Annotated[
        float, KeyFormat(value_types.durations(0.01, 60), '"100 ms"'), Field(alias="interval")
    ] = Field(_TIMING.interval_s, description="Time between two samples of a trial.")
    idle_phase_s: Annotated[
        SecondsOrChosenByBench,
        KeyFormat(value_types.durations(0.05, 60, "auto"), '"2 s"', none_word="auto"),
        Field(alias="idle"),
    ] = Field(
        _TIMING.idle_phase_s,
        description="Workload `mixed`: time with requests only at the start of every trial. `auto`: the time "
        "of a thousand requests at the `rate`, from 0.5 s to 5 s.",
    )


class SearchSection(StudySection):
    """How each trial of a frame workload searches for the throughput.

    A search is a series of steps with a constant load each. The last step runs at the throughput; its
    counters and latencies are those of the trial. `frames` searches only if the study has this section.
    `frame_loss` and `back_to_back` always run a series of steps. `frame_latency` and `soak` start with a
    search if their load is a share of the throughput.
    """

    heading = "search"

    method: Annotated[
        str, KeyFormat(value_types.keywords("vnetbench", "rfc2544", "mlrsearch"), '"rfc2544"')
    ] = Field(
        _SEARCH.method,
        description="Search method. `vnetbench`: a model of loss against load chooses the most informative "
        "step. `rfc2544`: binary search (RFC 2544, 26.1). `mlrsearch`: FD.io's library, if it is "
        "installed.",
    )
    loss_goals: Annotated[
        str,
        KeyFormat(list_types.loss_goals(MAX_LOSS_GOALS), '["0 %", "0.01 %", "0.5 %"]'),
        Field(alias="loss"),
    ] = Field(
        _SEARCH.loss_goals,
        description="Loss goals: accepted frame loss ratios. The search finds a throughput for each "
        "goal. The metric `throughput_fps` is the throughput for the first goal.",
    )
    relative_width: Annotated[
        float, KeyFormat(value_types.percentages(0.0001, 0.5), '"1 %"'), Field(alias="width")
    ] = Field(
        _SEARCH.relative_width,
        description="Each search ends when its interval for the throughput is this narrow (share of it).",
    )
    step_s: Annotated[float, KeyFormat(value_types.durations(0.01, 3600), '"1 s"'), Field(alias="trial")] = (
        Field(_SEARCH.step_s, description="Length of a full step, which RFC 2544 calls a trial.")
    )
    residual_frames_wait_s: Annotated[
        float, KeyFormat(value_types.durations(0.001, 4), '"100 ms"'), Field(alias="settle")
    ] = Field(
        _SEARCH.residual_frames_wait_s,
        description="A step ends when no frame has arrived for this long after its load stops.",
    )
    max_load_fps: Annotated[
        FpsOrGeneratorMaximum,
        KeyFormat(value_types.frame_rates(1, 10**9, "auto"), '"2 Mframe/s"', none_word="auto"),
        Field(alias="max_load"),
    ] = Field(
        _SEARCH.max_load_fps,
        description="Largest load of each direction. `auto`: as fast as the generator can send.",
    )
    min_load_fps: Annotated[
        float, KeyFormat(value_types.frame_rates(1, 10**9), '"100 frame/s"'), Field(alias="min_load")
    ] = Field(
        _SEARCH.min_load_fps,
        description="Smallest load of each direction. A device that loses too many frames at it has no "
        "throughput.",
    )
    confidence: Annotated[float, KeyFormat(value_types.percentages(0.5, 0.9999), '"99 %"')] = Field(
        _SEARCH.confidence, description="Confidence that the throughput is within its interval."
    )
    time_limit_s: Annotated[
        SecondsOrChosenByBench,
        KeyFormat(value_types.durations(1, 36_000_000, "auto"), '"2 min"', none_word="auto"),
        Field(alias="time_limit"),
    ] = Field(
        _SEARCH.time_limit_s,
        description="Limit of all steps of one search. `auto`: 10 min, or less if otherwise "
        "`precision.time_limit` does not suffice for `min_trials` of every treatment.",
    )


class PrecisionSection(StudySection):
    """When the bench stops repeating a treatment.

    It stops when the confidence interval of the deciding metric is narrow enough, after the maximum number
    of trials, or at the time limit. The result states which.
    """

    heading = "precision"

    metric: Annotated[
        str | None,
        KeyFormat(
            value_types.keywords(
                "auto",
                *dict.fromkeys(metric for each in WORKLOADS.values() for metric in each.deciding_metrics),
            ),
            '"goodput_bps"',
            none_word="auto",
        ),
    ] = Field(
        _PRECISION.metric,
        description="Deciding metric. `auto`: the main metric of the workload. "
        + " ".join(f"`{each.name}`: {each.deciding_description}." for each in WORKLOADS.values()),
    )
    confidence: Annotated[float, KeyFormat(value_types.percentages(0.5, 0.9999), '"99 %"')] = Field(
        _PRECISION.confidence, description="Confidence level of every interval."
    )
    half_width: Annotated[float, KeyFormat(value_types.percentages(0.0001, 10), '"5 %"')] = Field(
        _PRECISION.half_width,
        description="Target half-width of the confidence interval, as a share of the value.",
    )
    min_trials: Annotated[int, KeyFormat(value_types.integers(1, 10_000), "9")] = Field(
        _PRECISION.min_trials,
        description="Minimum number of trials of every treatment. The 95 % interval of a median needs at "
        "least six trials.",
    )
    max_trials: Annotated[int, KeyFormat(value_types.integers(1, 10_000), "30")] = Field(
        _PRECISION.max_trials, description="Maximum number of trials of every treatment."
    )
    campaign_time_limit_s: Annotated[
        float | None,
        KeyFormat(value_types.durations(1, 36_000_000, "none"), '"30 min"', none_word="none"),
        Field(alias="time_limit"),
    ] = Field(
        _PRECISION.campaign_time_limit_s,
        description="Time limit of the whole campaign, including set-up.",
    )


LEVEL_TABLES = ("exclude", "together")
"""Headings of tables of levels, which a study can have several times."""

SECTIONS: Mapping[str, type[StudySection]] = {
    section.heading: section
    for section in (HeadSection, TestbedSection, TimingSection, SearchSection, PrecisionSection)
}
"""The sections by their headings, in the order of the reference."""

TESTBED_TABLES: Mapping[str, type[StudySection]] = {"host": HostSection, "team": TeamSection}
"""Tables under `[[testbed.NAME]]`, which a study can have several times, by that name."""

FACTORS_DESCRIPTION = (
    "The factors and their levels. The treatments are all combinations of the levels, unless `combine` says "
    "otherwise, without those that an `[[exclude]]` matches."
)
EXCLUDE_DESCRIPTION = (
    "Excludes the treatments in which every factor listed here has one of the levels listed for it. A study "
    "can have several."
)


TOGETHER_DESCRIPTION = (
    'With `combine = "one-at-a-time"`: adds one treatment, in which every factor listed here has the level '
    "listed for it and all other factors have their first level. A study can have several."
)


def describe_section_location(section: str) -> str:
    """Return where the keys of a section belong, as a phrase."""
    if section == HEAD_OF_FILE:
        return "at the head of the file"
    is_table = section in (each.heading for each in TESTBED_TABLES.values())
    return f"under [[{section}]]" if is_table else f"under [{section}]"


def suggest_right_location(word: str) -> str | None:
    """Return a fix with the right location of a key, factor or section; None for any other word."""
    if word in FACTORS:
        return f"{word} is a factor: write it under [factors]"
    if word in SECTIONS or word == "factors":
        return f"write it as a heading: [{word}]"
    if word in LEVEL_TABLES:
        return f"write it as a heading: [[{word}]]"
    if word in TESTBED_TABLES:
        return f"write it as a heading: [[{TESTBED_TABLES[word].heading}]]"
    sections = [*SECTIONS.values(), *TESTBED_TABLES.values()]
    for section in sections:
        if word in section.fields_by_key():
            return f"{word} belongs {describe_section_location(section.heading)}"
    return None
