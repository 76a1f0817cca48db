"""Commands of experiments: short, for one treatment, and valid for the bench."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from tests.explain.campaigns import SimulatedTreatment, campaign
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.experiment_command import (
    ExperimentCommand,
    build_experiment_command,
    study_placeholder_note,
)
from vnetbench.explain.rules import get_cause
from vnetbench.study.factors.registry import format_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.study.model import Level

pytestmark = pytest.mark.pure

STUDY = 'title = "t"\n[factors]\nstreams = [1, 2]\nmtu = [1500, 9000]\nmessage_size = "64 B"\n'


def build_campaign(study: str = STUDY, path: str = "study.toml", treatments: int = 4) -> CampaignSummary:
    return campaign(study, *[SimulatedTreatment()] * treatments, path=path)


def experiment(summary: CampaignSummary, cause: str, treatment: int = 0) -> ExperimentCommand:
    return build_experiment_command(summary, summary.treatments[treatment], get_cause(cause))


def settings(command: str) -> list[str]:
    words = shlex.split(command)
    return [words[place + 1] for place, word in enumerate(words) if word == "--set"]


def test_the_command_varies_one_factor_and_keeps_the_other_levels() -> None:
    setting, command = experiment(build_campaign(), "small_messages", treatment=3)
    assert setting == {"message_size": 2**20}
    assert settings(command) == ["streams=2", "mtu=9000", "message_size=64 B,1 MiB"]
    assert command.startswith("vnetbench run study.toml ") and command.endswith("-o study-small_messages.vnb")


def test_the_command_runs_two_treatments() -> None:
    _, command = experiment(build_campaign(), "small_messages")
    changed = parse_study(STUDY, None, settings(command))
    assert {factor.name: factor.levels for factor in changed.factors} == {
        "streams": (1,), "mtu": (1500,), "message_size": (64, 2**20),
    }  # fmt: skip


def test_twice_means_two_times_the_treatments_level() -> None:
    assert experiment(build_campaign(), "sender_cpu", treatment=2).changed_levels == {"streams": 4}
    assert "streams=2,4" in settings(experiment(build_campaign(), "sender_cpu", treatment=2).command)


def test_the_study_placeholder_is_explained() -> None:
    _, of_none = experiment(build_campaign(path=""), "small_messages")
    assert of_none.startswith("vnetbench run STUDY ")
    assert study_placeholder_note(of_none).startswith(
        "STUDY is a file with the study's text. To write it, run: vnetbench show"
    )
    _, of_a_file = experiment(build_campaign(), "small_messages")
    assert study_placeholder_note(of_a_file) == "" == study_placeholder_note("")


def test_a_path_with_spaces_is_quoted() -> None:
    _, command = experiment(build_campaign(path="my studies/a b.toml"), "small_messages")
    assert shlex.split(command)[2] == "my studies/a b.toml"


def test_a_setting_that_the_treatment_already_has_is_skipped() -> None:
    assert experiment(build_campaign(), "receive_window") == ({}, "")  # its buffers are the kernel's


def test_a_factor_without_support_in_testbed_or_workload_is_skipped() -> None:
    # `connections` belongs to requests, so the other setting, `streams`, applies.
    assert experiment(build_campaign(), "receiver_cpu").changed_levels == {"streams": 2}
    requests = build_campaign('title = "t"\nworkload = "tcp_rr"\n[factors]\nconnections = 3\n', treatments=1)
    assert experiment(requests, "receiver_cpu").changed_levels == {"connections": 6}


def test_a_setting_that_the_study_rejects_is_skipped() -> None:
    # CPUs apart from the VM's exist only if the VM has its own CPUs.
    free, pinned = (
        build_campaign(f'title = "t"\n[factors]\nstreams = 1\n{cpus}', treatments=1)
        for cpus in ("", 'cpus = "0/1"\n')
    )
    assert experiment(free, "shared_with_packets") == ({}, "")
    assert experiment(pinned, "shared_with_packets").changed_levels == {"irq_cpus": "apart"}


def test_a_switch_at_its_system_default_is_compared_with_its_opposite() -> None:
    _, command = experiment(build_campaign(), "segmentation_off")
    assert "tso=off,on" in settings(command)


def test_a_shaper_outside_the_study_is_not_removed() -> None:
    assert experiment(build_campaign(), "link_full") == ({}, "")


def test_levels_that_are_words_are_separated_by_commas() -> None:
    assert format_levels("thread_cpus", ("any", "spread")) == "any,spread"
    assert format_levels("mtu", (1500, 9000)) == "1500,9000"
    assert format_levels("cpus", ("0", "1 each")) == '["0", "1 each"]'


def test_vms_with_exclusive_cpus_get_no_exclusive_cpus() -> None:
    shared, apart = (
        build_campaign(f'title = "t"\n[factors]\ncpus = "{cpus}"\n', treatments=1) for cpus in ("0/0", "0/1")
    )
    assert settings(experiment(shared, "shared_by_vms").command) == ['cpus=["0/0", "1 each"]']
    assert experiment(apart, "shared_by_vms") == ({}, "")


@pytest.mark.parametrize(
    ("levels", "sender", "receiver", "modes"),
    [
        ("", True, True, True),
        ('cpus = "0/1"', False, False, False),
        ('cpus = "1 each"', False, False, False),
        ('cpus = "0-1/2"', True, False, True),
        ('cpus = "0-1/2"\ndirection = "reverse"', False, True, True),
        ('cpus = "0-1/2"\ndirection = "both"', True, True, True),
        ('cpus = "0-1"', True, True, True),
        ('thread_cpus = "0/1-2"', False, True, True),
    ],
)
def test_more_threads_are_suggested_if_several_cpus_are_allowed(
    levels: str, sender: bool, receiver: bool, modes: bool
) -> None:
    summary = build_campaign(f'title = "t"\n[factors]\nstreams = 1\n{levels}\n', treatments=1)
    causes = ("sender_cpu", "receiver_cpu", "two_modes")
    assert [bool(experiment(summary, cause).command) for cause in causes] == [sender, receiver, modes]


@pytest.mark.parametrize(
    ("levels", "setting", "expected"),
    [
        ("streams = 1\nthreads = 1", {"streams": 2, "threads": "auto"}, ["streams=1,2", "threads=auto"]),
        ("streams = 2\nthreads = 1", {"threads": "auto"}, ["threads=1,auto"]),
        ("streams = 1\nthreads = 2\ndirection = \"both\"", {"streams": 2, "threads": "auto"},
         ["streams=1,2", "threads=auto"]),
        ("streams = 4\nthreads = 4\ndirection = \"both\"", {"threads": "auto"}, ["threads=4,auto"]),
        ("streams = 1\nthreads = \"auto\"", {"streams": 2}, ["streams=1,2"]),
    ],
)  # fmt: skip
def test_more_streams_are_suggested_only_with_their_own_threads(
    levels: str, setting: dict[str, Level], expected: list[str]
) -> None:
    summary = build_campaign(f'title = "t"\n[factors]\n{levels}\n', treatments=1)
    for cause in ("sender_cpu", "receiver_cpu"):
        result, command = experiment(summary, cause)
        assert result == setting and settings(command) == expected


def test_more_connections_are_suggested_with_their_own_threads() -> None:
    study = 'title = "t"\nworkload = "tcp_rr"\n[factors]\nconnections = 3\nthreads = 3\n'
    setting, command = experiment(build_campaign(study, treatments=1), "receiver_cpu")
    assert setting == {"connections": 6, "threads": "auto"}
    assert settings(command) == ["connections=3,6", "threads=auto"]


def test_more_streams_as_flows_need_no_threads() -> None:
    summary = build_campaign('title = "t"\n[factors]\nstreams = 2\nthreads = 1\n', treatments=1)
    assert experiment(summary, "one_uplink").changed_levels == {"streams": 4}


@pytest.mark.parametrize(("vcpus", "offered"), [(1, False), (2, True)])
def test_no_additional_threads_are_suggested_for_a_guest_with_one_vcpu(vcpus: int, offered: bool) -> None:
    study = f'title = "t"\n[testbed]\nlab = "qemu"\n[factors]\nstreams = 1\nvcpus = {vcpus}\n'
    assert bool(experiment(build_campaign(study, treatments=1), "sender_cpu").command) is offered


def test_only_a_quota_of_the_study_is_removed() -> None:
    summary = build_campaign('title = "t"\n[factors]\ncpu_quota = "50 %"\n', treatments=1)
    assert settings(experiment(summary, "cpu_quota").command) == ["cpu_quota=50 %,none"]
    assert experiment(build_campaign(), "cpu_quota") == ({}, "")


def test_a_level_that_contains_a_comma_is_written_as_a_list() -> None:
    summary = build_campaign('title = "t"\n[factors]\ncpus = "0,2-3/1"\nirq_cpus = "1"\n', treatments=1)
    setting, command = experiment(summary, "shared_with_packets")
    assert setting == {"irq_cpus": "apart"}
    assert settings(command) == ['irq_cpus=["1", "apart"]']


def test_overrides_of_the_study_are_kept() -> None:
    summary = replace(build_campaign(), overrides=("precision.max_trials=9", "message_size=64 B"))
    _, command = experiment(summary, "sender_cpu")
    assert settings(command) == ["precision.max_trials=9", "streams=1,2", "mtu=1500", "message_size=64 B"]


def test_a_cause_without_a_setting_has_no_command() -> None:
    assert experiment(build_campaign(), "steal") == ({}, "")


def test_imported_trials_get_a_sentence_instead_of_a_command() -> None:
    summary = replace(build_campaign(), testbed_backend=IMPORTED_LAB)
    setting, words = experiment(summary, "small_messages")
    assert setting == {"message_size": 2**20}
    assert words == "measure the treatment again with message_size = 1 MiB instead of 64 B"
