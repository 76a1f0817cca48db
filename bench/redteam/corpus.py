"""All causes of the red-team corpus: those of the first set, the second and the third."""

from bench.redteam.causes import CAUSES as FIRST_SET
from bench.redteam.causes_second import CAUSES as SECOND_SET
from bench.redteam.causes_third import CAUSES as THIRD_SET

CAUSES = (*FIRST_SET, *SECOND_SET, *THIRD_SET)
BY_ID = {cause.id: cause for cause in CAUSES}
if len(BY_ID) < len(CAUSES):
    raise ValueError("two causes of the red-team corpus have the same id")
