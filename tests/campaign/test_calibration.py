"""Calibration of the send mode: `copy`, unless another mode is significantly faster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vnetbench.campaign.calibration import DEFAULT_SEND_MODE, OTHER_SEND_MODES, Calibration, choose_send_mode
from vnetbench.lab.errors import TreatmentRefused


def simulate_modes(seed: int, noise: float, **speed_ups: float) -> Callable[[str], float]:
    """Return a function that simulates short trials; `speed_ups` are relative to `copy`."""
    random = np.random.default_rng(seed)
    return lambda mode: 1e10 * speed_ups.get(mode, 1.0) * float(np.exp(noise * random.standard_normal()))


def test_a_significantly_faster_mode_is_chosen() -> None:
    calibration = choose_send_mode(simulate_modes(1, 0.03, splice=1.5, sendfile=1.2))
    assert calibration.send_mode == "splice"
    assert (
        calibration.other_to_copy_ratio_interval is not None
        and calibration.other_to_copy_ratio_interval[0] > 1.3
    )


def test_equally_fast_modes_leave_the_default() -> None:
    chosen = [choose_send_mode(simulate_modes(seed, 0.1)).send_mode for seed in range(400)]
    # The median of six ratios has a two-sided 95 % interval: one in forty lies above 1 by chance.
    assert chosen.count(DEFAULT_SEND_MODE) >= 380


def test_slower_modes_are_not_tested_again() -> None:
    calibration = choose_send_mode(simulate_modes(1, 0.01, **dict.fromkeys(OTHER_SEND_MODES, 0.5)))
    assert (calibration.send_mode, calibration.other_to_copy_ratio_interval) == (DEFAULT_SEND_MODE, None)
    assert {len(trials) for trials in calibration.goodputs_bps_by_mode.values()} == {2}


def test_an_unsupported_mode_is_tried_once_and_stored_with_its_reason() -> None:
    tried_modes: list[str] = []

    def measure_goodput(mode: str) -> float:
        tried_modes.append(mode)
        if mode.startswith("io_uring"):
            raise TreatmentRefused("io_uring is forbidden here")
        return 1e10

    calibration = choose_send_mode(measure_goodput)
    assert calibration.refusal_by_mode == dict.fromkeys(
        ("io_uring", "io_uring_zerocopy"), "io_uring is forbidden here"
    )
    assert tried_modes.count("io_uring") == 1
    assert "io_uring" not in calibration.goodputs_bps_by_mode


@pytest.mark.parametrize("refused_trial", [2, 3, 8])
def test_a_mode_that_is_refused_later_is_not_chosen(refused_trial: int) -> None:
    """Trials 1 and 2 screen the modes; trials 3 to 8 compare the fastest one with `copy`."""
    splice_trials = 0

    def measure_goodput(mode: str) -> float:
        nonlocal splice_trials
        if mode == "splice":
            splice_trials += 1
            if splice_trials >= refused_trial:
                raise TreatmentRefused("pipes are forbidden now")
        return 3e10 if mode == "splice" else 1e10

    calibration = choose_send_mode(measure_goodput)
    assert calibration.send_mode == DEFAULT_SEND_MODE
    assert calibration.refusal_by_mode == {"splice": "pipes are forbidden now"}
    assert calibration.other_to_copy_ratio_interval is None
    assert len(calibration.goodputs_bps_by_mode["splice"]) == refused_trial - 1


def test_a_refusal_of_the_default_mode_refuses_the_treatment() -> None:
    def measure_goodput(mode: str) -> float:
        raise TreatmentRefused("packets of 9000 bytes do not pass")

    with pytest.raises(TreatmentRefused, match="9000"):
        choose_send_mode(measure_goodput)


def test_a_path_without_goodput_leaves_the_default() -> None:
    assert choose_send_mode(lambda mode: 0.0) == Calibration(
        DEFAULT_SEND_MODE, dict.fromkeys((DEFAULT_SEND_MODE, *OTHER_SEND_MODES), (0.0, 0.0)), None, {}
    )
