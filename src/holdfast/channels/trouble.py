"""Tells trouble of the store, which passes, from a log that can't be read: no chat may stop all others."""

from holdfast.agent.shared_fold import SharedFold
from holdfast.codec import UnreadableEvent
from holdfast.folds.phases import IllegalEvent
from holdfast.interfaces.journal import JournalError, StoreDamaged
from holdfast.racing import is_about
from holdfast.runner.supervisor import Supervisor

OF_STORE = (JournalError, OSError)  # the second: of files that are stored
OF_ONE_LOG = (StoreDamaged, UnreadableEvent, IllegalEvent)
BROKEN = (
    "Something is wrong with the log of this conversation, so I can't go on with it. Send /new to begin "
    "another one. `holdfast doctor` says more."
)


def passes(error: Exception) -> bool:
    """Whether it is trouble of the store: what it interrupts is tried again, and may work then."""
    return is_about(error, OF_STORE) and not is_about(error, OF_ONE_LOG)


async def readable_view(supervisor: Supervisor, session_id: str) -> SharedFold | None:
    """The session as its log says it; None if its log can't be read."""
    try:
        return await supervisor.view(session_id)
    except OF_ONE_LOG:
        return None
