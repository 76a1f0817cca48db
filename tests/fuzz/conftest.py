"""Profiles of the fuzz targets: few fixed examples in `make test`, new ones in `make fuzz`."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

CORPUS = Path(__file__).parent / "corpus"
"""Examples that failed once. `make fuzz` tries them first, so commit new ones together with the fix."""
EXAMPLES_VARIABLE = "VNETBENCH_FUZZ_EXAMPLES"
"""Number of examples of each target; set by tools/fuzz.py."""
_EXAMPLES_IN_TESTS = 60

_health = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)
settings.register_profile(
    "fuzz tests",
    deadline=None,
    max_examples=_EXAMPLES_IN_TESTS,
    derandomize=True,
    suppress_health_check=_health,
)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=int(os.environ.get(EXAMPLES_VARIABLE, "100")),
    database=DirectoryBasedExampleDatabase(CORPUS),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    suppress_health_check=_health,
    print_blob=True,
)
settings.load_profile("fuzz" if EXAMPLES_VARIABLE in os.environ else "fuzz tests")
