"""Each request of a session is a prefix of the next one, so prompt caches work."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NoReturn, cast

import msgspec

from agent.world import CrashingStore, Effect, World, process, send
from fakes.crash import Crashed, CrashPoint
from holdfast import events as e
from holdfast.agent.prompt import Machine
from holdfast.chaos import CallTool, ChaosServer, Drop, Finish, Say, Script, SeenRequest, Think
from holdfast.chaos import Status as Answered
from holdfast.interfaces.journal import JournalError, Record
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.targets import Wire
from holdfast.values import MODES
from side_by_side import on_each_wire

SEEDS = range(6)
RUNS_MAX = 3  # in a life of the process
LOOK = ToolTraits(read_only=True, parallel_safe=True)


def scripted(random: Random, calls_left: list[int]) -> Script:
    """Return a random answer; each run calls tools a few times at most."""
    calls_left[0] -= 1
    if calls_left[0] > 0 and random.random() < 0.5:
        calls = [CallTool("look", {"n": n}) for n in range(random.randint(1, 3))]
        return [*random.choice([[], [Say("let me see")], [Think("hm"), Say("so")]]), *calls]
    return random.choice(
        [
            [Say("done")],
            [Think("hm"), Say("done")],
            [Say("ha"), Drop()],
            [Say("cut off"), Finish("length")],
            [Answered(400, {}, '{"error": {"message": "no"}}')],
        ]
    )


def machine(random: Random, tmp_path: Path) -> Machine:
    """A node of its own: its sandbox, mode and branch differ from those of the last one."""
    return Machine(
        system="Linux",
        shell_name=lambda: random.choice(["bash", "sh"]),
        sandbox=lambda: random.choice(["on.", "none."]),
        mode=random.choice(MODES),
        own_guide=tmp_path / "own.md",
    )


def shown(body: Mapping[str, Any]) -> str:
    """Everything that the model sees, in order. Adjacent texts of a role are one text, as wires join them."""
    parts: list[tuple[str, str]] = [("tools", as_json(body.get("tools")))]
    parts += [("system", as_json(body[name])) for name in ("system", "instructions") if name in body]
    parts += [part for item in body.get("messages") or body["input"] for part in parts_of(item)]
    text, last = "", ""
    for role, said in parts:
        text += f"\n\n{said}" if role == last else f"\n<{role}>{said}"
        last = role
    return text


def parts_of(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    role, content = str(item.get("role", item.get("type"))), item.get("content")
    if isinstance(content, list):
        blocks = cast("list[dict[str, Any]]", content)
        return [(f"{role} {block['type']}", block.get("text") or as_json(block)) for block in blocks]
    is_text = isinstance(content, str) and set(item) == {"role", "content"}
    return [(role, str(content) if is_text else as_json(item))]


def as_json(value: object) -> str:
    return msgspec.json.encode(without_marks(value)).decode()


def without_marks(value: object) -> object:
    """The value without the marks of what to cache, which move from request to request."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {name: without_marks(one) for name, one in fields.items() if name != "cache_control"}
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [without_marks(one) for one in items]
    return value


async def ended(world: World, session_id: str, *, runs: int) -> list[Record]:
    return await world.until(session_id, e.RunEnded, times=runs)


async def lives(wire: Wire, seed: int, tmp_path: Path) -> list[str]:
    """One session over several processes, the second of which crashes; returns the requests."""
    random, disk, calls_left = Random(seed), MemoryDisk(), [0]
    async with ChaosServer(choose=lambda _: scripted(random, calls_left)) as chaos:
        for life in range(3):
            died = asyncio.Event()

            def die(died: asyncio.Event = died) -> NoReturn:
                died.set()
                raise Crashed

            crash = CrashPoint(random.randint(3, 30) if life == 1 else 10_000, die=die)
            store = CrashingStore(disk, crash, after=random.random() < 0.5)
            (tmp_path / "AGENTS.md").write_text(f"Rules {random.randint(1, 2)}.", encoding="utf-8")
            tools = Effect("look", [], LOOK)
            facts: dict[str, Any] = {
                "prompt": f"BASE {life}",
                "machine": machine(random, tmp_path),
                "workspace": tmp_path,
            }
            with suppress(Crashed, JournalError, BaseExceptionGroup):
                async with process(
                    chaos, tools, Effect("shell", []), store=store, wire=wire, **facts
                ) as world:
                    used = asyncio.create_task(use(world, random, calls_left))
                    dead = asyncio.create_task(died.wait())
                    await asyncio.wait({used, dead}, return_when=asyncio.FIRST_COMPLETED)
                    for task in (used, dead):
                        task.cancel()
                    await asyncio.wait({used, dead})
        return [shown(request.body or {}) for request in chaos.seen.requests]


async def shortened_lives(wire: Wire, seed: int, tmp_path: Path) -> tuple[list[str], list[str]]:
    """One session that outgrows its window; returns the requests, and why the system text was set."""
    random, calls_left = Random(seed), [0]

    def script(request: SeenRequest) -> Script:
        if "Below is the older part" in as_json(request.body):
            return [Say("## Task\nlook around")]
        return scripted(random, calls_left)

    async with ChaosServer(choose=script) as chaos:
        facts: dict[str, Any] = {"prompt": "BASE", "workspace": tmp_path, "context_window": 3_000}
        tools = (Long("look", [], LOOK), Effect("shell", []))
        async with process(chaos, *tools, wire=wire, **facts) as world:
            for _ in range(3):
                await use(world, random, calls_left)
            log = await world.log("s")
        sent = [shown(request.body or {}) for request in chaos.seen.requests]
    reasons = [record.event.reason for record in log if isinstance(record.event, e.ContextSet)]
    return [one for one in sent if "Below is the older part" not in one], reasons


class Long(Effect):
    """Returns a result of up to 6,000 characters."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del call
        return ToolResult("seen " * (400 * int(str(args["n"])) + 1))


async def use(world: World, random: Random, calls_left: list[int]) -> None:
    """Let open runs end, then send some messages."""
    for _ in range(random.randint(1, RUNS_MAX)):
        log = await world.log("s")
        open_runs = sum(isinstance(record.event, e.RunQueued) for record in log)
        if open_runs:
            await ended(world, "s", runs=open_runs)
        calls_left[0] = 4
        if random.random() < 0.2:
            await send(world, "!make", purpose="command", command="make")
            open_runs += 1
        await send(world, f"do something {random.random()}, and look at @AGENTS.md")
        await ended(world, "s", runs=open_runs + 1)


@on_each_wire
async def test_each_request_is_a_prefix_of_the_next_one(wire: Wire, tmp_path: Path) -> None:
    """Random sessions: tools, commands, cut and failed answers, a crash, other nodes, new instructions."""
    for seed in SEEDS:
        folder = tmp_path / wire / str(seed)
        await asyncio.to_thread(folder.mkdir, parents=True)
        requests = await lives(wire, seed, folder)
        assert len(requests) > RUNS_MAX
        for number, (earlier, later) in enumerate(pairwise(requests)):
            assert later.startswith(earlier), (seed, number, earlier, later)


@on_each_wire
async def test_only_trimming_and_compaction_break_the_prefix_and_an_event_says_so(
    wire: Wire, tmp_path: Path
) -> None:
    """Over random sessions in a small window."""
    reasons: set[str] = set()
    for seed in SEEDS:
        folder = tmp_path / wire / str(seed)
        await asyncio.to_thread(folder.mkdir, parents=True)
        requests, changed = await shortened_lives(wire, seed, folder)
        broken = [nth for nth, (one, other) in enumerate(pairwise(requests)) if not other.startswith(one)]
        assert changed[0] == "first"
        assert len(broken) == len(changed[1:]), (seed, broken, changed)
        reasons.update(changed[1:])
    assert reasons == {"trimming", "compaction"}
