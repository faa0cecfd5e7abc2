"""Answers of many megabytes: what they cost, how they are told, and where they end."""

import asyncio
import tracemalloc
from pathlib import Path

import pytest

from agent.world import World, ending, process, send
from holdfast import Agent, Target
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, ClosedBy, Hang, Say, Think
from holdfast.folds.context import context_for
from holdfast.folds.entries import Text
from holdfast.folds.transcript import output
from holdfast.interfaces.journal import Record
from holdfast.messages import AssistantMessage, SaidText
from holdfast.model_events import LONG_CHARS
from stores import SqliteStore
from stream_server import stream_server

LIMIT = 10_000
WORDS = "a word or two, "
COST_MAX = 4.0


async def log_of(world: World, session_id: str = "s") -> list[Record]:
    """The whole log, once the run has ended."""
    await world.until(session_id, e.RunEnded)
    return [*await world.store.read(session_id, after=0, limit=10_000)]


@pytest.mark.parametrize(
    "step",
    [Say(WORDS * 1_000), Think(WORDS * 1_000), CallTool("touch", {"text": WORDS * 1_000})],
    ids=["text", "reasoning", "arguments"],
)
async def test_an_answer_over_the_limit_is_cut_off_and_the_model_is_hung_up_on(
    step: Say | Think | CallTool,
) -> None:
    """P3, P4: truncated, with the limit and the setting in words; nothing is asked again, no tool runs."""
    async with ChaosServer([step, Hang()]) as chaos, process(chaos, answer_bytes_max=LIMIT) as world:
        await send(world)
        log = await log_of(world)
        assert await chaos.seen.until_closed(1) in {ClosedBy.PEER, ClosedBy.PEER_RESET}
        assert len(chaos.seen.requests) == 1
    ended = ending(log)
    assert (ended.outcome, ended.cause) == ("truncated", "answer_bytes_max")
    assert ended.failure is not None
    assert "longer than 0.01 MB" in ended.failure.text
    assert "agent.answer_bytes_max" in ended.failure.text
    assert not [record for record in log if isinstance(record.event, e.ToolAsked)]


async def test_what_was_said_up_to_the_limit_is_kept_and_settled() -> None:
    """P4: to the byte, and never half a character."""
    async with (
        ChaosServer([Say("ä" * LIMIT), Hang()]) as chaos,
        process(chaos, answer_bytes_max=LIMIT - 1) as world,
    ):
        run_id = await send(world)
        log = await log_of(world)
        view = await world.supervisor.view("s")
        assert output(view.transcript, run_id) == "ä" * (LIMIT // 2 - 1)
    (done,) = [record.event for record in log if isinstance(record.event, e.TextDone)]
    assert done.text == "ä" * (LIMIT // 2 - 1)


async def test_an_answer_just_as_long_as_the_limit_is_completed() -> None:
    async with ChaosServer([Say("x" * LIMIT)]) as chaos, process(chaos, answer_bytes_max=LIMIT) as world:
        await send(world)
        assert ending(await log_of(world)).outcome == "completed"


async def test_a_long_answer_is_told_in_stretches_and_shown_to_the_model_as_one(tmp_path: Path) -> None:
    """P7: no event has the whole of it, and nothing is lost or doubled where two stretches meet."""
    text = WORDS * (3 * LONG_CHARS // len(WORDS))
    store = await SqliteStore.open(tmp_path / "x.db")
    async with (
        ChaosServer([Say(text, chunk_chars=50_000)]) as chaos,
        process(chaos, store=store) as world,
    ):
        run_id = await send(world)
        log = await log_of(world)
        view = await world.supervisor.view("s")
        assert output(view.transcript, run_id) == text
        entries = [entry for entry in view.transcript.runs[run_id].entries if isinstance(entry, Text)]
        (said,) = [one for one in context_for(view.transcript, run_id) if isinstance(one, AssistantMessage)]
        assert said.items == (SaidText(text),)
    await store.close()
    deltas = [record.event for record in log if isinstance(record.event, e.TextDelta)]
    done = [record.event for record in log if isinstance(record.event, e.TextDone)]
    assert "".join(one.text for one in deltas) == "".join(one.text for one in done) == text
    assert [one.goes_on for one in done] == [True] * (len(done) - 1) + [False]
    assert len(done) == len(entries) > 2
    assert max(len(one.text) for one in done) < LONG_CHARS + 100


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


ANSWER_BYTES = 6_000_000


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say a lot without having it in memory."""
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]))
    writer.write(HEAD)
    block = CHUNK % (WORDS * 4).encode() * 100
    for _ in range(ANSWER_BYTES // (400 * len(WORDS))):
        writer.write(block)
        await writer.drain()
    writer.write(END)
    await writer.drain()
    writer.close()


async def test_an_answer_costs_no_more_than_four_times_its_size(tmp_path: Path) -> None:
    """P10: counted by Python itself, in a program that has the agent inside and reads every event."""
    async with stream_server(answer) as port:
        url = f"http://127.0.0.1:{port}/v1"
        target = Target(name="main", wire="chat", base_url=url, model="m")
        async with Agent(target, store=tmp_path / "x.db") as agent:
            tracemalloc.start()
            try:
                async with agent.stream("go") as run:
                    outcomes = [one.outcome async for one in run if isinstance(one, e.RunEnded)]
                _, peak_bytes = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert outcomes == ["completed"]
    assert peak_bytes < COST_MAX * ANSWER_BYTES
