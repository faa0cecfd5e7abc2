"""An agent inside another program, in a few lines."""

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, Target, tool
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.events import RunEnded, RunQueued, TextDone, ToolEnded
from holdfast.journal.follow import Follower
from holdfast.journal.memory import MemoryStore
from holdfast.tools.registry import NameTaken
from holdfast.tools.signatures import CannotBeTool

NOBODY = Target(name="main", wire="chat", base_url="http://127.0.0.1:9", model="m")


async def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


async def test_an_agent_calls_a_typed_function_and_answers() -> None:
    async with ChaosServer([CallTool("double", {"number": 21})], [Say("It is 42.")]) as chaos:
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m")
        async with Agent(target, tools=[double]) as agent:
            events = [event async for event in agent.run("Double 21")]
    (ended,) = [event for event in events if isinstance(event, ToolEnded)]
    assert ended.result == "42"
    assert [event.text for event in events if isinstance(event, TextDone)] == ["It is 42."]
    assert isinstance(events[-1], RunEnded)


async def test_a_session_goes_on_with_what_was_said_before() -> None:
    async with ChaosServer([Say("Hello Ann.")], [Say("You are Ann.")]) as chaos:
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m")
        async with Agent(target, tools=[tool(double)]) as agent:
            for text in ("I am Ann.", "Who am I?"):
                assert [event async for event in agent.run(text, session_id="s")]
        body = chaos.seen.request(2).body or {}
        assert str(body["messages"]).count("Ann") == 2


class Purse:
    """Something that a program has, with what can be done about it."""

    def __init__(self) -> None:
        self.cents = 0

    async def put(self, cents: int) -> int:
        """Put so many in, and say how many there are."""
        self.cents += cents
        return self.cents

    def take(self, cents: int) -> int:
        """Take so many out."""
        return self.cents - cents


async def test_an_asynchronous_method_is_a_tool_that_works_on_its_object() -> None:
    purse = Purse()
    async with ChaosServer([CallTool("put", {"cents": 7})], [Say("There.")]) as chaos:
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m")
        async with Agent(target, tools=[purse.put]) as agent:
            assert [event async for event in agent.run("Put 7 in")]
    assert purse.cents == 7


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Purse().take, "make it `async def`"),
        (partial(double, 1), "neither a function nor a Tool"),
        (Purse(), "neither a function nor a Tool"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_handed_over(given: Any, why: str) -> None:
    """P12: and not by the first call of the model."""
    with pytest.raises(CannotBeTool, match=why):
        Agent(NOBODY, tools=[given])


async def test_an_agent_that_cannot_begin_leaves_nothing_open(tmp_path: Path) -> None:
    """P12: neither its store nor its connections, which nobody could close any more."""

    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("holdfast-")}

    before = threads()
    with pytest.raises(NameTaken):
        async with Agent(NOBODY, tools=[double, double], path=tmp_path / "talk.db"):
            pass
    left = threads() - before
    for thread in left:  # the last act of one that was told to end may still be under way
        await asyncio.to_thread(thread.join, 20)
    assert not any(thread.is_alive() for thread in left)


class Followed(MemoryStore):
    """Remembers from where on sessions were followed."""

    def __init__(self) -> None:
        super().__init__()
        self.afters: list[int] = []

    def follow(self, session_id: str, *, after: int = 0, **rest: Any) -> Follower:
        if rest.get("pace", "every") == "every":
            self.afters.append(after)
        return super().follow(session_id, after=after, **rest)


async def test_a_run_is_read_from_its_own_first_event_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long conversation is not read again for each of its messages."""
    store = Followed()
    monkeypatch.setattr("holdfast.embedding.MemoryStore", lambda: store)
    async with ChaosServer([Say("x")], after_last="repeat") as chaos:
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m")
        async with Agent(target) as agent:
            for _ in range(2):
                before = await store.last_seq("s")
                events = [event async for event in agent.run("hi", session_id="s")]
                assert isinstance(events[0], RunQueued)
                assert isinstance(events[-1], RunEnded)
                assert store.afters[-1] >= before


async def test_what_a_header_holds_as_a_key_stays_out_of_the_log() -> None:
    """P11: as with the server."""
    secret = "sk-of-a-gateway-0123456789"  # noqa: S105  # opens nothing
    async with ChaosServer([Say(f"your key is {secret}")]) as chaos:
        headers = {"X-Api-Key": secret, "X-Title": "a-program-of-some-length"}
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m", headers=headers)
        async with Agent(target) as agent:
            events = [event async for event in agent.run("hi")]
    assert [event.text for event in events if isinstance(event, TextDone)] == ["your key is [redacted]"]


async def test_a_key_that_the_program_sends_stays_out_of_the_log_and_of_the_request() -> None:
    """P11: inputs are redacted before they are stored, as in the server."""
    secret = "sk-of-a-gateway-0123456789"  # noqa: S105  # opens nothing
    async with ChaosServer([Say("ok")]) as chaos:
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m", api_key=secret)
        async with Agent(target) as agent:
            async for _ in agent.run(f"my key is {secret}"):
                pass
        sent = str(chaos.record.requests[0].body)
    assert "my key is [redacted]" in sent
    assert secret not in sent
