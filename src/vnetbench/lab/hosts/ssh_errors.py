"""Explains why OpenSSH's client cannot connect, and how to fix it."""

from __future__ import annotations

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable


class HostUnreachable(BenchError):
    """The host cannot be reached, or no longer."""


_CLIENT_MESSAGES = {
    "HOST IDENTIFICATION HAS CHANGED": (
        "the host key differs from the key in known_hosts",
        "if the host was reinstalled, run ssh-keygen -R with its name, then ssh {ssh}. Otherwise another "
        "machine answers",
    ),
    "Host key verification failed": (
        "the host key is not known yet",
        "run ssh {ssh} once by hand, and compare the key's fingerprint",
    ),
    "host key is known for": (
        "the host key is not known yet",
        "run ssh {ssh} once by hand, and compare the key's fingerprint",
    ),
    "Permission denied": (
        "the host accepts none of your keys",
        "run ssh-copy-id {ssh}, or add the key with ssh-add. The command ssh -o BatchMode=yes {ssh} true "
        "must work",
    ),
    "Too many authentication failures": (
        "the host refuses the login after too many keys",
        "name the key of this host in ~/.ssh/config: IdentityFile, with IdentitiesOnly yes",
    ),
    "Could not resolve": (
        "the host's name has no address",
        "write the host's address, or a name that ssh knows (~/.ssh/config, getent hosts)",
    ),
    "Connection refused": (
        "nothing listens on the host's SSH port",
        "start sshd on the host, or write another port as ssh://user@host:PORT or in ~/.ssh/config",
    ),
    "timed out": (
        "the host does not answer",
        "check that the host runs, and that firewalls on the path let SSH through",
    ),
    "No route to host": (
        "this machine has no route to the host",
        "check that the host runs, and check the routes and firewalls on the path",
    ),
    "unreachable": (
        "this machine has no route to the host",
        "check the routes of this machine (ip route get)",
    ),
    "UNPROTECTED PRIVATE KEY": (
        "ssh ignores your key because others may read it",
        "run chmod 600 on the key file",
    ),
    "Bad owner or permissions": (
        "ssh refuses your configuration because others may write it",
        "run chmod 600 ~/.ssh/config",
    ),
    "Bad configuration option": (
        "your configuration of ssh has an invalid option",
        "correct ~/.ssh/config",
    ),
}
"""The client's message: what it means, and the fix. The first match applies; `{ssh}` is the destination."""
_CLOSED_CONNECTION = (
    "the host closed the connection",
    "read the log of sshd on the host (journalctl -u ssh), and run ssh -v -o BatchMode=yes {ssh} true",
)
"""For a client that ended without a message: OpenSSH reports this only at a higher log level."""
_UNKNOWN_MESSAGE = ("the connection failed", "run ssh -o BatchMode=yes {ssh} true to see the cause")


def connection_error(
    name: str, destination: str, log: str, *, has_client_ended: bool = False
) -> HostUnreachable:
    """Return the error for what OpenSSH logged, with the line that explains most.

    Args:
        name: The host's name in the study.
        destination: As for ssh.
        log: What OpenSSH logged; may be empty.
        has_client_ended: Whether the client ended by itself, so that the host had answered.
    """
    lines = [line.strip("@ \r") for line in log.splitlines() if line.strip("@ \r")]
    unknown = _UNKNOWN_MESSAGE
    if not lines:
        lines, unknown = (
            (["during the login"], _CLOSED_CONNECTION) if has_client_ended else (["no answer"], unknown)
        )
    matches = (
        (line, what, fix)
        for words, (what, fix) in _CLIENT_MESSAGES.items()
        for line in lines
        if words.lower() in line.lower()
    )
    line, what, fix = next(matches, (lines[-1], *unknown))
    return HostUnreachable(
        f"{what} ({make_printable(line)})",
        where=f"{name} (ssh {destination})",
        fix=fix.format(ssh=destination),
    )


def connection_lost_error(name: str) -> HostUnreachable:
    """Return the error for a connection that was open before."""
    return HostUnreachable("the SSH connection was lost", where=name, fix="check whether the host still runs")
