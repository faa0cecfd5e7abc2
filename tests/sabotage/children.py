"""Small wrong ways to delegate, with the check that must notice each."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from holdfast import events as e
from holdfast.agent.budgets import Spent
from holdfast.agent.children import AskRelay, tell_parent
from holdfast.agent.deps import AgentDeps
from holdfast.agent.shared_fold import SharedFold
from holdfast.features.delegation.run import left_of, share_of
from holdfast.interfaces.system_clock import SystemClock
from holdfast.values import Budget, ParentLink
from sabotage import Sabotage
from serving import AsksAbout
from stores import MemoryStore

# P14: what is due happens once

Tell: TypeAlias = Callable[[AgentDeps, str, SharedFold], Awaitable[None]]
PARENT = ParentLink(session_id="p", run_id="r0", tool_call_id="t0", name="agent-1", background=True)


async def tell_without_a_record(deps: AgentDeps, child_id: str, view: SharedFold) -> None:
    """Hands the answer over whenever it wakes up, and writes down nothing that says so."""
    del child_id, view
    said = e.MessageAccepted(
        at_ms=1, message_id=f"m{await deps.store.last_seq('p')}", text="done", mode="steer", run_id="r0"
    )
    await deps.store.append("p", [said])


async def family(*events: e.Event) -> AgentDeps:
    """A store with a parent and its sub-agent, whose run has these events."""
    store = MemoryStore()
    queued = e.RunQueued(at_ms=1, run_id="r0", message_id="m0")
    asked: list[e.Input] = [e.MessageAccepted(at_ms=1, message_id="m0", text="hi"), queued]
    await store.append("p", [e.SessionCreated(at_ms=1, epoch="e"), *asked])
    begun = e.ChildStarted(
        at_ms=1, run_id="r0", child_id="c", child_run_id="r1", message_id="m1", tool_call_id="t0", name="n"
    )
    started = e.RunStarted(at_ms=1, run_id="r0")
    await store.append_run("p", [started, begun], fence=await store.claim("p"))
    task: list[e.Input] = [
        e.SessionCreated(at_ms=1, epoch="e", source="child", parent=PARENT),
        e.MessageAccepted(at_ms=1, message_id="m1", text="look"),
        e.RunQueued(at_ms=1, run_id="r1", message_id="m1"),
    ]
    await store.append("c", task)
    await store.append_run("c", events, fence=await store.claim("c"))
    return AgentDeps(
        store=store,
        model=None,  # pyright: ignore[reportArgumentType]  # nothing asks it
        clock=SystemClock(),
        judge=AsksAbout(),
        workspace=Path("/nowhere"),
    )


async def check_an_answer_is_delivered_once(tell: Tell) -> None:
    """P14: two processes tell the same ending, because the first one died before it could note that."""
    deps = await family(e.RunEnded(at_ms=1, run_id="r1", outcome="completed"))
    views = [SharedFold(), SharedFold()]
    for view in views:
        await view.catch_up(deps.store, "c")
    for view in views:
        await tell(deps, "c", view)
    events = [record.event for record in await deps.store.read("p")]
    assert sum(isinstance(event, e.ChildEnded) for event in events) == 1
    told = [event for event in events if isinstance(event, e.MessageAccepted) and event.child == "c"]
    assert len(told) == 1


# P8: an ask is one ask, wherever it is shown


class PassesOnAgain(AskRelay):
    """Says everything once more after each start."""

    async def _append(self, told: e.ChildAsked | e.ChildAskSettled, step: str) -> None:
        del step
        await self._deps.store.append("p", [told])


async def check_an_ask_is_passed_on_once(relay: type[AskRelay]) -> None:
    """P8: two processes pass on the same ask, because the first one died; it is open once, then settled."""
    began = e.RunStarted(at_ms=1, run_id="r1")
    ask = e.QuestionAsked(at_ms=1, run_id="r1", question_id="q1", tool_call_id="t1", text="?")
    deps = await family(began, ask)
    for is_answered in (False, False, True):
        if is_answered:
            answer = e.QuestionAnswered(at_ms=1, run_id="r1", question_id="q1", answer="!")
            await deps.store.append("c", [answer])
        view = SharedFold()
        await view.catch_up(deps.store, "c")
        await relay(deps, "c", PARENT, run=view.run("r1"), view=view).tell()
    parent = SharedFold()
    await parent.catch_up(deps.store, "p")
    events = [record.event for record in await deps.store.read("p")]
    assert [event.ask for event in events if isinstance(event, e.ChildAsked)] == [ask]
    assert sum(isinstance(event, e.ChildAskSettled) for event in events) == 1
    assert parent.run("r0").person_asks["q1"].state == "answered"


# P14: no sub-agent gets what another one has

Share: TypeAlias = Callable[..., Budget]


def share_of_everything(left: Budget, wanted: Budget | None, *, sharers: int) -> Budget:
    """Gives whatever is asked for."""
    return wanted or share_of(left, None, sharers=sharers)


async def check_no_sub_agent_gets_more_than_is_left(share: Share) -> None:
    """P14: eight of them ask for more than half of the budget each."""
    reserved = 0
    for waiting in range(8, 0, -1):
        left = left_of(Budget(tokens=1000), Spent(tokens=reserved))
        if left is None:
            break
        reserved += share(left, Budget(tokens=600), sharers=waiting).tokens
    assert reserved <= 1000


SABOTAGES: tuple[Sabotage, ...] = (
    Sabotage("P14", check_an_answer_is_delivered_once, right=tell_parent, wrong=tell_without_a_record),
    Sabotage("P8", check_an_ask_is_passed_on_once, right=AskRelay, wrong=PassesOnAgain),
    Sabotage("P14", check_no_sub_agent_gets_more_than_is_left, right=share_of, wrong=share_of_everything),
)
