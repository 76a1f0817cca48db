"""The section `[search]` of a study file: how a trial searches for the throughput of frames."""

from __future__ import annotations

from vnetbench.study.factors import value_types
from vnetbench.study.file.keys import StudyKey, make_section
from vnetbench.study.model import SearchSpec
from vnetbench.study.workloads import MAX_LOSS_GOALS

_SEARCH = SearchSpec()

SEARCH_SECTION = make_section(
    "search",
    "For the frame workloads. Each trial searches for the throughput in a series of steps with a constant "
    "load each. The last step runs at the throughput; its counters and latencies are those of the trial. "
    "`frames` searches only if the study has this section. `frame_loss` and `back_to_back` always run a "
    "series of steps. `frame_latency` and `soak` start with a search if their load is a share of the "
    "throughput.",
    StudyKey(
        "method",
        value_types.keywords("vnetbench", "rfc2544", "mlrsearch"),
        _SEARCH.method,
        "Search method. `vnetbench`: a model of loss against load chooses the most informative step. "
        "`rfc2544`: binary search (RFC 2544, 26.1). `mlrsearch`: FD.io's library, if it is installed.",
        '"rfc2544"',
    ),
    StudyKey(
        "loss",
        value_types.loss_goals(MAX_LOSS_GOALS),
        _SEARCH.loss,
        "Loss goals: accepted frame loss ratios. The search finds a throughput for each goal; that of the "
        "first goal is `throughput_fps`.",
        '["0 %", "0.01 %", "0.5 %"]',
    ),
    StudyKey(
        "width",
        value_types.percentages(0.0001, 0.5),
        _SEARCH.width,
        "Target width of the throughput's interval, as a share of the throughput.",
        '"1 %"',
    ),
    StudyKey(
        "trial",
        value_types.durations(0.01, 3600),
        _SEARCH.step_s,
        "Length of a full step, which RFC 2544 calls a trial.",
        '"1 s"',
        model_field="step_s",
    ),
    StudyKey(
        "settle",
        value_types.durations(0.001, 4),
        _SEARCH.settle_s,
        "A step ends when no frame has arrived for this long after its load stops.",
        '"100 ms"',
        model_field="settle_s",
    ),
    StudyKey(
        "most_load",
        value_types.frame_rates(1, 10**9, "auto"),
        _SEARCH.most_load_fps,
        "Largest load of each direction. `auto`: as fast as the generator can send.",
        '"2 Mframe/s"',
        model_field="most_load_fps",
        none_word="auto",
    ),
    StudyKey(
        "least_load",
        value_types.frame_rates(1, 10**9),
        _SEARCH.least_load_fps,
        "Smallest load of each direction. A device that loses too many frames at it has no throughput.",
        '"100 frame/s"',
        model_field="least_load_fps",
    ),
    StudyKey(
        "confidence",
        value_types.percentages(0.5, 0.9999),
        _SEARCH.confidence,
        "Confidence that the throughput is within its interval.",
        '"99 %"',
    ),
    StudyKey(
        "time_limit",
        value_types.durations(1, 36_000_000, "auto"),
        _SEARCH.time_limit_s,
        "Limit of all steps of one search. `auto`: 10 min, or less if otherwise `precision.time_limit` does "
        "not suffice for `fewest_trials` of every treatment.",
        '"2 min"',
        model_field="time_limit_s",
        none_word="auto",
    ),
)
