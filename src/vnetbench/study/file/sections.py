"""All sections of a study file and their keys, with descriptions, value types and defaults."""

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
from vnetbench.study.workloads import TCP_STREAM, WORKLOADS

TOP_LEVEL = ""
"""Name of the section without a heading, at the head of the file."""


_TIMING, _PRECISION, _TESTBED = Timing(), Precision(), TestbedSpec()

_ALL_SECTIONS = (
    make_section(
        TOP_LEVEL,
        "Keys at the head of the file, before the first heading.",
        StudyKey(
            "title",
            value_types.texts(120),
            "",
            "Title of the study, one line.",
            '"Jumbo frames"',
            required=True,
        ),
        StudyKey(
            "question",
            value_types.texts(2000),
            "",
            "Question that the study answers. The report shows the answer below it.",
            '"Do jumbo frames make TCP faster?"',
        ),
        StudyKey(
            "workload",
            value_types.keywords(*WORKLOADS),
            TCP_STREAM,
            "Type of load. " + " ".join(f"`{each.name}`: {each.description}." for each in WORKLOADS.values()),
            '"tcp_stream"',
        ),
        StudyKey(
            "combine",
            value_types.keywords(ALL_COMBINATIONS, ONE_AT_A_TIME),
            ALL_COMBINATIONS,
            "How the levels make treatments. `all`: every combination. `one-at-a-time`: the base, which is "
            "the first level of every factor; the base with one factor changed, for every other level; and "
            "the treatments of `[[together]]`. The results compare each treatment with the base.",
            '"one-at-a-time"',
        ),
        StudyKey(
            "published",
            value_types.keywords("none", *TABLE_NAMES),
            None,
            "Published measurement to compare the results with, for equal treatments.",
            '"packet-forwarding-2011"',
            none_word="none",
        ),
    ),
    make_section(
        "testbed",
        "The testbed, except for the factors that vary it.",
        StudyKey(
            "lab",
            value_types.keywords(*LABS, IMPORTED),
            _TESTBED.lab,
            "Lab that provides the testbed. `netns`: network namespaces as VMs. `qemu`: guests with real "
            "adapter drivers. `hosts`: existing machines, one `[[testbed.host]]` each. `imported`: no lab; "
            "`vnetbench import` writes this value, for results from the logs of other tools.",
            '"netns"',
        ),
        StudyKey(
            "uplink",
            value_types.booleans(),
            _TESTBED.uplink,
            "`true`: two vSwitches joined by an uplink, with one VM of each pair on each. `false`: one "
            "vSwitch for all VMs.",
            "true",
        ),
        StudyKey(
            "shaper",
            value_types.keywords("tbf", "htb"),
            _TESTBED.shaper,
            "Queueing discipline that implements `link_rate`.",
            '"htb"',
        ),
        StudyKey(
            "vswitch_mtu",
            value_types.integers(576, 65535, unit="B"),
            _TESTBED.vswitch_mtu,
            "Fixed MTU in bytes of every port of the vSwitch. Without it, the ports use the factor `mtu`.",
            "9000",
        ),
        StudyKey(
            "vf_of",
            host_value_types.interface_names(),
            _TESTBED.vf_of,
            "Lab `qemu`: the adapter of this machine whose virtual functions (SR-IOV, bound to vfio) become "
            "the "
            'adapters of guests with `adapter = "vf"`.',
            '"ens1f0"',
        ),
        StudyKey(
            "ports",
            host_value_types.port_ranges(),
            _TESTBED.ports,
            "Lab `hosts`: TCP and UDP ports on which the second host of a pair receives load, so that you "
            "can open them in firewalls. Without it, any port.",
            '"5300-5399"',
        ),
    ),
    make_section(
        "timing",
        "Length and sampling of a trial.",
        StudyKey(
            "duration",
            value_types.durations(0.1, 86400, "auto"),
            _TIMING.duration_s,
            "Length of a trial, including the warm-up but not the idle phase of `mixed`. `auto`: the bench "
            "chooses it for each treatment from its first trials.",
            '"10 s"',
            model_field="duration_s",
            none_word="auto",
        ),
        StudyKey(
            "warmup",
            value_types.durations(0, 86400, "auto"),
            _TIMING.warmup_s,
            "Time that is cut from the start of every trial. `auto`: found in its samples; none with `soak`.",
            '"5 s"',
            model_field="warmup_s",
            none_word="auto",
        ),
        StudyKey(
            "interval",
            value_types.durations(0.01, 60),
            _TIMING.interval_s,
            "Time between two samples of a trial.",
            '"100 ms"',
            model_field="interval_s",
        ),
        StudyKey(
            "idle",
            value_types.durations(0.05, 60, "auto"),
            _TIMING.idle_s,
            "Workload `mixed`: time with requests only at the start of every trial. `auto`: the time of a "
            "thousand requests at the `rate`, from 0.5 s to 5 s.",
            '"2 s"',
            model_field="idle_s",
            none_word="auto",
        ),
    ),
    SEARCH_SECTION,
    make_section(
        "precision",
        "When the bench stops repeating a treatment: when the confidence interval of the deciding metric is "
        "narrow enough, after the maximum number of trials, or at the time limit. The result states which.",
        StudyKey(
            "metric",
            value_types.keywords(
                "auto",
                *dict.fromkeys(metric for each in WORKLOADS.values() for metric in each.deciding_metrics),
            ),
            _PRECISION.metric,
            "Deciding metric. `auto`: the main metric of the workload. "
            + " ".join(f"`{each.name}`: {each.deciding_description}." for each in WORKLOADS.values()),
            '"goodput_bps"',
            none_word="auto",
        ),
        StudyKey(
            "confidence",
            value_types.percentages(0.5, 0.9999),
            _PRECISION.confidence,
            "Confidence level of every interval.",
            '"99 %"',
        ),
        StudyKey(
            "half_width",
            value_types.percentages(0.0001, 10),
            _PRECISION.half_width,
            "Target half-width of the confidence interval, as a share of the value.",
            '"5 %"',
        ),
        StudyKey(
            "fewest_trials",
            value_types.integers(1, 10_000),
            _PRECISION.fewest_trials,
            "Minimum number of trials of every treatment. The 95 % interval of a median needs at least six "
            "trials.",
            "9",
        ),
        StudyKey(
            "most_trials",
            value_types.integers(1, 10_000),
            _PRECISION.most_trials,
            "Maximum number of trials of every treatment.",
            "30",
        ),
        StudyKey(
            "time_limit",
            value_types.durations(1, 36_000_000, "none"),
            _PRECISION.time_limit_s,
            "Time limit of the whole campaign, including set-up.",
            '"30 min"',
            model_field="time_limit_s",
            none_word="none",
        ),
    ),
)

LEVEL_TABLES = ("exclude", "together")
"""Headings of tables of levels, which a study can have several times."""

SECTIONS: Mapping[str, StudySection] = {section.name: section for section in _ALL_SECTIONS}

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


def section_location(section: str) -> str:
    """Return where the keys of a section belong, as a phrase."""
    if section == TOP_LEVEL:
        return "at the head of the file"
    return f"under [[{section}]]" if section == HOST_SECTION.name else f"under [{section}]"


def misplaced_word_fix(word: str) -> str | None:
    """Return a fix with the right location of a key, factor or section; None for any other word."""
    if word in FACTORS:
        return f"{word} is a factor: write it under [factors]"
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
