"""iperf3's text: one run of a client, or one test of a server's log, line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from vnetbench.importers.command import Command
from vnetbench.importers.iperf3 import forms
from vnetbench.importers.iperf3.ends import CLIENT, RECEIVER, SERVER, WAYS, end_of, known, reckon
from vnetbench.importers.iperf3.options import asked_by, level_of
from vnetbench.importers.iperf3.rows import DATAGRAMS as COUNTS_DATAGRAMS
from vnetbench.importers.iperf3.rows import RETRANSMITS, Rows
from vnetbench.importers.lines import Lines
from vnetbench.importers.recognise import CUT_OFF
from vnetbench.importers.runs import FORWARD, Figure, Run
from vnetbench.importers.units import rounded
from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS, STREAM
