"""What a failed connection to a host is called, from the log of OpenSSH's client."""

from __future__ import annotations

import pytest

from vnetbench.lab.hosts.ssh_errors import connection_error

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("log", "has_client_ended", "what"),
    [
        ("", True, "the host closed the connection (during the login)"),
        ("", False, "the connection failed (no answer)"),
        ("odd words", True, "the connection failed (odd words)"),
        (
            "@@@@\nPermission denied (publickey).",
            True,
            "the host accepts none of your keys (Permission denied (publickey).)",
        ),
    ],
)
def test_a_failed_connection_is_named(log: str, has_client_ended: bool, what: str) -> None:
    error = connection_error("web-01", "root@web-01", log, has_client_ended=has_client_ended)
    assert error.what == what
    assert error.where == "web-01 (ssh root@web-01)"
    assert error.fix and "{ssh}" not in error.fix
