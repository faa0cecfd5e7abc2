"""Images for models that can't see them: each is described once, and the description is on the log."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, NoReturn

from msgspec.structs import replace

from agent.world import CrashingStore, Effect, World, ending, messages
from fakes.crash import Crashed, CrashPoint
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Script, SeenRequest, Wait
from holdfast.features.vision import describing as vision
from holdfast.features.vision.events import ImageDescribed
from holdfast.host.runtime import open_runner
from holdfast.interfaces.journal import JournalError, Record, Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.models.call_request import UNSEEN
from holdfast.runner.inbox import Inbox, IncomingMessage, Sent
from holdfast.targets import blind
from holdfast.values import FilePart, ImagePart, Part, RunSettings
from serving import parts_of, target_of
from stores import MemoryStore

PNG = b"\x89PNG\r\n\x1a\n"
BY_EYE = "a red square that says STOP"
SHOWN = "image_url"


def either_model(request: SeenRequest) -> Script:
    """The eye describes; the other model answers."""
    return [Say(BY_EYE)] if request.model == "eye" else [Say("ok")]


@asynccontextmanager
async def process(
    chaos: ChaosServer,
    *tools: Tool,
    store: Store | None = None,
    eye: dict[str, Any] | None = None,
    **fields: Any,
) -> AsyncGenerator[World]:
    """A process whose first target can't see images."""
    kept, clock = store or MemoryStore(), SystemClock()
    targets = (
        replace(target_of(chaos), vision=False),
        replace(target_of(chaos, name="eye"), **{"model": "eye", **(eye or {})}),
    )
    deps: dict[str, Any] = {"vision_model": "eye", "blind": blind(targets), **fields}
    async with open_runner(parts_of(*targets, store=kept, tools=tools, **deps)) as runner:
        yield World(Inbox(kept, runner.supervisor, clock), kept, runner.supervisor, clock)


async def image(world: World, nth: int = 1, *, name: str = "sign.png") -> ImagePart:
    return ImagePart(blob=await world.store.put_blob(PNG + bytes([nth])), media_type="image/png", name=name)


async def send(world: World, *parts: Part, text: str = "look", **settings: Any) -> str:
    message = IncomingMessage(text=text, parts=parts, settings=RunSettings(**settings))
    sent = await world.inbox.send("s", message)
    assert isinstance(sent, Sent)
    return sent.run_id


def described(log: Sequence[Record]) -> list[ImageDescribed]:
    return [one.event for one in log if isinstance(one.event, ImageDescribed)]


def asked_of(chaos: ChaosServer, model: str) -> list[SeenRequest]:
    return [one for one in chaos.seen.requests if one.model == model]


async def test_an_image_is_described_once_and_the_model_reads_the_description() -> None:
    async with ChaosServer(choose=either_model) as chaos, process(chaos) as world:
        await send(world, await image(world))
        log = await world.until("s", e.RunEnded)
        (event,) = described(log)
        assert (event.text, event.target, event.name, event.failure) == (BY_EYE, "eye", "sign.png", "")
        assert SHOWN in str(messages(asked_of(chaos, "eye")[0]))
        await send(world, await image(world), text="again")
        log = await world.until("s", e.RunEnded, times=2)
        assert len(described(log)) == len(asked_of(chaos, "eye")) == 1
        for request in asked_of(chaos, "m"):
            told = str(messages(request))
            assert UNSEEN.format(name=": sign.png") in told
            assert "Description of sign.png by another model" in told
            assert BY_EYE in told
            assert SHOWN not in told
        # The description counts as usage of the run.
        assert "eye" in {one.event.target for one in log if isinstance(one.event, e.Usage)}


async def test_a_run_whose_model_sees_images_gets_them_and_describes_none() -> None:
    async with ChaosServer(choose=either_model) as chaos, process(chaos) as world:
        await send(world, await image(world), model="eye")
        assert described(await world.until("s", e.RunEnded)) == []
        assert SHOWN in str(messages(chaos.seen.request(1)))
        # The same image, when a model that can't see it takes over.
        await send(world, text="and you?")
        assert len(described(await world.until("s", e.RunEnded, times=2))) == 1


async def test_without_a_vision_target_a_blind_model_is_told_that_there_is_an_image() -> None:
    async with ChaosServer(choose=either_model) as chaos, process(chaos, vision_model="") as world:
        scan = FilePart(blob=await world.store.put_blob(PNG), media_type="image/png", name="scan")
        await send(world, scan)
        log = await world.until("s", e.RunEnded)
        assert (described(log), ending(log).outcome) == ([], "completed")
        (request,) = chaos.seen.requests
        assert UNSEEN.format(name=": scan") in str(messages(request))
        assert SHOWN not in str(messages(request))


async def test_an_image_in_a_tool_result_is_described_too() -> None:
    async with ChaosServer(
        choose=lambda request: (
            either_model(request)
            if request.model == "eye" or "tool" in {one["role"] for one in messages(request)}
            else [CallTool("photo")]
        )
    ) as chaos:
        store = MemoryStore()
        photo = ImagePart(blob=await store.put_blob(PNG), media_type="image/png")

        class Photo(Effect):
            async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
                del args, call
                return ToolResult("taken", parts=(photo,))

        async with process(chaos, Photo("photo", [], ToolTraits(read_only=True)), store=store) as world:
            await send(world)
            (event,) = described(await world.until("s", e.RunEnded))
            assert (event.name, event.text) == ("an image", BY_EYE)
            assert BY_EYE in str(messages(asked_of(chaos, "m")[-1]))


async def test_a_failed_description_is_said_and_only_a_new_message_tries_again() -> None:
    broken = [True]

    def choose(request: SeenRequest) -> Script:
        return [Say("")] if request.model == "eye" and broken[0] else either_model(request)

    async with ChaosServer(choose=choose) as chaos, process(chaos) as world:
        await send(world, await image(world))
        log = await world.until("s", e.RunEnded)
        (event,) = described(log)
        assert (event.text, ending(log).outcome) == ("", "completed")
        assert f"[sign.png couldn't be described: {event.failure}" in str(messages(asked_of(chaos, "m")[-1]))
        broken[0] = False
        await send(world, text="what now?")
        assert len(described(await world.until("s", e.RunEnded, times=2))) == 1
        await send(world, await image(world), text="here it is again")
        log = await world.until("s", e.RunEnded, times=3)
        assert described(log)[-1].text == BY_EYE
        assert "couldn't be described" not in str(messages(asked_of(chaos, "m")[-1]))


async def test_a_fallback_that_sees_no_images_describes_none() -> None:
    """Otherwise its guess would stand as the description."""
    nowhere = {"base_url": "http://127.0.0.1:9"}
    async with ChaosServer(choose=either_model) as chaos, process(chaos, eye=nowhere) as world:
        await send(world, await image(world))
        (event,) = described(await world.until("s", e.RunEnded))
        assert (event.text, event.failure) == ("", vision.BLIND)


async def test_an_image_that_is_gone_is_not_described() -> None:
    async with ChaosServer(choose=either_model) as chaos, process(chaos) as world:
        await send(world, ImagePart(blob="0" * 64, media_type="image/png"))
        (event,) = described(await world.until("s", e.RunEnded))
        assert event.failure == vision.GONE
        assert asked_of(chaos, "eye") == []


async def test_a_vision_target_that_hangs_is_given_up_for_all_images_of_the_call(monkeypatch: Any) -> None:
    """P3."""
    monkeypatch.setattr(vision, "CALL_S", 0.05)
    async with (
        ChaosServer(choose=lambda one: [Hang()] if one.model == "eye" else [Say("ok")]) as chaos,
        process(chaos) as world,
    ):
        await send(world, await image(world, 1), await image(world, 2))
        log = await world.until("s", e.RunEnded)
        assert [one.failure for one in described(log)] == [vision.LATE] * 2
        assert ending(log).outcome == "completed"
        assert len(asked_of(chaos, "eye")) <= 1  # none, if the machine is slower than the deadline


async def test_a_stop_ends_a_description_at_once() -> None:
    """P5."""
    gate = Gate()
    async with ChaosServer(choose=lambda _: [Wait(gate), Say(BY_EYE)]) as chaos, process(chaos) as world:
        run_id = await send(world, await image(world))
        await gate.reached()
        assert await world.inbox.stop("s", run_id)
        log = await world.until("s", e.RunEnded)
        assert (ending(log).outcome, described(log)) == ("cancelled", [])
        gate.open()


async def live(chaos: ChaosServer, disk: MemoryDisk, crash: CrashPoint) -> None:
    """One process, from its start to the run's end or its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    async def use(world: World) -> None:
        if not await world.store.last_seq("s"):
            await send(world, await image(world, 1), await image(world, 2))
        await world.until("s", e.RunEnded)

    crash.die = die
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(chaos, store=CrashingStore(disk, crash, after=False)) as world:
            tasks = [asyncio.create_task(one) for one in (use(world), died.wait())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def test_a_crash_at_any_append_describes_no_image_twice() -> None:
    """P6: what is on the log isn't asked again."""
    for nth in count(1):
        disk = MemoryDisk()
        async with ChaosServer(choose=either_model) as chaos:
            crash = CrashPoint(nth)
            await live(chaos, disk, crash)
            if crash.has_crashed:
                await live(chaos, disk, CrashPoint(10_000))
            log = list(await MemoryStore(disk).read("s", limit=10_000))
            events = described(log)
            assert [one.text for one in events] == [BY_EYE] * 2
            assert len({one.blob for one in events}) == 2
            assert ending(log).outcome == "completed"
            # An answer that wasn't on the log yet is the only one that is asked for again.
            assert len(asked_of(chaos, "eye")) <= 3
            if not crash.has_crashed:
                assert len(asked_of(chaos, "eye")) == 2
                break


async def test_a_retry_does_not_describe_the_image_again() -> None:
    async with ChaosServer(choose=either_model) as chaos, process(chaos) as world:
        run_id = await send(world, await image(world))
        await world.until("s", e.RunEnded)
        assert await world.inbox.retry("s", run_id)
        log = await world.until("s", e.RunEnded, times=2)
        assert len(described(log)) == 1
        assert BY_EYE in str(messages(asked_of(chaos, "m")[-1]))
