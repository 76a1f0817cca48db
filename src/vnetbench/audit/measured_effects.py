"""Measured effects of faults that rules find: `measured_effects.toml`, which bench/audit_effects writes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field

DATA_FILE = "measured_effects.toml"


class RuleEffect(BaseModel):
    """How a fault that a rule finds changed the goodput of one load on one testbed."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    ratio: float = Field(ge=0)
    """Goodput with the fault, divided by the goodput without it."""
    low: float = Field(ge=0)
    high: float = Field(ge=0)
    """Bounds of the 95 % interval of `ratio`."""
    blocks: int = Field(ge=6)
    """Number of pairs of trials with and without the fault."""
    fault: str
    load: str
    testbed: str
    cpus: int = Field(ge=1)
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")

    @property
    def text(self) -> str:
        """The effect as a phrase, such as `×0.41 [0.38, 0.44] goodput (TSO off; one stream; …)`."""
        places = 3 if self.ratio < 0.1 else 2
        ratio, low, high = (f"{each:.{places}f}" for each in (self.ratio, self.low, self.high))
        conditions = f"{self.fault}; {self.load}; {self.testbed}, {self.cpus} CPUs; {self.date}"
        meaning = ", so no effect is shown" if self.low <= 1 <= self.high else ""
        return f"×{ratio} [{low}, {high}] goodput{meaning} ({conditions})"


@lru_cache
def load_measured_effects() -> Mapping[str, RuleEffect]:
    """Return the measured effects by rule."""
    text = files("vnetbench.audit").joinpath(DATA_FILE).read_text(encoding="utf-8")
    return {rule: RuleEffect.model_validate(table) for rule, table in tomllib.loads(text).items()}
