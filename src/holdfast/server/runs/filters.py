"""Which rows of runs clients see under a status."""

from typing import TypedDict, get_args

from holdfast.folds.rows import RunStatus
from holdfast.server.streams.hermes import STATUSES
from holdfast.values import OutcomeKind


class RunFilter(TypedDict, total=False):
    """The part of a RunQuery that says how the runs stand."""

    status: RunStatus
    outcomes: tuple[OutcomeKind, ...]
    asking: bool


def runs_with(status: str) -> RunFilter | None:
    """What the rows of the runs with this status say; None if no run ever has it."""
    match status:
        case "":
            return {}
        case "queued" | "stopping" | "ended":
            return {"status": status}
        case "running" | "waiting_for_approval":
            return {"status": "running", "asking": status == "waiting_for_approval"}
        case _:
            outcomes: tuple[OutcomeKind, ...] = get_args(OutcomeKind)
            wanted: tuple[OutcomeKind, ...] = tuple(one for one in outcomes if STATUSES[one] == status)
            return RunFilter(status="ended", outcomes=wanted) if wanted else None
