"""The section `[search]` of a study file: how the throughput of frames is searched."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.file.keys import Key, section_of
from vnetbench.study.model import SearchAsked
from vnetbench.study.workloads import MOST_GOALS

_SEARCH = SearchAsked()

SEARCH = section_of(
    "search",
    "Of the workloads of frames: each trial is a search of the throughput, a series of steps that each "
    "hold a load for a time, and ends with a step at the throughput, whose counters and latencies are "
    "the trial's. With `frames` the section has to be written; `frame_loss` and `back_to_back` are "
    "series of steps anyway, `frame_latency` and `soak` begin with one where their load is a share of "
    "the throughput.",
    Key(
        "method",
        value_types.words("vnetbench", "rfc2544", "mlrsearch"),
        _SEARCH.method,
        "`vnetbench`: a model of loss against load says which step tells most. `rfc2544`: halving the "
        "interval (RFC 2544, 26.1). `mlrsearch`: the library of FD.io, where it is installed.",
        '"rfc2544"',
    ),
    Key(
        "loss",
        value_types.loss_goals(MOST_GOALS),
        _SEARCH.loss,
        "The goals: shares of the frames that may be lost. Each has a throughput of its own; the first "
        "one's is `throughput_fps`.",
        '["0 %", "0.01 %", "0.5 %"]',
    ),
    Key(
        "width",
        value_types.shares(0.0001, 0.5),
        _SEARCH.width,
        "Of the answer's interval, as a share of the throughput.",
        '"1 %"',
    ),
    Key(
        "trial",
        value_types.durations(0.01, 3600),
        _SEARCH.step_s,
        "Length of a full step: what RFC 2544 calls a trial.",
        '"1 s"',
        field="step_s",
    ),
    Key(
        "settle",
        value_types.durations(0.001, 4),
        _SEARCH.settle_s,
        "A step has ended when no frame of it has come for so long after its load.",
        '"100 ms"',
        field="settle_s",
    ),
    Key(
        "most_load",
        value_types.frame_rates(1, 10**9, "auto"),
        _SEARCH.most_load_fps,
        "The highest load, of each direction. `auto`: as fast as the generator goes.",
        '"2 Mframe/s"',
        field="most_load_fps",
        absent="auto",
    ),
    Key(
        "least_load",
        value_types.frame_rates(1, 10**9),
        _SEARCH.least_load_fps,
        "The lowest load, of each direction. A device that loses too much of it has no throughput.",
        '"100 frame/s"',
        field="least_load_fps",
    ),
    Key(
        "confidence",
        value_types.shares(0.5, 0.9999),
        _SEARCH.confidence,
        "That the throughput lies in the answer's interval.",
        '"99 %"',
    ),
    Key(
        "time_limit",
        value_types.durations(1, 36_000_000, "auto"),
        _SEARCH.time_limit_s,
        "Of all steps of one search together. `auto`: 10 min, and less where `precision.time_limit` would "
        "else not give every treatment its fewest trials.",
        '"2 min"',
        field="time_limit_s",
        absent="auto",
    ),
)
