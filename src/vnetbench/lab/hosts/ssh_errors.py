"""What it means when OpenSSH's client does not connect, and what to do then."""

from __future__ import annotations

from vnetbench.errors import BenchError
from vnetbench.printable import printable


class Unreachable(BenchError):
    """There is no connection to a host, or no longer."""


# What OpenSSH says, what that means, and the fix; the first that fits holds. `{ssh}` is the destination.
_MEANINGS = (
    ("HOST IDENTIFICATION HAS CHANGED", "its host key is another than known_hosts has",
     "if it was installed anew, ssh-keygen -R its name, and ssh {ssh} once; else another machine answers"),
    ("Host key verification failed", "its host key is not known yet",
     "ssh {ssh} once by hand, and compare the key's fingerprint"),
    ("host key is known for", "its host key is not known yet",
     "ssh {ssh} once by hand, and compare the key's fingerprint"),
    ("Permission denied", "it refuses the login: no key of yours opens it",
     "ssh-copy-id {ssh}, or ssh-add the key; ssh -o BatchMode=yes {ssh} true must work"),
    ("Too many authentication failures", "it refuses the login after too many keys",
     "name the one key in ~/.ssh/config: IdentityFile, with IdentitiesOnly yes"),
    ("Could not resolve", "its name has no address",
     "write a name that ssh knows (~/.ssh/config, getent hosts), or its address"),
    ("Connection refused", "nothing listens on its SSH port",
     "start sshd there; another port is written ssh://user@host:PORT, or stands in ~/.ssh/config"),
    ("timed out", "it does not answer", "see that it runs, and that firewalls on the way let SSH through"),
    ("No route to host", "there is no way to it", "see that it runs, and routes and firewalls on the way"),
    ("unreachable", "there is no way to it", "see the routes of this machine (ip route get)"),
    ("UNPROTECTED PRIVATE KEY", "others may read your key, so it is not used", "chmod 600 the key file"),
    ("Bad owner or permissions", "your configuration of ssh is not used as it is", "chmod 600 ~/.ssh/config"),
    ("Bad configuration option", "your configuration of ssh has a mistake", "correct ~/.ssh/config"),
)  # fmt: skip
_UNKNOWN = ("no connection comes about", "ssh -o BatchMode=yes {ssh} true shows what goes wrong")


def unreachable(name: str, destination: str, said: str) -> Unreachable:
    """The error for what OpenSSH said, of which the line that tells most is kept."""
    lines = [line.strip("@ \r") for line in said.splitlines() if line.strip("@ \r")] or ["no answer"]
    told = (
        (line, what, fix) for words, what, fix in _MEANINGS for line in lines if words.lower() in line.lower()
    )
    line, what, fix = next(told, (lines[-1], *_UNKNOWN))
    return Unreachable(
        f"{what} ({printable(line)})",
        where=f"{name} (ssh {destination})",
        fix=fix.format(ssh=destination),
    )


def lost(name: str) -> Unreachable:
    """The error for a connection that was there."""
    return Unreachable("the SSH connection was lost", where=name, fix="see whether the host still runs")
