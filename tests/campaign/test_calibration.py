"""Choosing a send mode: `copy` unless another is faster beyond doubt, and what was found is kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vnetbench.campaign.calibration import DEFAULT_MODE, OTHER_MODES, Calibration, choose_send_mode
from vnetbench.lab.errors import TreatmentRefused


def modes(seed: int, noise: float, **times_faster: float) -> Callable[[str], float]:
    """Short trials of modes that are so many times faster than `copy`, all of the same noise."""
    random = np.random.default_rng(seed)
    return lambda mode: 1e10 * times_faster.get(mode, 1.0) * float(np.exp(noise * random.standard_normal()))


def test_a_mode_that_is_clearly_faster_is_chosen() -> None:
    found = choose_send_mode(modes(1, 0.03, splice=1.5, sendfile=1.2))
    assert found.send_mode == "splice"
    assert found.ratio_interval is not None and found.ratio_interval[0] > 1.3


def test_modes_that_are_alike_are_no_reason_to_leave_copy() -> None:
    chosen = [choose_send_mode(modes(seed, 0.1)).send_mode for seed in range(400)]
    # The median of six ratios has a two-sided interval of 95 %: one in forty is all above 1.
    assert chosen.count(DEFAULT_MODE) >= 380


def test_a_slower_mode_is_never_met_twice() -> None:
    found = choose_send_mode(modes(1, 0.01, **dict.fromkeys(OTHER_MODES, 0.5)))
    assert (found.send_mode, found.ratio_interval) == (DEFAULT_MODE, None)
    assert {len(trials) for trials in found.goodput_bps.values()} == {2}


def test_what_the_kernel_lacks_is_tried_once_and_kept_with_its_reason() -> None:
    asked: list[str] = []

    def goodput(mode: str) -> float:
        asked.append(mode)
        if mode.startswith("io_uring"):
            raise TreatmentRefused("io_uring is forbidden here")
        return 1e10

    found = choose_send_mode(goodput)
    assert found.refusals == dict.fromkeys(("io_uring", "io_uring_zerocopy"), "io_uring is forbidden here")
    assert asked.count("io_uring") == 1
    assert "io_uring" not in found.goodput_bps


def test_a_refused_copy_is_the_treatments_refusal() -> None:
    def goodput(mode: str) -> float:
        raise TreatmentRefused("packets of 9000 bytes do not pass")

    with pytest.raises(TreatmentRefused, match="9000"):
        choose_send_mode(goodput)


def test_a_path_that_moves_nothing_leaves_copy() -> None:
    assert choose_send_mode(lambda mode: 0.0) == Calibration(
        DEFAULT_MODE, dict.fromkeys((DEFAULT_MODE, *OTHER_MODES), (0.0, 0.0)), None, {}
    )
