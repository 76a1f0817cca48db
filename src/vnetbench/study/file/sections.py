"""The sections of a study file and their keys: what each means, how it is written, what holds without it."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.published.catalog import TABLE_NAMES
from vnetbench.study.factors import value_types
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.file import host_value_types
from vnetbench.study.file.host_section import HOST_SECTION
from vnetbench.study.file.keys import StudyKey, StudySection, make_section
from vnetbench.study.file.search_section import SEARCH_SECTION
from vnetbench.study.labs import IMPORTED, LABS
from vnetbench.study.model import ALL_COMBINATIONS, ONE_AT_A_TIME, Precision, TestbedSpec, Timing
from vnetbench.study.workloads import DECIDING_METRICS, TCP_STREAM, WORKLOADS

TOP_LEVEL = ""
"""The name of the section without a heading, at the head of the file."""


_TIMING, _PRECISION, _TESTBED = Timing(), Precision(), TestbedSpec()

_ALL_SECTIONS = (
    make_section(
        TOP_LEVEL,
        "At the head of the file, before the first heading.",
        StudyKey(
            "title",
            value_types.texts(120),
            "",
            "What the study is called, in a line.",
            '"Jumbo frames"',
            required=True,
        ),
        StudyKey(
            "question",
            value_types.texts(2000),
            "",
            "What it asks, in words. The report answers below it.",
            '"Do jumbo frames make TCP faster?"',
        ),
        StudyKey(
            "workload",
            value_types.keywords(*WORKLOADS),
            TCP_STREAM,
            "The load. `tcp_stream`: data as fast as TCP takes it. `tcp_rr`: requests and their answers. "
            "`tcp_crr`: the same, each on a connection of its own. `mixed`: requests by themselves, and then "
            "beside a `tcp_stream`: latency under load. `frames`: frames made and counted at the interfaces, "
            "at one load, or with `[search]` to find the throughput. RFC 2544's other tests: `frame_latency` "
            "(26.2), `frame_loss`, from the highest load down in steps (26.3), `back_to_back`, the longest "
            "burst without loss (26.4, as RFC 9004 has it). `soak`: frames at one load for long.",
            '"tcp_stream"',
        ),
        StudyKey(
            "combine",
            value_types.keywords(ALL_COMBINATIONS, ONE_AT_A_TIME),
            ALL_COMBINATIONS,
            "Which treatments the levels make. `all`: every combination of them. `one-at-a-time`: the base, "
            "which has the first level of every factor; the base with one factor at another level, for each "
            "such level; and what `[[together]]` adds. The results say what each gains over the base.",
            '"one-at-a-time"',
        ),
        StudyKey(
            "published",
            value_types.keywords("none", *TABLE_NAMES),
            None,
            "Figures of a published measurement to be shown beside the results, for treatments alike.",
            '"packet-forwarding-2011"',
            none_word="none",
        ),
    ),
    make_section(
        "testbed",
        "The testbed, without the factors that vary it.",
        StudyKey(
            "lab",
            value_types.keywords(*LABS, IMPORTED),
            _TESTBED.lab,
            "What makes it. `netns`: network namespaces stand for VMs. `qemu`: guests with real adapters and "
            "their drivers. `hosts`: machines that exist, named by `[[testbed.host]]`. "
            "`imported`: none; so say results that `vnetbench import` made of other tools' logs.",
            '"netns"',
        ),
        StudyKey(
            "uplink",
            value_types.booleans(),
            _TESTBED.uplink,
            "`true`: two vSwitches joined by an uplink, the VMs of each pair on different ones. "
            "`false`: one vSwitch for all.",
            "true",
        ),
        StudyKey(
            "shaper",
            value_types.keywords("tbf", "htb"),
            _TESTBED.shaper,
            "The queueing discipline behind `link_rate`.",
            '"htb"',
        ),
        StudyKey(
            "vswitch_mtu",
            value_types.integers(576, 65535, unit="B"),
            _TESTBED.vswitch_mtu,
            "A fixed MTU in bytes of every port of the vSwitch. Without it they follow the factor `mtu`.",
            "9000",
        ),
        StudyKey(
            "vf_of",
            host_value_types.interface_names(),
            _TESTBED.vf_of,
            "Of the lab `qemu`: the adapter of this machine whose virtual functions (SR-IOV), given to vfio, "
            'guests with `adapter = "vf"` get.',
            '"ens1f0"',
        ),
        StudyKey(
            "ports",
            host_value_types.port_ranges(),
            _TESTBED.ports,
            "Of the lab `hosts`: the TCP and UDP ports that the second host of a pair takes load on, for "
            "firewalls on the way. Without it any.",
            '"5300-5399"',
        ),
    ),
    make_section(
        "timing",
        "How long a trial is.",
        StudyKey(
            "duration",
            value_types.durations(0.1, 86400, "auto"),
            _TIMING.duration_s,
            "The length of a trial, warm-up included, but for the idle phase of `mixed`. `auto`: chosen for "
            "each treatment from its first trials.",
            '"10 s"',
            model_field="duration_s",
            none_word="auto",
        ),
        StudyKey(
            "warmup",
            value_types.durations(0, 86400, "auto"),
            _TIMING.warmup_s,
            "What is cut from the beginning of every trial. `auto`: found in its samples; of `soak` nothing.",
            '"5 s"',
            model_field="warmup_s",
            none_word="auto",
        ),
        StudyKey(
            "interval",
            value_types.durations(0.01, 60),
            _TIMING.interval_s,
            "How often a trial is sampled.",
            '"100 ms"',
            model_field="interval_s",
        ),
        StudyKey(
            "idle",
            value_types.durations(0.05, 60, "auto"),
            _TIMING.idle_s,
            "Of the workload `mixed`: how long there are only requests, before the load and in every trial. "
            "`auto`: as long as a thousand requests take at the `rate`, from 0.5 s to 5 s.",
            '"2 s"',
            model_field="idle_s",
            none_word="auto",
        ),
    ),
    SEARCH_SECTION,
    make_section(
        "precision",
        "When a treatment has been repeated often enough: as soon as the interval of the deciding metric is "
        "as narrow as asked, else after the most trials or when the time is up. The result says which.",
        StudyKey(
            "metric",
            value_types.keywords(
                "auto", *dict.fromkeys(metric for each in DECIDING_METRICS.values() for metric in each)
            ),
            _PRECISION.metric,
            "The metric that decides. `auto`: of `tcp_stream` the goodput, of `tcp_rr` the transaction rate "
            "(the 99th percentile of latency where every `rate` is set), of `tcp_crr` the connection rate, "
            "of `mixed` the 99th percentile of latency under load, of `frames` the throughput within the "
            "first goal (without `[search]` the forwarding rate), of `frame_latency` the 99th percentile of "
            "delay, of `frame_loss` the maximum forwarding rate, of `back_to_back` the burst, of `soak` the "
            "forwarding rate.",
            '"goodput_bps"',
            none_word="auto",
        ),
        StudyKey(
            "confidence",
            value_types.percentages(0.5, 0.9999),
            _PRECISION.confidence,
            "Of every interval shown.",
            '"99 %"',
        ),
        StudyKey(
            "half_width",
            value_types.percentages(0.0001, 10),
            _PRECISION.half_width,
            "Half of the wanted width of the interval, as a share of the value.",
            '"5 %"',
        ),
        StudyKey(
            "fewest_trials",
            value_types.integers(1, 10_000),
            _PRECISION.fewest_trials,
            "Trials of every treatment before it is judged. A median has an interval of 95 % from six "
            "trials on.",
            "9",
        ),
        StudyKey(
            "most_trials",
            value_types.integers(1, 10_000),
            _PRECISION.most_trials,
            "Trials after which a treatment is given up, precise or not.",
            "30",
        ),
        StudyKey(
            "time_limit",
            value_types.durations(1, 36_000_000, "none"),
            _PRECISION.time_limit_s,
            "Of the whole campaign, set-up included.",
            '"30 min"',
            model_field="time_limit_s",
            none_word="none",
        ),
    ),
)

LEVEL_TABLES = ("exclude", "together")
"""Headings of levels that may stand several times."""

SECTIONS: Mapping[str, StudySection] = {section.name: section for section in _ALL_SECTIONS}

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


def section_location(section: str) -> str:
    """Where the keys of a section stand, in words."""
    if section == TOP_LEVEL:
        return "at the head of the file"
    return f"under [[{section}]]" if section == HOST_SECTION.name else f"under [{section}]"


def misplaced_word_fix(word: str) -> str | None:
    """Where a key, a factor or a section of this name belongs, as a fix says it; None for no such name."""
    if word in FACTORS:
        return f"{word} is a factor: it stands under [factors]"
    if word in SECTIONS or word == "factors":
        return f"write it as a heading: [{word}]"
    if word in LEVEL_TABLES:
        return f"write it as a heading: [[{word}]]"
    if word == "host":
        return f"write it as a heading: [[{HOST_SECTION.name}]]"
    for section in (*SECTIONS.values(), HOST_SECTION):
        if word in section.keys:
            return f"{word} belongs {section_location(section.name)}"
    return None
