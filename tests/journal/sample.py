"""Events with made-up values, as short as a test needs them."""

from collections.abc import Sequence

from holdfast import events as e
from holdfast.interfaces.journal import Appended, Fence, Record, Store
from holdfast.values import Action, FilePart, OutcomeKind

AT_MS = 1_700_000_000_000


def created(*, title: str = "", at_ms: int = AT_MS, source: str = "api") -> e.SessionCreated:
    return e.SessionCreated(at_ms=at_ms, epoch="e1", title=title, source=source)


def message(text: str, *, message_id: str = "m1", at_ms: int = AT_MS, blob: str = "") -> e.MessageAccepted:
    parts = (FilePart(blob=blob, media_type="text/plain", name="a.txt"),) if blob else ()
    return e.MessageAccepted(at_ms=at_ms, message_id=message_id, text=text, parts=parts)


def queued(run_id: str, *, at_ms: int = AT_MS) -> e.RunQueued:
    return e.RunQueued(at_ms=at_ms, run_id=run_id, message_id="m1")


def started(run_id: str, *, at_ms: int = AT_MS) -> e.RunStarted:
    return e.RunStarted(at_ms=at_ms, run_id=run_id)


def delta(text: str, *, run_id: str = "r1", at_ms: int = AT_MS) -> e.TextDelta:
    return e.TextDelta(at_ms=at_ms, run_id=run_id, segment=0, text=text)


def ended(run_id: str, *, outcome: OutcomeKind = "completed", at_ms: int = AT_MS) -> e.RunEnded:
    return e.RunEnded(at_ms=at_ms, run_id=run_id, outcome=outcome)


def asked(approval_id: str, *, run_id: str = "r1", at_ms: int = AT_MS) -> e.ApprovalAsked:
    action = Action(tool="shell", summary="ls")
    return e.ApprovalAsked(
        at_ms=at_ms, run_id=run_id, approval_id=approval_id, tool_call_id="t1", action=action
    )


def answered(approval_id: str, *, run_id: str = "r1", at_ms: int = AT_MS) -> e.ApprovalAnswered:
    return e.ApprovalAnswered(at_ms=at_ms, run_id=run_id, approval_id=approval_id, choice="once")


async def begin(store: Store, session_id: str = "s1", *, run_id: str = "") -> Fence:
    """Create the session, and in it a run if one is named."""
    inputs: list[e.Input] = [created()]
    if run_id:
        inputs.append(queued(run_id))
    assert isinstance(await store.append(session_id, inputs), Appended)
    return await store.claim(session_id)


async def say(store: Store, count: int, *, session_id: str = "s1", fence: Fence) -> None:
    """Append so many deltas, one after the other."""
    for nth in range(count):
        await store.append_run(session_id, [delta(f"{nth} ")], fence=fence)


def seqs(records: Sequence[Record]) -> list[int]:
    return [record.seq for record in records]


def texts(records: Sequence[Record]) -> list[str]:
    return [record.event.text for record in records if isinstance(record.event, e.TextDelta)]
