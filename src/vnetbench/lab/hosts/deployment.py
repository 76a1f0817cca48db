"""What the bench does on a host by its shell: looks at it, puts the agent there, takes it away again."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from itertools import pairwise

from vnetbench.agents.binary import agent_binary, agent_hash, agent_machine
from vnetbench.errors import BenchError
from vnetbench.lab.hosts.ssh import Machine
from vnetbench.printable import printable

AGENT = "vnetbench-agent"
FOLDER_PREFIX = "vnetbench"

# A login may print what it likes: what the scripts say begins with an @.
_HEAD = 'LC_ALL=C; PATH="$PATH:/usr/sbin:/sbin"; export LC_ALL PATH; umask 077\n'

# /run first: it goes with a reboot, as the knobs do that the journal is about. Not XDG_RUNTIME_DIR: it goes
# with the last login, and a journal must outlive a lost connection.
_EACH_PARENT = 'for parent in /run /var/tmp /tmp "$HOME"; do folder=$parent/$1\n'

SURVEY = (
    _HEAD
    + """
echo "@system $(uname -s)"
echo "@machine $(uname -m)"
echo "@user $(id -un)"
echo "@uid $(id -u)"
echo "@connection ${SSH_CONNECTION:-}"
for tool in ip sha256sum df; do command -v $tool >/dev/null || echo "@lacks $tool"; done
ip -o address show 2>/dev/null | sed 's/^/@address /'
"""
)

# Arguments: the folder's name, the KiB that the agent takes, its SHA-256. Its input is the agent.
PUT = (
    _HEAD
    + _EACH_PARENT
    + r"""
    why=$(mkdir -m 700 "$folder" 2>&1) || { echo "@not $parent: ${why##*: }"; continue; }
    free=$(df -Pk "$folder" | tail -n 1 | { read -r _ _ _ free _; echo "$free"; })
    why=$( { printf '#!/bin/sh\n' >"$folder/try" && chmod 700 "$folder/try"; } 2>&1 )
    if [ -n "$why" ]; then echo "@not $parent: ${why##*: }"
    elif ! "$folder/try" 2>/dev/null; then echo "@not $parent: programs may not be run there (noexec)"
    elif [ "$free" -lt "$2" ]; then echo "@not $parent: $free KiB are free, and $2 are needed"
    else
        rm "$folder/try"
        why=$( { cat >"$folder/vnetbench-agent" && chmod 700 "$folder/vnetbench-agent"; } 2>&1 )
        sum=$(sha256sum "$folder/vnetbench-agent" | cut -d ' ' -f 1)
        if [ "$sum" = "$3" ]; then echo "@folder $folder"; exit 0; fi
        rm -rf "$folder"
        echo "@not $parent: ${why:+${why##*: }, and }what arrived is not what was sent"
        exit 1
    fi
    rm -rf "$folder"
done
exit 1
"""
)

# Argument: the folder's name. One that still runs there, its connection lost, is told to end by `restore`.
# In /tmp others may make one of that name, or a link: the program in it is run only where it is our own.
REMOVE = (
    _HEAD
    + _EACH_PARENT
    + r"""
    [ -d "$folder" ] && [ ! -L "$folder" ] && [ -O "$folder" ] || continue
    if [ -e "$folder/journal" ]; then
        said=$("$folder/vnetbench-agent" restore "$folder" 2>&1) ||
            { echo "$said" | sed 's/^/@not /'; exit 1; }
    fi
    rm -rf "$folder"
    echo "@removed $folder"
done
exit 0
"""
)


@dataclass(frozen=True)
class Survey:
    """What a host is, as far as it matters before the agent runs there."""

    system: str
    machine: str
    user: str
    is_root: bool
    reached_at: str
    """The address of its own that the connection came to; empty where it does not say."""
    lacks: tuple[str, ...]
    addresses: str
    """What `ip -o address show` prints."""


def survey(machine: Machine) -> Survey:
    """Look at a host; raises BenchError where the agent cannot run."""
    ran = machine.run(SURVEY)
    said = _said(ran.output)
    if "uid" not in said:
        raise BenchError(
            f"its shell does not run commands: {_last(ran.errors) or 'it says nothing'}",
            where=machine.name,
            fix="log in as a user with a POSIX shell (ssh ... 'id -u' must print a number)",
        )
    connection = said.get("connection", [""])[0].split()
    found = Survey(
        said["system"][0], said["machine"][0], said["user"][0], said["uid"][0] == "0",
        connection[2] if len(connection) == 4 else "", tuple(said.get("lacks", ())),
        "\n".join(said.get("address", ())),
    )  # fmt: skip
    ours = agent_machine()
    if found.system != "Linux":
        raise BenchError(
            f"it runs {found.system}, and the agent runs on Linux",
            where=machine.name,
            fix="have it run an iperf3 server, and write iperf3 = in place of ssh = (docs/how-to)",
        )
    if found.machine not in ours:
        raise BenchError(
            f"it is a {found.machine}, and the agent here is for {ours[0]}",
            where=machine.name,
            fix=f"build the agent for {found.machine} (cargo build --release, on such a machine) and name it "
            "in VNETBENCH_AGENT, for hosts of one kind; or write iperf3 = in place of ssh =",
        )
    if found.lacks:
        raise BenchError(
            f"it lacks {' and '.join(found.lacks)}",
            where=machine.name,
            fix="install iproute2 and coreutils there",
        )
    return found


def folder_name(user: str) -> str:
    """A fresh name for the agent's folder on a host."""
    safe = "".join(c for c in user if c.isascii() and c.isalnum())
    return f"{FOLDER_PREFIX}-{safe or 'user'}-{secrets.token_hex(6)}"


def put(machine: Machine, name: str) -> str:
    """Put the agent into a new folder of this name, checked by its hash; returns the folder.

    Raises BenchError that says of every place why it cannot be there.
    """
    binary = agent_binary()
    kib = binary.stat().st_size // 1024 + 64  # with a journal beside it
    ran = machine.run(PUT, name, str(kib), agent_hash(), given=binary)
    said = _said(ran.output)
    if ran.code == 0 and said.get("folder"):
        return said["folder"][0]
    reasons = "; ".join(said.get("not", ())) or _last(ran.errors) or "its shell ended"
    raise BenchError(
        f"there is no place for the agent: {reasons}",
        where=machine.name,
        fix=f"make room of {kib} KiB in one of /run, /var/tmp, /tmp, the home, mounted without noexec",
    )


def remove(machine: Machine, name: str) -> bool:
    """End what is left of an agent in a folder of this name, put back what it set, remove the folder.

    Returns whether there was anything. Raises BenchError where something cannot be put back.
    """
    ran = machine.run(REMOVE, name)
    said = _said(ran.output)
    if ran.code != 0:
        raise BenchError(
            f"what was set there cannot be put back: {'; '.join(said.get('not', ())) or _last(ran.errors)}",
            where=machine.name,
            fix="the file journal in that folder says what was found; set it by hand, then remove the folder",
        )
    return "removed" in said


def route(machine: Machine, to: str, source: str | None) -> tuple[str, str]:
    """The interface by which packets to an address leave, and the address that they come from.

    Raises BenchError where there is no route.
    """
    way = ["ip", "-o", "route", "get", to, *(("from", source) if source else ())]
    ran = machine.run(_HEAD + '"$@" | sed "s/^/@route /"', *way)
    words = " ".join(_said(ran.output).get("route", [])).split()
    told = dict(pairwise(words))
    if "dev" not in told or not (source or "src" in told):
        raise BenchError(
            f"it has no route to {to}: {_last(ran.errors) or 'none is told'}",
            where=machine.name,
            fix=f"{' '.join(way)} there shows what is missing",
        )
    return told["dev"], source or told["src"]


def _said(output: str) -> dict[str, list[str]]:
    """What a script said: by its first words, all that follow them."""
    said: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.startswith("@"):
            word, _, rest = line[1:].partition(" ")
            said.setdefault(word, []).append(printable(rest.strip()))
    return said


def _last(text: str) -> str:
    return printable(text.strip().splitlines()[-1]) if text.strip() else ""
