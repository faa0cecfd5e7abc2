"""A long session, as its log would stand after days of talk."""

from collections.abc import Iterator
from typing import cast

from holdfast import events as e
from holdfast.events import Event, Input
from holdfast.interfaces.journal import Appended, IfSessionNew, Store

BEGAN_MS = 1_763_200_000_000
ANSWER = (
    "Answer {n}: the order was *placed*, then **checked**.\n\n- one line\n- and `another`\n\n"
    "```python\ndef total(orders: list[int]) -> int:\n    return sum(orders)\n```\n"
)


def exchange(n: int) -> Iterator[Event]:
    """What person and model said in the nth run."""
    at_ms = BEGAN_MS + 60_000 * n
    run, call, attempt, message = f"r{n}", f"c{n}", f"a{n}", f"m{n}"
    yield e.MessageAccepted(at_ms=at_ms, message_id=message, text=f"Question {n}: where does the time go?")
    yield e.RunQueued(at_ms=at_ms, run_id=run, message_id=message)
    yield e.MessageDispatched(at_ms=at_ms + 1, run_id=run, message_id=message)
    yield e.RunStarted(at_ms=at_ms + 1, run_id=run, target="main")
    yield e.CallStarted(at_ms=at_ms + 2, run_id=run, call_id=call, turn=1)
    yield e.AttemptStarted(at_ms=at_ms + 2, run_id=run, call_id=call, attempt_id=attempt, target="main")
    yield e.TextDone(at_ms=at_ms + 900, run_id=run, segment=1, text=ANSWER.format(n=n))
    yield e.CallEnded(at_ms=at_ms + 901, run_id=run, call_id=call, finish="stop")
    yield e.Usage(at_ms=at_ms + 901, run_id=run, call_id=call, input_tokens=500, output_tokens=60)
    yield e.RunEnded(at_ms=at_ms + 902, run_id=run, outcome="completed")


async def put_long_session(store: Store, session_id: str, *, exchanges: int) -> None:
    """Stores the session, which has two messages for each exchange."""
    created = e.SessionCreated(at_ms=BEGAN_MS, epoch="long", title="A long talk")
    events: list[Event] = [created, *(event for n in range(1, exchanges + 1) for event in exchange(n))]
    # Nobody runs in a log that does not exist yet, so that no run's events need an owner.
    result = await store.append(session_id, cast("list[Input]", events), when=[IfSessionNew()])
    assert isinstance(result, Appended), result
