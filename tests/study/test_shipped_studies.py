"""The shipped studies, their pages, the reference page and the JSON Schema agree with the code."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import jsonschema
import pytest

from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.file.keys import get_key_format
from vnetbench.study.file.load import load_study, parse_study
from vnetbench.study.file.reference import (
    PAGE_FILE_NAME,
    SCHEMA_FILE_NAME,
    format_reference_page,
    format_schema,
)
from vnetbench.study.file.schema import make_json_schema
from vnetbench.study.file.sections import HEAD_OF_FILE, SECTIONS
from vnetbench.study.labs import HOSTS, NETNS, QEMU, VSPHERE
from vnetbench.study.plan import make_plan

ROOT = Path(__file__).parents[2]
STUDIES = sorted((ROOT / "studies").glob("*.toml"))
PAGES = sorted((ROOT / "docs/studies").glob("*.md"))
VALIDATOR = jsonschema.Draft202012Validator(make_json_schema())
TWO_HOSTS = '[testbed]\nlab = "hosts"\n' + "".join(
    f'[[testbed.host]]\nname = "{n}"\nssh = "{n}"\n' for n in "ab"
)
COMMAND = re.compile(r"^ +(?:sudo \.venv/bin/)?vnetbench run (studies/\S+ (?:.*\\\n)*.*)$", re.MULTILINE)


def test_the_reference_page_and_the_schema_in_docs_are_current() -> None:
    fix = "run: python -m vnetbench.study.file.reference docs"
    assert (ROOT / "docs" / PAGE_FILE_NAME).read_text() == format_reference_page(), fix
    assert (ROOT / "docs" / SCHEMA_FILE_NAME).read_text() == format_schema(), fix


def test_the_schema_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(format_schema()))


def test_the_reference_names_every_key_and_every_factor() -> None:
    page = format_reference_page()
    names = [*FACTORS, *(key for section in SECTIONS.values() for key in section.fields_by_key())]
    assert all(f"`{name}`" in page for name in names)


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_a_shipped_study_loads_and_is_valid_by_the_schema(path: Path) -> None:
    study = load_study(path)
    assert make_plan(study, 1).treatments
    VALIDATOR.validate(tomllib.loads(study.text))


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_a_shipped_study_has_a_page(path: Path) -> None:
    assert (ROOT / "docs/studies" / f"{path.stem}.md").is_file()


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_every_command_of_a_study_page_is_valid(path: Path) -> None:
    commands = COMMAND.findall(path.read_text())
    assert commands
    for command in commands:
        words = shlex.split(command.replace("\\\n", " "))
        overrides = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
        assert make_plan(load_study(ROOT / words[0], overrides), 1).treatments


def test_the_time_limit_of_the_demo_allows_six_trials_of_every_treatment() -> None:
    study = load_study(ROOT / "studies/jumbo-frames.toml")
    treatments = make_plan(study, 1).treatments
    assert len(treatments) == 20
    assert study.precision.campaign_time_limit_s == 150
    assert study.timing.duration_s is not None
    load_s = len(treatments) * study.precision.min_trials * study.timing.duration_s
    assert load_s <= 0.6 * study.precision.campaign_time_limit_s


def test_the_time_limit_of_the_adapter_demo_allows_six_trials_of_every_adapter() -> None:
    recipe = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (command,) = re.findall(r"vnetbench run (studies/adapters\.toml .*)", recipe)
    words = shlex.split(command)
    overrides = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    study = load_study(ROOT / words[0], overrides)
    treatments = make_plan(study, 1).treatments
    assert {t.factors["adapter"] for t in treatments} == {"virtio-net", "vmxnet3", "e1000e", "e1000"}
    assert study.precision.campaign_time_limit_s is not None
    assert study.timing.duration_s is not None
    trials = len(treatments) * study.precision.min_trials
    # The other half of the time is for booting four guests and waiting for their links.
    assert trials * study.timing.duration_s <= 0.5 * study.precision.campaign_time_limit_s


@pytest.mark.parametrize("name", sorted(FACTORS))
def test_the_examples_of_a_factor_load_and_are_valid_by_the_schema(name: str) -> None:
    for example in FACTORS[name].examples:
        workload = "frame_latency" if name == "frame_load" else FACTORS[name].workloads[0]
        needs_guests = QEMU in FACTORS[name].labs and (NETNS not in FACTORS[name].labs or "vsock" in example)
        lab = f'[testbed]\nlab = "{QEMU if needs_guests else NETNS}"\n'
        if FACTORS[name].labs == (HOSTS,):
            lab = TWO_HOSTS
        if FACTORS[name].labs == (VSPHERE,):
            lab = TWO_HOSTS.replace(HOSTS, f'{VSPHERE}"\nconnection = "vsphere://bench@vc-01/', 1)
            lab += 'domain = "web-01"\n'
        text = f'title = "x"\nworkload = "{workload}"\n{lab}[factors]\n{name} = {example}\n'
        text += {
            "irq_cpus": 'cpus = "1 each"\n',
            "link_queue": 'link_rate = "1 Gbit/s"\n',
            "link_jitter": 'link_delay = "20 ms"\n',
            "pacing": 'rate = "1 k/s"\n',
            "threads": "streams = 16\n",
            "send_batch": 'send_mode = "io_uring"\n',
            "transport": 'role = "guest-to-host"\n' if needs_guests else "",
            "emulator_pin": 'vcpu_pin = "spread"\n',
            "irq_pin": "vcpus = 2\n",
            **dict.fromkeys(("event", "event_duration"), '[timing]\nduration = "10 s"\n'),
            **dict.fromkeys(("team_links", "team_lacp"), 'vswitch = "openvswitch"\n[[testbed.team]]\n'),
            **dict.fromkeys(
                ("team_policy", "team_far_end"),
                'vswitch = "bridge"\n[[testbed.team]]\npolicy = "layer2"\n',
            ),
            "team_lacp_active": 'vswitch = "openvswitch"\n[[testbed.team]]\npolicy = "balance-tcp"\n',
            **dict.fromkeys(("lro", "rx_ring", "tx_ring"), 'adapter = "vmxnet3"\n' if needs_guests else ""),
        }.get(name, "")
        parse_study(text, None)
        VALIDATOR.validate(tomllib.loads(text))


@pytest.mark.parametrize(
    ("section", "key"), [(s.heading, key) for s in SECTIONS.values() for key in s.fields_by_key()], ids=str
)
def test_the_example_of_a_key_loads_and_is_valid_by_the_schema(section: str, key: str) -> None:
    line = f"{key} = {get_key_format(SECTIONS[section].fields_by_key()[key]).example}\n"
    head = "" if key == "title" else 'title = "x"\n'
    workload = {"idle": "mixed", "published": "frames"}.get(key, "frames" if section == "search" else "")
    if workload:
        head += f'workload = "{workload}"\n'
    if key == "ports":
        line += TWO_HOSTS.removeprefix("[testbed]\n")
    if key == "connection":
        line += 'lab = "libvirt"\n' + "".join(
            f'[[testbed.host]]\nname = "{n}"\nssh = "{n}"\ndomain = "{n}"\n' for n in "ab"
        )
    factors = "[factors]\nmtu = 1500\n"
    text = line + head + factors if section == HEAD_OF_FILE else f"{head}{factors}[{section}]\n{line}"
    parse_study(text, None)
    VALIDATOR.validate(tomllib.loads(text))


@pytest.mark.parametrize(
    "wrong",
    [
        "mtu = 70000",
        'mtu = "big"',
        'message_size = "64"',
        "message_size = 64",
        'socket_buffer = "atuo"',
        'direction = ["forward", "backward"]',
        'streams = "1, 2, 4 .. "',
        "streams = []",
        'cpus = "0-"',
        "steams = 1",
        'tso = "maybe"',
        'mtu = 1500\n[precision]\nhalf_width = "3"',
        "mtu = 1500\n[timing]\nduration = 10",
        "mtu = 1500\n[testbed]\nuplink = 1",
        "mtu = 1500\n[[exclude]]\nmtuu = 1500",
        "mtu = 1500\n[unknown]",
    ],
)
def test_the_schema_rejects_what_the_bench_rejects(wrong: str) -> None:
    assert not VALIDATOR.is_valid(tomllib.loads(f'title = "x"\n[factors]\n{wrong}\n'))
