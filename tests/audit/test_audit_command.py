"""The command `audit`: its targets, forms, baseline, exit codes and errors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.audit.export_samples import make_export, make_windows_guest
from tests.audit.linux_samples import HOST, VMWARE_GUEST
from tests.audit.vm_samples import DOMAIN, QM_CONFIG, VMX
from tests.faults import bench_process as bench
from vnetbench.commands.exit_codes import AUDIT_FOUND, BAD_INPUT, INPUT_PARTLY_READ

pytestmark = pytest.mark.pure

EMULATED = VMX.replace('ethernet0.virtualDev = "vmxnet3"', 'ethernet0.virtualDev = "e1000"')
NOTE_ONLY = VMX.replace('scsi0.virtualDev = "pvscsi"', 'scsi0.virtualDev = "lsilogic"')
TEXT = {"type": "string", "minLength": 1}
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": TEXT}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
SARIF_SCHEMA = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": {
            "type": "object",
            "required": ["tool", "results"],
            "properties": {
                "tool": {"type": "object", "required": ["driver"], "properties": {"driver": {
                    "type": "object", "required": ["name", "rules"],
                    "properties": {"name": TEXT, "rules": {"type": "array", "uniqueItems": True, "items": {
                        "type": "object", "required": ["id"],
                        "properties": {"id": TEXT, "shortDescription": MESSAGE, "help": MESSAGE,
                                       "defaultConfiguration": {"properties": {"level": LEVEL}}},
                    }}},
                }}},
                "results": {"type": "array", "items": {
                    "type": "object",
                    "required": ["ruleId", "ruleIndex", "level", "message", "locations"],
                    "properties": {"message": MESSAGE, "level": LEVEL,
                                   "ruleIndex": {"type": "integer", "minimum": 0},
                                   "locations": {"type": "array", "minItems": 1}},
                }},
            },
        }},
    },
}  # fmt: skip
"""The parts of SARIF 2.1.0 (OASIS) that the audit writes: required keys and the values that it allows."""


def write(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with one file of each form, of which one has a fault."""
    for name, content in {
        "web.vmx": EMULATED, "domain.xml": DOMAIN, "101.conf": QM_CONFIG, "inventory.json": make_export(),
        "guest.json": make_windows_guest(), "host.txt": HOST, "notes.txt": "buy milk",
    }.items():  # fmt: skip
        write(tmp_path, name, content)
    return tmp_path


def test_the_first_sentence_answers_and_the_exit_code_says_if_something_is_wrong(tmp_path: Path) -> None:
    code, output = bench.run_warm("audit", write(tmp_path, "web.vmx", EMULATED))
    assert code == AUDIT_FOUND
    assert re.match(r"1 of \d+ rules that apply here finds something: 1 warning\.\n", output)
    assert "web-01 ethernet0: adapter type e1000" in output and "vmxnet3" in output
    assert "vnetbench run studies/adapters.toml" in output and "KB 1001805" in output
    code, output = bench.run_warm("audit", write(tmp_path, "clean.vmx", VMX))
    assert code == 0 and re.match(r"None of \d+ rules that apply here finds anything\.\n", output)
    code, output = bench.run_warm("audit", write(tmp_path, "note.vmx", NOTE_ONLY))
    assert code == 0 and ": 1 note." in output


def test_a_folder_is_read_as_a_whole(folder: Path) -> None:
    code, output = bench.run_warm("audit", "--json", folder)
    document = json.loads(output)
    assert code == AUDIT_FOUND and len(document["targets"]) == 6
    (finding,) = document["findings"]
    assert (finding["rule"], finding["target"]) == ("emulated_adapter_in_vsphere", str(folder / "web.vmx"))
    assert finding["found"] == "adapter type e1000" and finding["read_from"] == ["ethernet0.virtualDev"]
    assert finding["matters_here"]["state"] == "provable"
    assert document["notes"] == [f"{folder}: 1 file of other forms left out."]
    assert set(document["severities"]) == {"error", "warning", "note"}


@pytest.mark.parametrize("form", ["markdown", "html", "sarif"])
def test_hostile_names_stay_text_in_every_form(form: str, tmp_path: Path) -> None:
    name = "<script>alert(1)</script> | `x` \x1b[31m"
    path = write(tmp_path, "web.vmx", EMULATED.replace('displayName = "web-01"', f'displayName = "{name}"'))
    _, output = bench.run_warm("audit", "--format", form, path)
    assert "alert(1)" in output and "\x1b" not in output
    if form == "sarif":
        document = json.loads(output)
        jsonschema.validate(document, SARIF_SCHEMA)
        (run,) = document["runs"]
        (result,) = run["results"]
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    else:
        assert "<script>" not in output


def test_a_name_in_a_fix_is_quoted_for_the_shell(tmp_path: Path) -> None:
    listing = VMWARE_GUEST.replace("ens192", "x;reboot").replace("offload: on", "offload: off", 1)
    _, output = bench.run_warm("audit", "--json", write(tmp_path, "web.txt", listing))
    (finding,) = json.loads(output)["findings"]
    assert finding["fix"] == "ethtool -K 'x;reboot' tso on"


def test_a_baseline_leaves_only_what_is_new(folder: Path) -> None:
    _, before = bench.run_warm("audit", "--json", folder)
    baseline = write(folder.parent, "baseline.json", before)
    code, output = bench.run_warm("audit", "--baseline", baseline, folder)
    assert code == 0 and "finds anything new" in output and "1 finding of the baseline not shown" in output
    write(folder, "101.conf", QM_CONFIG.replace("agent: 1\n", "").replace("net1: virtio", "net1: e1000"))
    code, output = bench.run_warm("audit", "--json", "--baseline", baseline, folder)
    assert code == AUDIT_FOUND
    assert [each["rule"] for each in json.loads(output)["findings"]] == [
        "emulated_adapter_in_kvm",
        "guest_agent_off",
    ]


def test_rules_are_listed_and_disabled(tmp_path: Path) -> None:
    code, output = bench.run_warm("audit", "--rules")
    assert code == 0 and len(output.splitlines()) >= 60
    _, output = bench.run_warm("audit", "--rules", "--json")
    assert {"id", "severity", "source", "fix"} <= set(json.loads(output)["rules"][0])
    path = write(tmp_path, "web.vmx", EMULATED)
    code, output = bench.run_warm("audit", "--disable", "emulated_adapter_in_vsphere", path)
    assert code == 0 and output.startswith("None of")


def test_the_scripts_are_printed() -> None:
    _, windows = bench.run_warm("audit", "--windows-script")
    assert "ConvertTo-Json" in windows and "vnetbench_windows_audit = 1" in windows
    _, linux = bench.run_warm("audit", "--linux-script")
    assert "vnetbench-linux-audit 1" in linux


BAD_FILES = {
    "half.json": json.dumps(make_export())[:500],
    "half.xml": DOMAIN[:400],
    "half.txt": HOST[:900],
    "entities.xml": '<!DOCTYPE d [<!ENTITY a "aaaa">]><domain>&a;</domain>',
    "deep.xml": "<domain>" * 10_000,
    "deep.json": "[" * 100_000,
    "binary.vmx": "config.version\0\1\2",
    "empty.vmx": "",
    "other.txt": "buy milk",
    "other.json": '{"a": 1}',
    "other.xml": "<network><name>default</name></network>",
    "newer.json": '{"vnetbench_windows_audit": 2}',
    "no-adapter.json": '{"vnetbench_windows_audit": 1, "adapters": []}',
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_gives_one_sentence_and_the_fix(name: str, tmp_path: Path) -> None:
    code, output = bench.run_warm("audit", write(tmp_path, name, BAD_FILES[name]))
    assert code == BAD_INPUT
    first, second = output.splitlines()
    assert first.startswith(f"vnetbench: {tmp_path / name}: ") and second.startswith("  fix: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.vmx",), "there is no such file"),
        (("--", "-oProxyCommand=reboot"), "this names no machine"),
        (("two words",), "this names no machine"),
        (("--disable", "gro_of"), "there is no rule gro_of"),
        (("--baseline", "missing.json"), "cannot read the file"),
    ],
)
def test_a_bad_argument_gives_one_sentence_and_the_fix(arguments: tuple[str, ...], message: str) -> None:
    code, output = bench.run_warm("audit", *arguments)
    assert code == BAD_INPUT and message in output and "fix: " in output


def test_what_can_be_read_is_shown_although_something_cannot(tmp_path: Path) -> None:
    good, bad = write(tmp_path, "web.vmx", EMULATED), write(tmp_path, "half.xml", DOMAIN[:400])
    code, output = bench.run_warm("audit", bad, good)
    assert code == INPUT_PARTLY_READ
    assert "adapter type e1000" in output and "half.xml: this is no complete XML document" in output


def test_a_vm_in_two_files_is_no_duplicate_and_two_vms_with_one_address_are(tmp_path: Path) -> None:
    write(tmp_path, "a.vmx", VMX)
    write(tmp_path, "b.vmx", VMX)
    assert bench.run_warm("audit", tmp_path)[0] == 0
    write(tmp_path, "b.vmx", VMX.replace("web-01", "web-02"))
    code, output = bench.run_warm("audit", "--json", tmp_path)
    assert code == AUDIT_FOUND
    assert {each["rule"] for each in json.loads(output)["findings"]} == {"duplicate_mac_address"}
