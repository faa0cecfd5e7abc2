"""Separates transient store errors from unreadable logs, so that one chat can't block others."""

from holdfast.agent.shared_fold import SharedFold
from holdfast.codec import UnreadableEvent
from holdfast.folds.phases import IllegalEvent
from holdfast.interfaces.journal import JournalError, StoreDamaged
from holdfast.racing import is_about
from holdfast.runner.supervisor import Supervisor

OF_STORE = (JournalError, OSError)  # the second is for stored files
OF_ONE_LOG = (StoreDamaged, UnreadableEvent, IllegalEvent)
BROKEN = (
    "This conversation's log can't be read, so it can't continue. Send /new to start another one. For "
    "details, run `holdfast doctor`."
)


def is_transient(error: Exception) -> bool:
    """Return whether it's a transient store error, after which a retry can succeed."""
    return is_about(error, OF_STORE) and not is_about(error, OF_ONE_LOG)


async def readable_view(supervisor: Supervisor, session_id: str) -> SharedFold | None:
    """Read the session; None if its log is unreadable."""
    try:
        return await supervisor.view(session_id)
    except OF_ONE_LOG:
        return None
