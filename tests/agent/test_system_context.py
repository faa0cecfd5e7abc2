"""The system text is recorded once, changes become notes, and an event names what invalidates it."""

from pathlib import Path
from typing import Any, cast

import msgspec

from agent.machines import machine
from agent.world import World, messages, process, send
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say, SeenRequest
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.values import ClientTool
from stores import MemoryStore


async def answered(world: World, *, runs: int, **settings: Any) -> None:
    await send(world, f"message {runs}", **settings)
    await world.until("s", e.RunEnded, times=runs)


async def contexts(world: World) -> list[e.ContextSet]:
    return [record.event for record in await world.log("s") if isinstance(record.event, e.ContextSet)]


async def notes(world: World) -> list[e.ContextNoted]:
    return [record.event for record in await world.log("s") if isinstance(record.event, e.ContextNoted)]


def system_of(request: SeenRequest) -> str:
    return str(messages(request)[0]["content"])


async def test_a_later_run_sends_the_recorded_text_and_a_note_about_what_changed() -> None:
    """The base prompt, the instructions and the environment of the next process differ."""
    disk = MemoryDisk()
    async with ChaosServer([Say("one")], [Say("two")], [Say("three")]) as chaos:
        async with process(chaos, store=MemoryStore(disk), prompt="BASE", instructions="Be brief.") as world:
            await answered(world, runs=1)
        facts: dict[str, Any] = {"prompt": "NEW BASE", "instructions": "Be verbose.", "machine": machine()}
        async with process(chaos, store=MemoryStore(disk), **facts) as world:
            await answered(world, runs=2)
            await answered(world, runs=3)
            (recorded,) = await contexts(world)
            assert (recorded.reason, recorded.tools) == ("first", ("ask_user",))
            (noted,) = await notes(world)
    systems = {system_of(request) for request in chaos.seen.requests}
    assert systems == {"BASE\n\nBe brief."}
    said = str(messages(chaos.seen.request(2))[-1]["content"])
    assert said == f"{noted.text}\n\nmessage 2"
    assert "Be verbose." in noted.text
    assert "Permission mode: ask" in noted.text
    assert "NEW BASE" not in noted.text
    assert messages(chaos.seen.request(3))[-1]["content"] == "message 3"


async def test_a_part_that_is_gone_is_noted_by_name() -> None:
    disk = MemoryDisk()
    async with ChaosServer([Say("one")], [Say("two")]) as chaos:
        async with process(chaos, store=MemoryStore(disk), machine=machine()) as world:
            await answered(world, runs=1)
        async with process(chaos, store=MemoryStore(disk)) as world:
            await answered(world, runs=2)
            (noted,) = await notes(world)
    assert "No longer given: sandbox." in noted.text
    assert noted.parts["sandbox"] == ""


async def test_an_event_names_what_invalidates_the_text() -> None:
    mine: Any = {"client_tools": (ClientTool(name="mine"),), "tool_choice": "none"}
    async with ChaosServer(choose=lambda _: [Say("ok")]) as chaos, process(chaos, prompt="BASE") as world:
        await answered(world, runs=1)
        await answered(world, runs=2, instructions="caller")
        await answered(world, runs=3, instructions="caller", model="other")
        await answered(world, runs=4, instructions="caller", model="other", no_questions=True)
        await answered(world, runs=5, instructions="caller", model="other", no_questions=True, **mine)
        await answered(world, runs=6, instructions="caller", model="other", no_questions=True, prompt="none")
        reasons = [event.reason for event in await contexts(world)]
    assert reasons == ["first", "instructions", "model", "tools", "instructions"]
    assert system_of(chaos.seen.request(6)) == "caller"


async def test_a_large_text_is_a_blob_and_is_read_back_by_the_next_process() -> None:
    disk, large = MemoryDisk(), "Be brief. " * 5_000
    async with ChaosServer([Say("one")], [Say("two")], [Say("three")]) as chaos:
        async with process(chaos, store=MemoryStore(disk), instructions=large) as world:
            await answered(world, runs=1)
        async with process(chaos, store=MemoryStore(disk), instructions=large) as world:
            await answered(world, runs=2)
            (recorded,) = await contexts(world)
            assert recorded.instructions == ""
            disk.blobs.pop(recorded.blob)
            await answered(world, runs=3)
            assert [event.reason for event in await contexts(world)] == ["first", "lost"]
    assert {system_of(request) for request in chaos.seen.requests} == {large}


async def test_a_session_from_before_the_event_goes_on() -> None:
    """Old logs have no recorded text: the next run records one."""
    disk = MemoryDisk()
    async with ChaosServer([Say("one")], [Say("two")]) as chaos:
        async with process(chaos, store=MemoryStore(disk), prompt="BASE") as world:
            await answered(world, runs=1)
            old = [
                record.event for record in await world.log("s") if not isinstance(record.event, e.ContextSet)
            ]
        async with process(chaos, store=MemoryStore(), prompt="BASE") as world:
            await world.store.append("s", cast("list[e.Input]", old))
            await answered(world, runs=2)
            assert [event.reason for event in await contexts(world)] == ["first"]
    assert len(messages(chaos.seen.request(2))) == 4


async def test_the_workspaces_instructions_change_by_a_note(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.", encoding="utf-8")
    async with (
        ChaosServer([Say("one")], [Say("two")]) as chaos,
        process(chaos, workspace=tmp_path) as world,
    ):
        await answered(world, runs=1)
        (tmp_path / "AGENTS.md").write_text("Use spaces.", encoding="utf-8")
        await answered(world, runs=2)
        (noted,) = await notes(world)
    assert "Use spaces." in noted.text
    assert msgspec.json.encode(noted.parts).startswith(b'{"AGENTS.md":')
