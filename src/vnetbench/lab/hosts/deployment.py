"""Surveys a host, installs the agent and removes it again, all through the host's shell."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from itertools import pairwise

from vnetbench.agents.binary import agent_architectures, agent_binary_path, agent_sha256
from vnetbench.errors import BenchError
from vnetbench.lab.hosts.ssh import Machine
from vnetbench.lab.netlink import InterfaceAddress
from vnetbench.printable import make_printable

AGENT_FILE_NAME = "vnetbench-agent"
FOLDER_PREFIX = "vnetbench"

# A login may print other text, so the output lines of these scripts begin with an @.
_SCRIPT_HEAD = 'LC_ALL=C; PATH="$PATH:/usr/sbin:/sbin"; export LC_ALL PATH; umask 077\n'

# /run comes first: a reboot clears it together with the knobs that the journal records. XDG_RUNTIME_DIR does
# not serve: the last logout clears it, but a journal must survive a lost connection.
_FOR_EACH_PARENT_FOLDER = 'for parent in /run /var/tmp /tmp "$HOME"; do folder=$parent/$1\n'

SURVEY_SCRIPT = (
    _SCRIPT_HEAD
    + """
echo "@system $(uname -s)"
echo "@machine $(uname -m)"
echo "@user $(id -un)"
echo "@uid $(id -u)"
echo "@connection ${SSH_CONNECTION:-}"
for tool in ip sha256sum df; do command -v $tool >/dev/null || echo "@missing $tool"; done
ip -o address show 2>/dev/null | sed 's/^/@address /'
"""
)

# Arguments: the folder's name, the agent's size in KiB, its SHA-256. The input is the agent.
INSTALL_SCRIPT = (
    _SCRIPT_HEAD
    + _FOR_EACH_PARENT_FOLDER
    + r"""
    why=$(mkdir -m 700 "$folder" 2>&1) || { echo "@failed $parent: ${why##*: }"; continue; }
    free=$(df -Pk "$folder" | tail -n 1 | { read -r _ _ _ free _; echo "$free"; })
    why=$( { printf '#!/bin/sh\n' >"$folder/try" && chmod 700 "$folder/try"; } 2>&1 )
    if [ -n "$why" ]; then echo "@failed $parent: ${why##*: }"
    elif ! "$folder/try" 2>/dev/null; then echo "@failed $parent: programs may not run there (noexec)"
    elif [ "$free" -lt "$2" ]; then echo "@failed $parent: only $free KiB of $2 KiB are free"
    else
        rm "$folder/try"
        why=$( { cat >"$folder/vnetbench-agent" && chmod 700 "$folder/vnetbench-agent"; } 2>&1 )
        sum=$(sha256sum "$folder/vnetbench-agent" | cut -d ' ' -f 1)
        if [ "$sum" = "$3" ]; then echo "@folder $folder"; exit 0; fi
        rm -rf "$folder"
        echo "@failed $parent: ${why:+${why##*: }, and }the received file differs from the sent one"
        exit 1
    fi
    rm -rf "$folder"
done
exit 1
"""
)

# Argument: the folder's name. `restore` ends an agent that still runs there after its connection was lost.
# In /tmp, other users may create a folder or link of this name: the program runs only if we own the folder.
REMOVE_SCRIPT = (
    _SCRIPT_HEAD
    + _FOR_EACH_PARENT_FOLDER
    + r"""
    [ -d "$folder" ] && [ ! -L "$folder" ] && [ -O "$folder" ] || continue
    if [ -e "$folder/journal" ]; then
        output=$("$folder/vnetbench-agent" restore "$folder" 2>&1) ||
            { echo "$output" | sed 's/^/@failed /'; exit 1; }
    fi
    rm -rf "$folder"
    echo "@removed $folder"
done
exit 0
"""
)


@dataclass(frozen=True)
class HostSurvey:
    """Facts about a host that matter before the agent runs there."""

    system: str
    architecture: str
    user: str
    is_root: bool
    address_reached_by_ssh: str
    """The host's address to which SSH connected; empty if the host does not report it."""
    missing_tools: tuple[str, ...]
    address_listing: str
    """Output of `ip -o address show`."""


def survey_host(machine: Machine) -> HostSurvey:
    """Survey a host; raises BenchError if the agent cannot run there."""
    result = machine.run(SURVEY_SCRIPT)
    fields = _rest_of_lines_by_first_word(result.output)
    if not {"system", "machine", "user", "uid"} <= fields.keys():
        raise BenchError(
            f"the host's login shell does not run commands: {_last_line(result.errors) or 'no output'}",
            where=machine.name,
            fix="log in as a user with a POSIX shell (ssh ... 'id -u' must print a number)",
        )
    connection = fields.get("connection", [""])[0].split()
    survey = HostSurvey(
        fields["system"][0],
        fields["machine"][0],
        fields["user"][0],
        fields["uid"][0] == "0",
        connection[2] if len(connection) == 4 else "",
        tuple(fields.get("missing", ())),
        "\n".join(fields.get("address", ())),
    )
    architectures = agent_architectures()
    if survey.system != "Linux":
        raise BenchError(
            f"the host runs {survey.system}, but the agent needs Linux",
            where=machine.name,
            fix="run an iperf3 server on the host, and write iperf3 = ... instead of ssh = ... (docs/how-to)",
        )
    if survey.architecture not in architectures:
        raise BenchError(
            f"the host is a {survey.architecture} machine, but the agent is built for {architectures[0]}",
            where=machine.name,
            fix=f"if all hosts are {survey.architecture} machines, build the agent on one (cargo build "
            "--release) and set VNETBENCH_AGENT to the path of that agent; if not, run an iperf3 server on "
            "this host and write iperf3 = ... instead of ssh = ...",
        )
    if survey.missing_tools:
        raise BenchError(
            f"the host lacks {' and '.join(survey.missing_tools)}",
            where=machine.name,
            fix="install iproute2 and coreutils on the host",
        )
    return survey


def new_folder_name(user: str) -> str:
    """Return a new name for the agent's folder on a host."""
    safe = "".join(c for c in user if c.isascii() and c.isalnum())
    return f"{FOLDER_PREFIX}-{safe or 'user'}-{secrets.token_hex(6)}"


def install_agent_in_new_folder(machine: Machine, folder_name: str) -> str:
    """Install the agent into a new folder, check it by its hash, and return the folder's path.

    Raises:
        BenchError: with the reason for each parent folder that cannot hold the agent.
    """
    binary = agent_binary_path()
    kib = binary.stat().st_size // 1024 + 64  # The journal needs some space too.
    result = machine.run(INSTALL_SCRIPT, folder_name, str(kib), agent_sha256(), input_file=binary)
    fields = _rest_of_lines_by_first_word(result.output)
    if result.exit_code == 0 and fields.get("folder"):
        return fields["folder"][0]
    reasons = "; ".join(fields.get("failed", ())) or _last_line(result.errors) or "the host's shell ended"
    raise BenchError(
        f"no folder on the host can hold the agent: {reasons}",
        where=machine.name,
        fix=f"free {kib} KiB in /run, /var/tmp, /tmp or the home folder, and mount it without noexec",
    )


def remove_agent_if_installed(machine: Machine, folder_name: str) -> bool:
    """End an agent that still runs in the folder, restore what it set, and remove the folder.

    Returns:
        Whether the folder existed.

    Raises:
        BenchError: if a setting cannot be restored.
    """
    result = machine.run(REMOVE_SCRIPT, folder_name)
    fields = _rest_of_lines_by_first_word(result.output)
    if result.exit_code != 0:
        reasons = "; ".join(fields.get("failed", ())) or _last_line(result.errors)
        raise BenchError(
            f"cannot restore the host's settings: {reasons}",
            where=machine.name,
            fix="restore the original values by hand from the file journal in this folder, then remove the "
            "folder",
        )
    return "removed" in fields


def find_route(machine: Machine, destination_address: str, source_address: str | None) -> InterfaceAddress:
    """Return the interface and source address of the host's packets to an address.

    Raises:
        BenchError: if there is no route.
    """
    command = [
        "ip",
        "-o",
        "route",
        "get",
        destination_address,
        *(("from", source_address) if source_address else ()),
    ]
    result = machine.run(_SCRIPT_HEAD + '"$@" | sed "s/^/@route /"', *command)
    words = " ".join(_rest_of_lines_by_first_word(result.output).get("route", [])).split()
    fields = dict(pairwise(words))
    if "dev" not in fields or not (source_address or "src" in fields):
        reason = _last_line(result.errors) or "no reason given"
        raise BenchError(
            f"the host has no route to {destination_address}: {reason}",
            where=machine.name,
            fix=f"run {' '.join(command)} on the host to see what is missing",
        )
    return InterfaceAddress(fields["dev"], source_address or fields["src"])


def _rest_of_lines_by_first_word(output: str) -> dict[str, list[str]]:
    """Return the rest of each output line, by the line's first word."""
    fields: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.startswith("@"):
            word, _, rest = line[1:].partition(" ")
            fields.setdefault(word, []).append(make_printable(rest.strip()))
    return fields


def _last_line(text: str) -> str:
    return make_printable(text.strip().splitlines()[-1]) if text.strip() else ""
