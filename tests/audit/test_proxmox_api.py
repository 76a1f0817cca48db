"""Audits through the API of Proxmox VE: a real HTTPS server, and answers in the documented forms."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.proxmox_server import TOKEN_NAME, TOKEN_SECRET, ProxmoxHost, make_certificate, serve
from tests.audit.reading import read_sample
from tests.audit.vm_samples import QM_CONFIG
from tests.faults import bench_process as bench
from tests.free_ports import take_free_port
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.live import proxmox_api, time_limit
from vnetbench.commands.exit_codes import AUDIT_FOUND, BAD_INPUT, INPUT_PARTLY_READ
from vnetbench.errors import BenchError

pytest.importorskip("proxmoxer", reason="tools/prepare and make install it")
pytestmark = pytest.mark.pure

SECOND = QM_CONFIG.replace("name: web-01", "name: db-01").replace("24:11", "24:12")
EMULATED = SECOND.replace("net1: virtio", "net1: e1000")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def host(certificate: tuple[Path, Path]) -> Iterator[ProxmoxHost]:
    with serve(ProxmoxHost({101: QM_CONFIG, 102: SECOND}), *certificate) as host:
        yield host


@pytest.fixture(autouse=True)
def access(certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(proxmox_api.TOKEN_VARIABLE, f"{TOKEN_NAME}={TOKEN_SECRET}")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def target(host: ProxmoxHost, vm: str = "") -> str:
    return f"proxmox://127.0.0.1:{host.port}{vm}"


def facts(inventory: Inventory) -> list[tuple[str, str, dict[str, Any]]]:
    return [(each.kind, each.name, dict(each.facts)) for each in inventory.objects]


def test_the_api_gives_the_same_facts_as_the_file_and_nothing_is_written(host: ProxmoxHost) -> None:
    (inventory,) = proxmox_api.read_proxmox_api(target(host, "#101"))
    assert isinstance(inventory, Inventory)
    assert facts(inventory) == facts(read_sample("proxmox", QM_CONFIG))
    assert len(inventory.of_kind("adapter")) == 2
    assert host.requests == [
        "GET /api2/json/cluster/resources?type=vm",
        "GET /api2/json/nodes/pve-01/qemu/101/config?current=1",
    ]


def test_all_vms_are_audited_and_containers_are_left_out(host: ProxmoxHost) -> None:
    host.containers = 2
    assert bench.run("audit", target(host))[0] == 0
    host.configs[102] = EMULATED
    code, output = bench.run("audit", "--json", target(host))
    document = json.loads(output)
    assert code == AUDIT_FOUND
    (finding,) = document["findings"]
    assert (finding["rule"], finding["object"]) == ("emulated_adapter_in_kvm", "db-01 net1")
    assert document["notes"] == [f"{target(host)}: 2 containers left out. The audit reads VMs."]


def test_one_vm_is_named_by_its_id_or_its_name(host: ProxmoxHost) -> None:
    host.configs[102] = EMULATED
    assert bench.run("audit", target(host, "#web-01"))[0] == 0
    assert bench.run("audit", target(host, "#102"))[0] == AUDIT_FOUND
    code, output = bench.run("audit", target(host, "#103"))
    assert code == BAD_INPUT and "#103: there is no such VM\n" in output


def test_equal_addresses_of_two_vms_are_found(host: ProxmoxHost) -> None:
    host.configs[102] = QM_CONFIG.replace("name: web-01", "name: copy")
    _, output = bench.run("audit", "--json", target(host))
    assert {each["rule"] for each in json.loads(output)["findings"]} == {"duplicate_mac_address"}


def test_the_token_may_be_in_a_netrc_file_that_only_its_user_reads(
    host: ProxmoxHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(proxmox_api.TOKEN_VARIABLE)
    file = tmp_path / "netrc"
    file.write_text(f"machine 127.0.0.1 login {TOKEN_NAME} password {TOKEN_SECRET}\n")
    file.chmod(0o644)
    code, output = bench.run("audit", target(host))
    assert code == BAD_INPUT and "other users can read the secrets" in output and host.requests == []
    file.chmod(0o600)
    assert bench.run("audit", target(host))[0] == 0
    file.write_text("machines 127.0.0.1")
    code, output = bench.run("audit", target(host))
    assert code == BAD_INPUT and f"{file}: the file is damaged" in output


def check_one_sentence(output: str, message: str) -> None:
    first, second = output.splitlines()
    assert first.startswith("vnetbench: proxmox://") and message in first
    assert second.startswith("  fix: ") and TOKEN_SECRET not in output


def test_a_wrong_token_is_refused_without_showing_its_secret(
    host: ProxmoxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "0000-wrong"
    monkeypatch.setenv(proxmox_api.TOKEN_VARIABLE, f"{TOKEN_NAME}={secret}")
    code, output = bench.run("audit", target(host))
    assert code == BAD_INPUT and secret not in output
    check_one_sentence(output, f"Proxmox VE refuses the token {TOKEN_NAME}")


@pytest.mark.parametrize(
    ("value", "message"),
    [("", "there is no token for this host"), ("root@pam=1", "the name of the token is not of the form"),
     ("secret", "the value has no name, or no secret")],
)  # fmt: skip
def test_a_missing_or_damaged_token_gives_one_sentence(
    value: str, message: str, host: ProxmoxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(proxmox_api.TOKEN_VARIABLE, value)
    code, output = bench.run("audit", target(host))
    assert code == BAD_INPUT and message in output and output.count("\n") == 2 and host.requests == []


def test_an_unknown_certificate_is_refused_before_the_token_is_sent(
    host: ProxmoxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    code, output = bench.run("audit", target(host))
    assert code == BAD_INPUT and host.requests == []
    check_one_sentence(output, "the certificate is refused: self")


@pytest.mark.parametrize(
    ("state", "message"),
    [({"cut_answers": True}, "the answer of the API is incomplete"),
     ({"answer": '{"data": [{"type": "qemu", "vm'}, "the answer of the API is incomplete"),
     ({"answer": '{"data": [{"type": "qemu"}]}'}, "the answer of the API is incomplete"),
     ({"answer": "[1]"}, "the answer of the API is incomplete"),
     ({"answer": '{"data": []}'}, "the token sees no VM")],
)  # fmt: skip
def test_half_an_answer_gives_one_sentence(state: dict[str, Any], message: str, host: ProxmoxHost) -> None:
    for name, value in state.items():
        setattr(host, name, value)
    code, output = bench.run("audit", target(host))
    assert code == BAD_INPUT
    check_one_sentence(output, message)


def test_an_unreachable_host_gives_one_sentence() -> None:
    code, output = bench.run("audit", f"proxmox://127.0.0.1:{take_free_port()}")
    assert code == BAD_INPUT
    check_one_sentence(output, "the API cannot be reached")


def test_a_silent_host_ends_at_the_time_limit(host: ProxmoxHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.is_silent = True
    with pytest.raises(BenchError, match=r"does not answer within 0\.5 s"):
        list(time_limit.yield_within_time_limit(proxmox_api.read_proxmox_api(target(host)), "pve", 0.5))


def test_a_vm_that_vanishes_is_reported_and_the_others_are_judged(host: ProxmoxHost) -> None:
    host.listed = [103]
    code, output = bench.run("audit", target(host))
    assert code == INPUT_PARTLY_READ
    assert "None of" in output and f"{target(host)}#103: there is no such VM, or it was removed" in output


@pytest.mark.parametrize(
    ("status", "message"),
    [((403, "Permission check failed (/vms/101, VM.Audit)"), "the token may not read this: Permission"),
     ((595, "No route to host"), "the API answers with an error: 595 No route to host")],
)  # fmt: skip
def test_a_vm_that_cannot_be_read_gives_one_sentence(
    status: tuple[int, str], message: str, host: ProxmoxHost
) -> None:
    host.status = status
    code, output = bench.run("audit", target(host, "#101"))
    assert code == BAD_INPUT
    check_one_sentence(output, message)


@pytest.mark.parametrize(
    "text", ["proxmox://", "proxmox://host:port", "proxmox://host/path", "proxmox://a:b@host"]
)
def test_a_damaged_target_gives_one_sentence(text: str) -> None:
    code, output = bench.run("audit", text)
    assert code == BAD_INPUT and output.count("\n") == 2 and "a:b" not in output


def test_without_the_library_the_error_says_how_to_install_it(
    host: ProxmoxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "proxmoxer", None)
    with pytest.raises(BenchError) as error:
        list(proxmox_api.read_proxmox_api(target(host)))
    assert error.value.fix == "pip install 'vnetbench[proxmox]'"
