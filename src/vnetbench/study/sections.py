"""The sections of a study file and their keys: what each means, how it is written, what holds without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.published.figures import NAMES
from vnetbench.study import host_kinds, kinds
from vnetbench.study.factors import FACTORS
from vnetbench.study.kinds import Kind
from vnetbench.study.labs import LABS
from vnetbench.study.model import (
    ALL,
    ONE_AT_A_TIME,
    HostAsked,
    Level,
    Precision,
    SearchAsked,
    TestbedAsked,
    Timing,
)
from vnetbench.study.workloads import DECIDING, MOST_GOALS, STREAM, WORKLOADS

TOP = ""
"""The name of the section without a heading, at the head of the file."""


@dataclass(frozen=True)
class Key:
    """One key of a section."""

    name: str
    kind: Kind
    default: Level | None
    """What the field of `study.model` is without the key; for a required key nothing."""
    description: str
    example: str
    """A value as it stands in a study file (TOML)."""
    field: str = ""
    """Its field in `study.model` where that has another name (it carries the unit)."""
    absent: str = ""
    """The word that stands for None."""
    required: bool = False

    @property
    def attribute(self) -> str:
        """Its field in `study.model`."""
        return self.field or self.name

    @property
    def spelled_default(self) -> str:
        """The default as one would write it; empty where nothing says the same as leaving the key out."""
        if self.default is None or self.required:
            return self.absent
        return self.kind.spell(self.default)


@dataclass(frozen=True)
class Section:
    """A heading of a study file and what may stand below it."""

    name: str
    description: str
    keys: Mapping[str, Key]


def _section(name: str, description: str, *keys: Key) -> Section:
    return Section(name, description, {key.name: key for key in keys})


_TIMING, _PRECISION, _TESTBED, _HOST = Timing(), Precision(), TestbedAsked(), HostAsked("")
_SEARCH = SearchAsked()

_ALL = (
    _section(
        TOP,
        "At the head of the file, before the first heading.",
        Key(
            "title",
            kinds.texts(120),
            "",
            "What the study is called, in a line.",
            '"Jumbo frames"',
            required=True,
        ),
        Key(
            "question",
            kinds.texts(2000),
            "",
            "What it asks, in words. The report answers below it.",
            '"Do jumbo frames make TCP faster?"',
        ),
        Key(
            "workload",
            kinds.words(*WORKLOADS),
            STREAM,
            "The load. `tcp_stream`: data as fast as TCP takes it. `tcp_rr`: requests and their answers. "
            "`tcp_crr`: the same, each on a connection of its own. `mixed`: requests by themselves, and then "
            "beside a `tcp_stream`: latency under load. `frames`: frames made and counted at the interfaces, "
            "at one load, or with `[search]` to find the throughput. RFC 2544's other tests: `frame_latency` "
            "(26.2), `frame_loss`, from the highest load down in steps (26.3), `back_to_back`, the longest "
            "burst without loss (26.4, as RFC 9004 has it). `soak`: frames at one load for long.",
            '"tcp_stream"',
        ),
        Key(
            "combine",
            kinds.words(ALL, ONE_AT_A_TIME),
            ALL,
            "Which treatments the levels make. `all`: every combination of them. `one-at-a-time`: the base, "
            "which has the first level of every factor; the base with one factor at another level, for each "
            "such level; and what `[[together]]` adds. The results say what each gains over the base.",
            '"one-at-a-time"',
        ),
        Key(
            "published",
            kinds.words("none", *NAMES),
            None,
            "Figures of a published measurement to be shown beside the results, for treatments alike.",
            '"packet-forwarding-2011"',
            absent="none",
        ),
    ),
    _section(
        "testbed",
        "The testbed, without the factors that vary it.",
        Key(
            "lab",
            kinds.words(*LABS),
            _TESTBED.lab,
            "What makes it. `netns`: network namespaces stand for VMs. `qemu`: guests with real adapters and "
            "their drivers. `hosts`: machines that exist, named by `[[testbed.host]]`.",
            '"netns"',
        ),
        Key(
            "uplink",
            kinds.truths(),
            _TESTBED.uplink,
            "`true`: two vSwitches joined by an uplink, the VMs of each pair on different ones. "
            "`false`: one vSwitch for all.",
            "true",
        ),
        Key(
            "shaper",
            kinds.words("tbf", "htb"),
            _TESTBED.shaper,
            "The queueing discipline behind `link_rate`.",
            '"htb"',
        ),
        Key(
            "vswitch_mtu",
            kinds.counts(576, 65535, unit="B"),
            _TESTBED.vswitch_mtu,
            "A fixed MTU in bytes of every port of the vSwitch. Without it they follow the factor `mtu`.",
            "9000",
        ),
        Key(
            "vf_of",
            host_kinds.interfaces(),
            _TESTBED.vf_of,
            "Of the lab `qemu`: the adapter of this machine whose virtual functions (SR-IOV), given to vfio, "
            'guests with `adapter = "vf"` get.',
            '"ens1f0"',
        ),
        Key(
            "ports",
            host_kinds.port_ranges(),
            _TESTBED.ports,
            "Of the lab `hosts`: the TCP and UDP ports that the second host of a pair takes load on, for "
            "firewalls on the way. Without it any.",
            '"5300-5399"',
        ),
    ),
    _section(
        "timing",
        "How long a trial is.",
        Key(
            "duration",
            kinds.durations(0.1, 86400, "auto"),
            _TIMING.duration_s,
            "The length of a trial, warm-up included, but for the idle phase of `mixed`. `auto`: chosen for "
            "each treatment from its first trials.",
            '"10 s"',
            field="duration_s",
            absent="auto",
        ),
        Key(
            "warmup",
            kinds.durations(0, 86400, "auto"),
            _TIMING.warmup_s,
            "What is cut from the beginning of every trial. `auto`: found in its samples.",
            '"5 s"',
            field="warmup_s",
            absent="auto",
        ),
        Key(
            "interval",
            kinds.durations(0.01, 60),
            _TIMING.interval_s,
            "How often a trial is sampled.",
            '"100 ms"',
            field="interval_s",
        ),
        Key(
            "idle",
            kinds.durations(0.05, 60, "auto"),
            _TIMING.idle_s,
            "Of the workload `mixed`: how long there are only requests, before the load and in every trial. "
            "`auto`: as long as a thousand requests take at the `rate`, from 0.5 s to 5 s.",
            '"2 s"',
            field="idle_s",
            absent="auto",
        ),
    ),
    _section(
        "search",
        "Of the workloads of frames: each trial is a search of the throughput, a series of steps that each "
        "hold a load for a time, and ends with a step at the throughput, whose counters and latencies are "
        "the trial's. With `frames` the section has to be written; `frame_loss` and `back_to_back` are "
        "series of steps anyway, `frame_latency` and `soak` begin with one where their load is a share of "
        "the throughput.",
        Key(
            "method",
            kinds.words("vnetbench", "rfc2544", "mlrsearch"),
            _SEARCH.method,
            "`vnetbench`: a model of loss against load says which step tells most. `rfc2544`: halving the "
            "interval (RFC 2544, 26.1). `mlrsearch`: the library of FD.io, where it is installed.",
            '"rfc2544"',
        ),
        Key(
            "loss",
            kinds.loss_goals(MOST_GOALS),
            _SEARCH.loss,
            "The goals: shares of the frames that may be lost. Each has a throughput of its own; the first "
            "one's is `throughput_fps`.",
            '["0 %", "0.01 %", "0.5 %"]',
        ),
        Key(
            "width",
            kinds.shares(0.0001, 0.5),
            _SEARCH.width,
            "Of the answer's interval, as a share of the throughput.",
            '"1 %"',
        ),
        Key(
            "trial",
            kinds.durations(0.01, 3600),
            _SEARCH.step_s,
            "Length of a full step: what RFC 2544 calls a trial.",
            '"1 s"',
            field="step_s",
        ),
        Key(
            "settle",
            kinds.durations(0.001, 4),
            _SEARCH.settle_s,
            "A step has ended when no frame of it has come for so long after its load.",
            '"100 ms"',
            field="settle_s",
        ),
        Key(
            "most_load",
            kinds.frame_rates(1, 10**9, "auto"),
            _SEARCH.most_load_fps,
            "The highest load, of each direction. `auto`: as fast as the generator goes.",
            '"2 Mframe/s"',
            field="most_load_fps",
            absent="auto",
        ),
        Key(
            "least_load",
            kinds.frame_rates(1, 10**9),
            _SEARCH.least_load_fps,
            "The lowest load, of each direction. A device that loses too much of it has no throughput.",
            '"100 frame/s"',
            field="least_load_fps",
        ),
        Key(
            "confidence",
            kinds.shares(0.5, 0.9999),
            _SEARCH.confidence,
            "That the throughput lies in the answer's interval.",
            '"99 %"',
        ),
        Key(
            "time_limit",
            kinds.durations(1, 36_000_000),
            _SEARCH.time_limit_s,
            "Of all steps of one search together.",
            '"2 min"',
            field="time_limit_s",
        ),
    ),
    _section(
        "precision",
        "When a treatment has been repeated often enough: as soon as the interval of the deciding metric is "
        "as narrow as asked, else after the most trials or when the time is up. The result says which.",
        Key(
            "metric",
            kinds.words("auto", *dict.fromkeys(metric for each in DECIDING.values() for metric in each)),
            _PRECISION.metric,
            "The metric that decides. `auto`: of `tcp_stream` the goodput, of `tcp_rr` the transaction rate "
            "(the 99th percentile of latency where every `rate` is set), of `tcp_crr` the connection rate, "
            "of `mixed` the 99th percentile of latency under load, of `frames` the throughput within the "
            "first goal (without `[search]` the forwarding rate), of `frame_latency` the 99th percentile of "
            "delay, of `frame_loss` the maximum forwarding rate, of `back_to_back` the burst, of `soak` the "
            "forwarding rate.",
            '"goodput_bps"',
            absent="auto",
        ),
        Key(
            "confidence",
            kinds.shares(0.5, 0.9999),
            _PRECISION.confidence,
            "Of every interval shown.",
            '"99 %"',
        ),
        Key(
            "half_width",
            kinds.shares(0.0001, 10),
            _PRECISION.half_width,
            "Half of the wanted width of the interval, as a share of the value.",
            '"5 %"',
        ),
        Key(
            "fewest_trials",
            kinds.counts(1, 10_000),
            _PRECISION.fewest_trials,
            "Trials of every treatment before it is judged. A median has an interval of 95 % from six "
            "trials on.",
            "9",
        ),
        Key(
            "most_trials",
            kinds.counts(1, 10_000),
            _PRECISION.most_trials,
            "Trials after which a treatment is given up, precise or not.",
            "30",
        ),
        Key(
            "time_limit",
            kinds.durations(1, 36_000_000, "none"),
            _PRECISION.time_limit_s,
            "Of the whole campaign, set-up included.",
            '"30 min"',
            field="time_limit_s",
            absent="none",
        ),
    ),
)

HOST = _section(
    "testbed.host",
    "A machine of the lab `hosts`; stands once for each. Reached by `ssh` or `local` they make pairs in the "
    "order of the file: the first of a pair sends when the direction is forward. Or one of them only has an "
    "`iperf3` server, and the other end of every stream is the machine that the bench runs on.",
    Key(
        "name",
        host_kinds.names(),
        "",
        "What it is called in the results.",
        '"web-01"',
        required=True,
    ),
    Key(
        "ssh",
        host_kinds.destinations(),
        _HOST.ssh,
        "How `ssh` reaches it: by the user's own OpenSSH client, with its configuration, keys, agent and "
        "known hosts. The agent is put there for the campaign and removed at its end. Knobs need root.",
        '"root@web-01"',
    ),
    Key(
        "iperf3",
        host_kinds.servers(),
        _HOST.iperf3,
        "Where its iperf3 server listens. Nothing else is asked of this machine, and nothing is put on it.",
        '"192.0.2.7:5201"',
    ),
    Key(
        "local",
        kinds.truths(),
        _HOST.local,
        "`true`: it is the machine that the bench runs on, which towards an iperf3 server is called `here` "
        "without such a host.",
        "true",
    ),
    Key(
        "interface",
        host_kinds.interfaces(),
        _HOST.interface,
        "The interface that the load goes through. Without it the system's routes decide. With frames two "
        "hosts may be two interfaces of one machine, with the device under test between them.",
        '"ens192"',
    ),
    Key(
        "address",
        host_kinds.addresses(),
        _HOST.address,
        "Its own address for the load. Without it the interface's, or what the system's routes choose. "
        "Frames from one interface of a machine to another need none: they come from 198.18.0.0/15 then.",
        '"192.0.2.1"',
    ),
    Key(
        "next_hop",
        host_kinds.macs(),
        _HOST.next_hop,
        "The MAC address that its frames are sent to: that of the pair's other interface, as a bridge wants "
        "it, unless a router is tested, whose own on this side has to stand here.",
        '"52:54:00:12:34:56"',
    ),
)
"""The keys of a `[[testbed.host]]`, which may stand several times."""

TABLES = ("exclude", "together")
"""Headings of levels that may stand several times."""

SECTIONS: Mapping[str, Section] = {section.name: section for section in _ALL}

FACTORS_DESCRIPTION = (
    "What is varied, and its levels. The treatments are all combinations of the levels (unless `combine` "
    "says otherwise), without those that an `[[exclude]]` leaves out."
)
EXCLUDE_DESCRIPTION = (
    "Treatments to leave out: those in which every factor named here has one of the levels named for it. "
    "May stand several times."
)


TOGETHER_DESCRIPTION = (
    'Of `combine = "one-at-a-time"`: one treatment more, in which every factor named here has the level '
    "named for it and every other one its first. May stand several times."
)


def place_of_keys(section: str) -> str:
    """Where the keys of a section stand, in words."""
    if section == TOP:
        return "at the head of the file"
    return f"under [[{section}]]" if section == HOST.name else f"under [{section}]"


def home_of(word: str) -> str | None:
    """Where a key, a factor or a section of this name belongs, as a fix says it; None for no such name."""
    if word in FACTORS:
        return f"{word} is a factor: it stands under [factors]"
    if word in SECTIONS or word == "factors":
        return f"write it as a heading: [{word}]"
    if word in TABLES:
        return f"write it as a heading: [[{word}]]"
    if word == "host":
        return f"write it as a heading: [[{HOST.name}]]"
    for section in (*SECTIONS.values(), HOST):
        if word in section.keys:
            return f"{word} belongs {place_of_keys(section.name)}"
    return None
