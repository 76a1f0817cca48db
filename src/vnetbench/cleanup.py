"""Closes several things so that an error of one does not keep the others open."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def run_all_despite_errors(steps: Iterable[Callable[[], object]]) -> None:
    """Run every step in order, also after errors; then raise one of the errors.

    It raises the first interruption (an exception that is not an `Exception`), else the first error. The
    other errors are notes of it.
    """
    errors: list[BaseException] = []
    for step in steps:
        try:
            step()
        except BaseException as error:
            errors.append(error)
    if errors:
        raised = next((each for each in errors if not isinstance(each, Exception)), errors[0])
        for other in errors:
            if other is not raised:
                raised.add_note(f"another step failed too: {other!r}")
        raise raised
