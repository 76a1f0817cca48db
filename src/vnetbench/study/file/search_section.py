"""The section `[search]` of a study file: how the throughput of frames is searched."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.file.keys import StudyKey, make_section
from vnetbench.study.model import SearchSpec
from vnetbench.study.workloads import MAX_LOSS_GOALS

_SEARCH = SearchSpec()

SEARCH_SECTION = make_section(
    "search",
    "Of the workloads of frames: each trial is a search of the throughput, a series of steps that each "
    "hold a load for a time, and ends with a step at the throughput, whose counters and latencies are "
    "the trial's. With `frames` the section has to be written; `frame_loss` and `back_to_back` are "
    "series of steps anyway, `frame_latency` and `soak` begin with one where their load is a share of "
    "the throughput.",
    StudyKey(
        "method",
        value_types.keywords("vnetbench", "rfc2544", "mlrsearch"),
        _SEARCH.method,
        "`vnetbench`: a model of loss against load says which step tells most. `rfc2544`: halving the "
        "interval (RFC 2544, 26.1). `mlrsearch`: the library of FD.io, where it is installed.",
        '"rfc2544"',
    ),
    StudyKey(
        "loss",
        value_types.loss_goals(MAX_LOSS_GOALS),
        _SEARCH.loss,
        "The goals: shares of the frames that may be lost. Each has a throughput of its own; the first "
        "one's is `throughput_fps`.",
        '["0 %", "0.01 %", "0.5 %"]',
    ),
    StudyKey(
        "width",
        value_types.percentages(0.0001, 0.5),
        _SEARCH.width,
        "Of the answer's interval, as a share of the throughput.",
        '"1 %"',
    ),
    StudyKey(
        "trial",
        value_types.durations(0.01, 3600),
        _SEARCH.step_s,
        "Length of a full step: what RFC 2544 calls a trial.",
        '"1 s"',
        model_field="step_s",
    ),
    StudyKey(
        "settle",
        value_types.durations(0.001, 4),
        _SEARCH.settle_s,
        "A step has ended when no frame of it has come for so long after its load.",
        '"100 ms"',
        model_field="settle_s",
    ),
    StudyKey(
        "most_load",
        value_types.frame_rates(1, 10**9, "auto"),
        _SEARCH.most_load_fps,
        "The highest load, of each direction. `auto`: as fast as the generator goes.",
        '"2 Mframe/s"',
        model_field="most_load_fps",
        none_word="auto",
    ),
    StudyKey(
        "least_load",
        value_types.frame_rates(1, 10**9),
        _SEARCH.least_load_fps,
        "The lowest load, of each direction. A device that loses too much of it has no throughput.",
        '"100 frame/s"',
        model_field="least_load_fps",
    ),
    StudyKey(
        "confidence",
        value_types.percentages(0.5, 0.9999),
        _SEARCH.confidence,
        "That the throughput lies in the answer's interval.",
        '"99 %"',
    ),
    StudyKey(
        "time_limit",
        value_types.durations(1, 36_000_000, "auto"),
        _SEARCH.time_limit_s,
        "Of all steps of one search together. `auto`: 10 min, and less where `precision.time_limit` would "
        "else not give every treatment its fewest trials.",
        '"2 min"',
        model_field="time_limit_s",
        none_word="auto",
    ),
)
