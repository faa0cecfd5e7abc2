"""With relay.keep = "all", a call is a session, and a repeat of its request may join it."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
from typing_extensions import override

from features.relay.relaying import PATHS, body_for, relaying, target_on
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait, server_error
from holdfast.interfaces.journal import Appended, Declined, Fence, JournalError, Replayed, StoreClosed
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.options import ApiKey, ServerOptions
from holdfast.targets import Wire
from runner.program import configure, program
from serving import Served, Setting
from side_by_side import on_each_wire, on_wires
from stores import MemoryStore
from tables import for_each_row

FIRST, REPEAT = {"X-Stainless-Retry-Count": "0"}, {"X-Stainless-Retry-Count": "1"}
IDEMPOTENT = {"Idempotency-Key": "once"}


def kept(disk: MemoryDisk) -> Setting:
    return Setting(store=MemoryStore(disk))


def events_of(disk: MemoryDisk) -> list[e.Event]:
    (log,) = disk.logs.values()
    return [record.event for record in log]


async def sessions(server: Served) -> list[dict[str, Any]]:
    return (await server.get("/api/sessions?all=true"))[1]["data"]


@on_each_wire
async def test_a_call_is_a_session_with_its_request_its_answer_and_its_record(wire: Wire) -> None:
    disk = MemoryDisk()
    scripts = ([server_error()], [Say("hello"), CallTool("look", {"at": "it"})])
    async with (
        ChaosServer(*scripts) as chaos,
        relaying(target_on(chaos, wire), setting=kept(disk), keep="all") as server,
    ):
        answer = await server.call("POST", PATHS[wire], body=body_for(wire, stream=True))
        assert answer.status == 200
        assert b"hello" in answer.body
        (session,) = await sessions(server)
        assert session["source"] == "relay"
        path = f"/api/sessions/{session['id']}"
        exported = await server.call("GET", f"{path}/export?format=md")
        assert "## You\n\nhi\n" in exported.body.decode()
        assert "## Assistant\n\nhello\n" in exported.body.decode()
        events = events_of(disk)
        kinds = [type(event) for event in events]
        assert kinds[:3] == [e.SessionCreated, e.MessageAccepted, e.RunQueued]
        assert kinds[-2:] == [e.RelayCalled, e.RunEnded]
        assert kinds.count(e.AttemptStarted) == 2
        assert kinds.count(e.AttemptFailed) == 1
        assert e.TextDelta in kinds
        assert e.ToolAsked in kinds
        assert any(b'"model": "main"' in body for body in disk.blobs.values())
        assert isinstance(events[-1], e.RunEnded)
        assert events[-1].outcome == "completed"
        _, usage = await server.get("/api/usage")
        assert (usage["totals"]["relayed_calls"], usage["totals"]["runs"]) == (1, 0)
        assert (await server.call("DELETE", path)).status == 200
        assert await sessions(server) == []


class HoldsBack(MemoryStore):
    """A store that takes events of one kind only once it may."""

    def __init__(self, kind: type[e.Event]) -> None:
        super().__init__()
        self.kind = kind
        self.may = asyncio.Event()
        self.refusal: JournalError | None = None

    @override
    async def append_run(
        self, session_id: str, events: Sequence[e.Event], *, fence: Fence, **more: Any
    ) -> Appended | Declined | Replayed:
        if any(isinstance(event, self.kind) for event in events):
            await self.may.wait()
            if self.refusal is not None:
                raise self.refusal
        return await super().append_run(session_id, events, fence=fence, **more)


async def until_kept_alive(answer: aiohttp.ClientResponse) -> bytes:
    """What a client has got when the server says that nothing else has happened."""
    seen = b""
    while b": keep-alive" not in seen:
        seen += await answer.content.readany()
    return seen


@for_each_row(("kind", "last"), [(e.TextDelta, b"hello"), (e.ToolAsked, b'"finish_reason": "tool_calls"')])
@on_wires("chat", "anthropic")
async def test_nothing_is_sent_that_is_not_on_disk(kind: type[e.Event], last: bytes, wire: Wire) -> None:
    """P1: seen is saved, on the same wire and translated; a keep-alive comes meanwhile."""
    store = HoldsBack(kind)
    script = [Say("hello"), CallTool("look", {"at": "it"})]
    async with (
        ChaosServer(script) as chaos,
        relaying(
            target_on(chaos, wire), setting=Setting(store=store), keep="all", keep_alive_s=0.05
        ) as server,
    ):
        body = body_for("chat", stream=True)
        async with server.http.post(server.url + PATHS["chat"], json=body) as answer:
            seen = await until_kept_alive(answer)
            assert last not in seen.replace(b'":"', b'": "')
            store.may.set()
            seen += await answer.content.read()
        assert last in seen.replace(b'":"', b'": "')
        assert b"[DONE]" in seen


async def test_what_the_store_refuses_is_never_sent() -> None:
    """P1: the client is told why its answer ends."""
    store = HoldsBack(e.TextDelta)
    async with (
        ChaosServer([Say("hello")]) as chaos,
        relaying(
            target_on(chaos, "chat"), setting=Setting(store=store), keep="all", keep_alive_s=0.05
        ) as server,
    ):
        body = body_for("chat", stream=True)
        async with server.http.post(server.url + PATHS["chat"], json=body) as answer:
            seen = await until_kept_alive(answer)
            store.refusal = StoreClosed("gone")
            store.may.set()
            seen += await answer.content.read()
        assert b"hello" not in seen
        assert b'"error"' in seen


async def left_in_the_middle(server: Served, gate: Gate, **headers: str) -> None:
    """A client that leaves once the target has been asked."""
    request = asyncio.create_task(
        server.call("POST", PATHS["chat"], body=body_for("chat", stream=True), headers=headers)
    )
    await gate.reached()
    request.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await request


@for_each_row(("first", "again"), [(FIRST, REPEAT), (IDEMPOTENT, IDEMPOTENT)])
async def test_a_repeat_joins_the_answer_under_way_and_only_one_does(
    first: dict[str, str], again: dict[str, str]
) -> None:
    """P2: a client's own retry is asked and billed once."""
    disk, gate = MemoryDisk(), Gate()
    script = [Say("half "), Wait(gate), Say("whole")]
    async with (
        ChaosServer(script, [Say("another")]) as chaos,
        relaying(target_on(chaos, "chat"), setting=kept(disk), keep="all") as server,
    ):
        await left_in_the_middle(server, gate, **first)
        await server.until_streams(0)
        body = body_for("chat", stream=True)
        tries = [
            asyncio.create_task(server.call("POST", PATHS["chat"], body=body, headers=again))
            for _ in range(2)
        ]
        await chaos.seen.until_request(2)
        gate.open()
        answers = [(await one).body for one in tries]
        assert sum(b"another" in answer for answer in answers) == 1
        assert (
            sum(b"half " in answer and b"whole" in answer and b"[DONE]" in answer for answer in answers) == 1
        )
        assert len(chaos.seen.requests) == 2
        _, usage = await server.get("/api/usage")
        assert usage["totals"]["relayed_calls"] == 2


@for_each_row(
    ("first", "again"),
    [
        (FIRST, {}),  # nobody says that it is a repeat
        ({}, {}),
        ({}, REPEAT),  # the first request isn't one of a package that repeats
        (IDEMPOTENT, {"Idempotency-Key": "another"}),
    ],
)
async def test_nothing_else_joins(first: dict[str, str], again: dict[str, str]) -> None:
    disk, gate = MemoryDisk(), Gate()
    async with (
        ChaosServer([Say("half "), Wait(gate), Say("whole")], [Say("another")]) as chaos,
        relaying(target_on(chaos, "chat"), setting=kept(disk), keep="all") as server,
    ):
        await left_in_the_middle(server, gate, **first)
        answer = await server.call("POST", PATHS["chat"], body=body_for("chat", stream=True), headers=again)
        assert b"another" in answer.body
        gate.open()


async def test_another_key_and_an_open_connection_never_share_an_answer() -> None:
    """P10, P11: equal requests are legitimate."""
    gate = Gate()
    keys = (ApiKey("one", "one-key-0123456789"), ApiKey("two", "two-key-0123456789"))
    one, two = ({"Authorization": f"Bearer {key.secret}"} for key in keys)
    setting = Setting(options=ServerOptions(keys=keys))
    async with (
        ChaosServer([Say("half "), Wait(gate), Say("whole")], after_last="repeat") as chaos,
        relaying(target_on(chaos, "chat"), setting=setting, keep="all") as server,
    ):
        body = body_for("chat", stream=True)
        open_one = asyncio.create_task(
            server.call("POST", PATHS["chat"], body=body, headers=IDEMPOTENT | FIRST | one)
        )
        await gate.reached()
        same = asyncio.create_task(
            server.call("POST", PATHS["chat"], body=body, headers=IDEMPOTENT | REPEAT | one)
        )
        await chaos.seen.until_request(2)
        open_one.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await open_one
        foreign = asyncio.create_task(
            server.call("POST", PATHS["chat"], body=body, headers=IDEMPOTENT | REPEAT | two)
        )
        await chaos.seen.until_request(3)
        gate.open()
        assert b"whole" in (await same).body
        assert b"whole" in (await foreign).body


@for_each_row(("keep", "headers"), [("all", {}), ("usage", FIRST), ("all", FIRST)])
async def test_a_call_that_nobody_can_join_ends_with_its_client(keep: str, headers: dict[str, str]) -> None:
    """P5: with join_s over, the last of them is as dead as the others."""
    disk = MemoryDisk()
    async with (
        ChaosServer([Say("half "), Hang()]) as chaos,
        relaying(target_on(chaos, "chat"), setting=kept(disk), keep=keep, join_s=0.01) as server,
    ):
        body = body_for("chat", stream=True)
        async with server.http.post(server.url + PATHS["chat"], json=body, headers=headers) as answer:
            await answer.content.readany()
        await chaos.seen.until_closed(1)
    (record,) = [event for event in events_of(disk) if isinstance(event, e.RelayCalled)]
    assert record.outcome == "cancelled"
    assert record.estimated


async def test_a_stop_ends_a_kept_call_and_its_client_is_told() -> None:
    """P4, P5: the connection is closed, then the run says so, and nothing follows."""
    disk = MemoryDisk()
    async with (
        ChaosServer([Say("half "), Hang()]) as chaos,
        relaying(target_on(chaos, "chat"), setting=kept(disk), keep="all") as server,
    ):
        body = body_for("chat", stream=True)
        async with server.http.post(server.url + PATHS["chat"], json=body) as answer:
            await answer.content.readany()
            (run,) = (await server.get("/v1/runs"))[1]["data"]
            await server.post(f"/v1/runs/{run['run_id']}/stop")
            assert b"This call was stopped" in await answer.content.read()
        await chaos.seen.until_closed(1)
        events = events_of(disk)
        assert isinstance(events[-1], e.RunEnded)
        assert (events[-1].outcome, len([one for one in events if isinstance(one, e.RunEnded)])) == (
            "cancelled",
            1,
        )


async def test_a_kept_call_that_a_crash_cut_off_is_interrupted_and_not_asked_again() -> None:
    """P6: what was said to be kept is there, and nothing is asked twice."""
    disk, gate = MemoryDisk(), Gate()
    async with ChaosServer([Say("half "), Wait(gate)]) as chaos:
        target = target_on(chaos, "chat")
        async with relaying(target, setting=kept(disk), keep="all") as server:
            body = body_for("chat", stream=True)
            async with server.http.post(server.url + PATHS["chat"], json=body) as answer:
                await answer.content.readany()
                (run,) = (await server.get("/v1/runs"))[1]["data"]
                await server.until(run["run_id"], "message.delta")
                crashed = MemoryDisk(logs={name: list(log) for name, log in disk.logs.items()})
                crashed.sessions, crashed.runs = dict(disk.sessions), dict(disk.runs)
        async with relaying(target, setting=kept(crashed), keep="all") as server:
            (run,) = (await server.get("/v1/runs"))[1]["data"]
            await server.ended(run["run_id"])
        gate.open()
    events = events_of(crashed)
    assert isinstance(events[-1], e.RunEnded)
    assert events[-1].outcome == "interrupted"
    assert len(chaos.seen.requests) == 1


async def test_what_a_client_of_a_killed_server_has_seen_is_in_the_log(tmp_path: Path) -> None:
    """P1, P6: with the real store and `kill -9`."""
    async with ChaosServer([Say("hello"), Hang()]) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        with (tmp_path / "holdfast.toml").open("a", encoding="utf-8") as config:
            config.write('[relay]\nkeep = "all"\n')
        async with program(tmp_path) as server:
            body = body_for("chat", stream=True)
            async with server.http.post(server.url + PATHS["chat"], json=body) as answer:
                seen = b""
                while b"hello" not in seen:
                    seen += await answer.content.readany()
                server.process.kill()
    async with program(tmp_path) as server:
        _, listed = await server.call("GET", "/api/sessions?all=true")
        (session,) = listed["data"]
        async with server.http.get(f"{server.url}/api/sessions/{session['id']}/export?format=md") as answer:
            assert "hello" in await answer.text()
