"""A server with the API of Proxmox VE, as far as the audit uses it: HTTPS, an access token, JSON.

The answers have the forms that the API viewer of Proxmox VE 8 documents for `GET /cluster/resources` and
`GET /nodes/{node}/qemu/{vmid}/config`. The error messages are those of pveproxy. They are made for tests, not
recorded on a host.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from vnetbench.audit.files.proxmox import parse_config

TOKEN_NAME = "audit@pve!vnetbench"
TOKEN_SECRET = "3f0c1b1e-0000-4000-8000-5a5a5a5a5a5a"
NODE = "pve-01"


@dataclass
class ProxmoxHost:
    """The state that the server answers from."""

    configs: dict[int, str]
    """`qm config` texts by VM ID."""
    listed: list[int] = field(default_factory=list)
    """IDs that are listed although the VM no longer exists."""
    containers: int = 0
    cut_answers: bool = False
    """Whether answers end in the middle."""
    answer: str = ""
    """Answer to every request instead of the API's."""
    status: tuple[int, str] | None = None
    """Status of the configurations instead of 200."""
    is_silent: bool = False
    requests: list[str] = field(default_factory=list)
    """Methods and paths of all requests."""
    port: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def resources(self) -> list[dict[str, Any]]:
        """Return the answer of `GET /cluster/resources?type=vm`."""
        vms = [
            {"id": f"qemu/{vm_id}", "type": "qemu", "vmid": vm_id, "node": NODE, "status": "running",
             "name": parse_config(self.configs.get(vm_id, "")).get("name", f"VM {vm_id}"), "template": 0,
             "maxcpu": 4, "maxmem": 8589934592, "uptime": 86400}
            for vm_id in (*self.configs, *self.listed)
        ]  # fmt: skip
        containers = [
            {"id": f"lxc/{200 + n}", "type": "lxc", "vmid": 200 + n, "node": NODE, "status": "running"}
            for n in range(self.containers)
        ]
        return [*vms, *containers]


def config_as_json(text: str) -> dict[str, Any]:
    """Return a configuration as the API gives it: numbers as numbers, and the digest."""
    values: dict[str, Any] = dict(parse_config(text))
    for key in ("cores", "sockets", "numa", "kvm"):
        if key in values:
            values[key] = int(values[key])
    return {**values, "digest": "0" * 40}


def _make_handler(host: ProxmoxHost) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host.requests.append(f"GET {self.path}")
            if host.is_silent:
                host.released.wait()
                return
            if self.headers["Authorization"] != f"PVEAPIToken={TOKEN_NAME}={TOKEN_SECRET}":
                self._send(401, "authentication failure", "")
            elif host.answer:
                self._send(200, "OK", host.answer)
            elif self.path == "/api2/json/cluster/resources?type=vm":
                self._send(200, "OK", json.dumps({"data": host.resources()}))
            else:
                self._send_config()

        def _send_config(self) -> None:
            prefix, _, rest = self.path.partition("/qemu/")
            vm_id = int(rest.partition("/")[0])
            assert prefix == f"/api2/json/nodes/{NODE}" and rest == f"{vm_id}/config?current=1"
            if host.status:
                self._send(*host.status, '{"data":null}')
            elif vm_id in host.configs:
                self._send(200, "OK", json.dumps({"data": config_as_json(host.configs[vm_id])}))
            else:
                file = f"nodes/{NODE}/qemu-server/{vm_id}.conf"
                self._send(500, f"Configuration file '{file}' does not exist", '{"data":null}')

        def _send(self, status: int, reason: str, text: str) -> None:
            body = text.encode()
            self.send_response(status, reason)
            self.send_header("Content-Type", "application/json;charset=UTF-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if host.cut_answers else body)
            self.close_connection = host.cut_answers

        def do_POST(self) -> None:
            host.requests.append(f"POST {self.path}")
            self._send(501, "Not implemented", "")

        do_PUT = do_DELETE = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    return Handler


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for loopback that signs itself, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=pve-01", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@contextmanager
def serve(host: ProxmoxHost, certificate: Path, key: Path) -> Iterator[ProxmoxHost]:
    """Serve the API of a host on a port of loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(host))
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # Clients that refuse the certificate.
    server.socket = context.wrap_socket(server.socket, server_side=True)
    host.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield host
    finally:
        host.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
