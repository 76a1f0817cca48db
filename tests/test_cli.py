"""The command line: exit codes, output and error messages."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import fixtures
from tests.faults import bench_process as bench
from vnetbench.estimate.time_series import metric_time_series

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.pure


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    for block in range(6):
        for treatment in range(4):
            file.add_trial(fixtures.make_trial(treatment, block), block)
    for treatment in range(4):
        file.set_treatment_state(treatment, "precision")
    file.close("finished")
    return path


def test_help_names_every_command() -> None:
    code, output = bench.run("--help")
    assert code == 0
    for command in (
        "run", "resume", "show", "explain", "report", "compare", "lab", "iperf3", "doctor", "throughput"
    ):  # fmt: skip
        assert f"\n  {command} " in output


def test_an_invalid_option_of_throughput_has_the_error_of_the_study() -> None:
    for options, message in (
        (("--frame-size", "63"), "63 is out of range"),
        (("--vswitch", "brigde"), 'did you mean "bridge"?'),
        (("--method", "rfc"), 'did you mean "rfc2544"?'),
        (("--loss", "1 %, 0 %"), "ascending"),
        (("--adapter", "vmxnet3", "--vswitch", "bridge"), "vswitch cannot be set in the lab qemu"),
    ):
        code, output = bench.run_warm("throughput", *options)
        assert code == 2
        assert message in output and "fix: " in output


def test_a_search_method_without_its_library_is_an_error_before_a_file_is_created(tmp_path: Path) -> None:
    (tmp_path / "MLRsearch.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    code, output = bench.run(
        "throughput", "--method", "mlrsearch", "-o", tmp_path / "r.vnb", env={"PYTHONPATH": path}
    )

    assert code == 2
    assert "needs the library MLRsearch" in output and "pip install 'vnetbench[mlrsearch]'" in output
    assert not (tmp_path / "r.vnb").exists()


def test_show_in_a_pipe_prints_plain_text_of_80_columns(results: Path) -> None:
    code, output = bench.run_warm("show", results)
    assert code == 0
    assert "\x1b" not in output
    assert max(map(len, output.splitlines())) <= 80
    assert "9.9" in output


def test_show_json_and_csv_contain_the_estimates(results: Path) -> None:
    document = json.loads(bench.run_warm("show", "--json", results)[1])
    assert document["title"] == "Synthetic"
    first = document["treatments"][0]
    assert first["factors"] == {"streams": 1, "mtu": 1500}
    assert (first["trial_count"], first["stopped_by"]) == (6, "precision")
    goodput = first["metrics"]["goodput_bps"]
    assert goodput["low"] <= goodput["value"] <= goodput["high"]
    assert goodput["unit"] == "bit/s"
    rows = list(csv.DictReader(io.StringIO(bench.run_warm("show", "--csv", results)[1])))
    assert len(rows) == 4
    assert bench.run_warm("show", "--markdown", results)[1].count("\n|") >= 5


def test_explain_in_a_pipe_prints_plain_text_of_80_columns_except_for_commands(results: Path) -> None:
    code, output = bench.run_warm("explain", str(results))
    assert code == 0 and "\x1b" not in output
    first = "MTU 9000 instead of 1500 makes no significant difference in goodput here: ×"
    assert " ".join(output.split()).startswith(first)
    assert [line for line in output.splitlines() if len(line) > 80 and "vnetbench run" not in line] == []


def test_an_error_keeps_a_file_name_that_reads_like_an_emoji(tmp_path: Path) -> None:
    code, output = bench.run_warm("show", str(tmp_path / ":x:.vnb"))
    assert code == 2
    assert f"vnetbench: {tmp_path}/:x:.vnb: " in output


def test_every_console_prints_colons_as_they_are() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    consoles = [options for text in sources for options in re.findall(r"\bConsole\(([^)]*)", text)]
    assert consoles
    assert [options for options in consoles if "emoji=False" not in options] == []


def test_show_and_explain_start_with_the_same_answer(results: Path) -> None:
    shown, explained = (bench.run_warm(command, str(results))[1] for command in ("show", "explain"))
    assert shown.split("\n\n")[0] == explained.split("\n\n")[0]


@pytest.mark.parametrize("command", ["show", "explain"])
def test_no_line_in_a_pipe_ends_with_spaces(results: Path, command: str) -> None:
    lines = bench.run_warm(command, str(results))[1].splitlines()
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), ("explain", "{results}"), ("report", "{results}", "-o", "{page}")],
    ids=lambda arguments: arguments[0],
)
def test_commands_that_only_read_results_import_no_module_that_creates_networks(
    results: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    command = [each.format(results=results, page=tmp_path / "page.html") for each in arguments]
    program = (
        "import sys\nfrom vnetbench.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print([name for name in ('pyroute2', 'plumbum', 'vnetbench.campaign.run') if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, *command], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines()[-1] == "[]"


def test_explain_of_one_treatment_contains_only_its_findings(results: Path) -> None:
    code, output = bench.run_warm("explain", str(results), "--json", "--treatment", "mtu=9000,streams=4")
    document = json.loads(output)
    assert code == 0 and document["answer"] == []
    assert all(3 in finding["treatments"] for finding in document["findings"])
    for selector in ("3", "mtu=9000,streams=4,vswitch=bridge"):
        assert (
            json.loads(bench.run_warm("explain", str(results), "--json", "--treatment", selector)[1])
            == document
        )


def test_explain_of_a_published_table_says_why_it_has_no_findings() -> None:
    code, output = bench.run_warm("explain", "reference:ntttcp-vmxnet3-2011")
    assert (code, output) == (0, "Published results have no trials, so they cannot be explained.\n")


def test_explain_of_one_treatment_includes_what_makes_all_treatments_unstable(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    for block in range(8):
        for treatment in range(4):
            file.add_trial(fixtures.make_trial(treatment, block, rates=[1e10 * 0.9**block] * 20), block)
    file.close("finished")
    document = json.loads(bench.run_warm("explain", str(path), "--json", "--treatment", "3")[1])
    drift, *others = (finding for finding in document["findings"] if 3 not in finding["treatments"])
    assert drift["details"]["cause"] == "drift" and others == []


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("streams=7", "no treatment matches streams=7"),
        ("streem=1", 'did you mean "streams"?'),
        ("foo=9", "fix: give levels of the factors streams, mtu"),
        ("vswitch=direct", "no treatment matches vswitch=direct"),
        ("9", "no treatment matches 9"),
    ],
)
def test_an_unknown_treatment_is_an_error_with_a_fix(results: Path, selector: str, message: str) -> None:
    code, output = bench.run_warm("explain", str(results), "--treatment", selector)
    assert code == 2 and message in output and "fix: " in output


def test_prove_fails_if_no_cause_can_be_tested_by_an_experiment(tmp_path: Path) -> None:
    study = fixtures.make_study(
        'title = "t"\nworkload = "frames"\n[factors]\nframe_size = 64\nframe_load = "1 kframe/s"\n'
    )
    file, _ = fixtures.create_results_file(tmp_path / "r.vnb", study)
    file.close("finished")
    code, output = bench.run_warm("explain", str(tmp_path / "r.vnb"), "--prove")
    assert code == 2 and "no candidate cause can be tested by an experiment" in output


def test_a_treatment_to_diagnose_needs_the_diagnosis(tmp_path: Path) -> None:
    code, output = bench.run_warm("run", tmp_path / "study.toml", "--treatment", "0")
    assert code == 2 and "--treatment needs --diagnose" in output and "fix: " in output


def test_a_proof_file_of_another_study_is_reported_and_not_used(results: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    path.write_bytes(results.read_bytes())
    other = fixtures.make_study(fixtures.STUDY_TEXT.replace("Synthetic", "Another"))
    file, _ = fixtures.create_results_file(tmp_path / "r.proof.vnb", other)
    file.close("finished")
    code, output = bench.run_warm("explain", str(path))
    assert code == 0 and "r.proof.vnb is not used, because it belongs to another study" in " ".join(
        output.split()
    )
    assert bench.run_warm("explain", str(path), "--prove")[0] == 2


def test_a_proof_with_refused_treatments_is_reported_and_fails(results: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    path.write_bytes(results.read_bytes())
    file, plan = fixtures.create_results_file(tmp_path / "r.proof.vnb")
    for treatment in plan.treatments:
        file.set_treatment_state(treatment.index, "refused", "a1 eth0: tso = on cannot be set")
    file.close("finished")
    code, output = bench.run_warm("explain", str(path), "--prove")
    text = " ".join(output.split())
    assert code == 1 and "nothing to compare (a1 eth0: tso = on cannot be set) fix: correct the cause" in text
    assert "and has nothing to compare" in text
    assert bench.run_warm("explain", str(path))[0] == 0


def test_an_unknown_treatment_is_an_error_before_any_experiment_runs(results: Path) -> None:
    code, output = bench.run_warm("explain", str(results), "--prove", "--treatment", "9")
    assert code == 2 and "no treatment matches 9" in output


def test_a_closed_output_pipe_is_no_error(results: Path) -> None:
    process = subprocess.run(
        f"{sys.executable} -m vnetbench show --json {results} | head -c 10",
        shell=True, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert process.stderr == ""


def test_report_writes_the_page_to_the_path_of_its_option(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, output = bench.run_warm("report", results, "-o", page)
    assert (code, output.strip()) == (0, str(page))
    assert 10_000 < page.stat().st_size < 3_000_000
    code, output = bench.run_warm("report", results, "-o", tmp_path / "no" / "page.html")
    assert code == 2
    assert "fix:" in output


def test_compare_fails_only_after_a_significant_regression(results: Path, tmp_path: Path) -> None:
    slower = tmp_path / "slower.vnb"
    file, _ = fixtures.create_results_file(slower)
    for block in range(6):
        for treatment in range(4):
            rates = [
                rate * 0.8
                for rate in metric_time_series(fixtures.make_trial(treatment, block, seed=7)).values
            ]
            file.add_trial(fixtures.make_trial(treatment, block, rates=rates), block)
    file.close("finished")
    assert bench.run_warm("compare", results, slower)[0] == 0
    assert bench.run_warm("compare", results, slower, "--fail-if-worse", "5%")[0] == 3
    assert bench.run_warm("compare", results, slower, "--fail-if-worse", "30%")[0] == 0
    assert bench.run_warm("compare", results, results, "--fail-if-worse", "1%")[0] == 0
    assert bench.run_warm("compare", slower, results, "--fail-if-worse", "1%")[0] == 0
    code, output = bench.run_warm("compare", results, slower, "--fail-if-worse", "five")
    assert code == 2
    assert '"five" is not a share' in output


def test_compare_fails_if_every_shared_treatment_now_fails(results: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.vnb"
    file, _ = fixtures.create_results_file(broken)
    for treatment in range(4):
        file.add_trial(fixtures.make_trial(treatment, 0, failure="no packet arrived"), treatment)
        file.set_treatment_state(treatment, "failed")
    file.close("finished")
    code, output = bench.run_warm("compare", results, broken, "--fail-if-worse", "5%")
    assert code == 3
    assert "refused or failed" in output and "4 treatments" in output
    code, output = bench.run_warm("compare", broken, results, "--fail-if-worse", "5%")
    assert code == 2
    assert "no treatment has" in output and "fix:" in output


def test_commands_accept_a_published_table_in_place_of_a_results_file(results: Path, tmp_path: Path) -> None:
    code, output = bench.run_warm("reference", "list")
    assert code == 0 and "ntttcp-vmxnet3-2011" in output and "44 values" in output
    code, output = bench.run_warm("reference", "show", "ntttcp-vmxnet3-2011")
    assert (code, bench.run_warm("show", "reference:ntttcp-vmxnet3-2011")) == (0, (0, output))
    assert "best of five runs" in output and max(map(len, output.splitlines())) <= 80
    document = json.loads(bench.run_warm("reference", "show", "--json", "packet-forwarding-2011")[1])
    assert document["published_table"]["name"] == "packet-forwarding-2011"
    assert len(document["treatments"]) == 76
    page = tmp_path / "all.html"
    code, output = bench.run_warm("report", results, "reference:ntttcp-vmxnet3-2011", "-o", page)
    assert (code, output.strip()) == (0, str(page)) and "<h1>Comparison</h1>" in page.read_text()
    code, output = bench.run_warm("compare", "reference:ntttcp-vmxnet3-2011", results)
    text = " ".join(output.split())
    assert code == 0 and "19 published values compared with your measurements of goodput." in text
    assert "A published value has no trials, so its ratio has no interval (?)." in text
    code, output = bench.run_warm(
        "compare", "reference:ntttcp-vmxnet3-2011", results, "--fail-if-worse", "5%"
    )
    assert code == 2 and "has no trials" in output


def test_check_statements_compares_results_with_published_statements(results: Path) -> None:
    code, output = bench.run_warm("check-statements", results, "reference:packet-forwarding-2011")
    text = " ".join(output.split())
    assert code == 0 and "19 published statements" in text
    command = "vnetbench run studies/jumbo-frames.toml --set mtu=1500 --set streams=2,4,8,12,16"
    assert f"To check it: {command} S02 " in text
    document = json.loads(bench.run_warm("check-statements", "--json", results)[1])
    assert [statement["id"] for statement in document["statements"]][:2] == ["S01", "S02"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "no-such.toml"], "no-such.toml"),
        (["run", "studies/jumbo-frames.toml", "--set", "straems=1"], 'did you mean "streams"'),
        (["run", "studies/jumbo-frames.toml", "--set", "mtu=12"], "mtu"),
        (["run", "studies/jumbo-frames.toml", "--seed", "x"], "seed"),
        (["show"], "RESULTS"),
        (["report"], "RESULTS"),
        (["check-statements", "reference:packets"], "is not a published table"),
        (["reference", "show", "ntttcp"], "use one of packet-forwarding-2011"),
        (["dance"], "dance"),
        (["lab", "up", "Not A Name"], "is not a valid testbed name"),
        (["lab", "up", "t-cli", "--set", "streams=2"], "is a setting of a trial"),
        (["lab", "up", "t-cli", "--set", "mtu"], "FACTOR=LEVEL"),
        (["lab", "down", "t-none"], "no testbed named t-none"),
        (["lab", "down"], "no testbed is named"),
        (["lab", "exec", "t-none", "a1", "true"], "no testbed named t-none"),
    ],
)
def test_an_invalid_command_line_has_an_error_and_exit_code_2(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code, output = bench.run_warm(*arguments)
    assert code == 2, output
    assert message in output
