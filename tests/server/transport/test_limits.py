"""Too much, too deep, too slow, or no HTTP at all: a clear answer, and nothing left behind."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.events import Input
from holdfast.interfaces.journal import (
    JournalError,
    OutcomeUnknown,
    StoreDamaged,
    StoreFull,
    StoreOverloaded,
    UnknownSession,
)
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.access.middleware import SECURITY_HEADERS
from holdfast.server.options import Limits
from holdfast.server.runs.requests import RunRequest
from holdfast.server.transport.bodies import parsed
from holdfast.server.transport.connection import DRAIN_S
from moved_loop import on_moved_loop, time_passes
from serving import PATIENT, Served, limited, served, target_of
from stores import MemoryStore
from tables import for_each_row

LIMITS = Limits()


async def raw(server: Served, sent: bytes) -> bytes:
    """All that the server says to these bytes before it closes."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def raw_after(deadline_s: float, server: Served, sent: bytes) -> bytes:
    """The same, where the server says nothing before the deadline."""
    asked = asyncio.create_task(raw(server, sent))
    await time_passes(deadline_s / 2)
    assert not asked.done()
    await time_passes(deadline_s / 2)
    await time_passes(DRAIN_S)  # the rest of a body is read before the connection is closed
    return await asked


def has_security_headers(answer: bytes) -> bool:
    """P11: whatever is said, the same headers go with it."""
    head = answer.partition(b"\r\n\r\n")[0].split(b"\r\n")
    return all(b"%b: %b" % header in head for header in SECURITY_HEADERS)


async def test_a_body_over_the_limit_is_refused_with_its_length_or_without() -> None:
    """P12: 413 at once if it says how long it is, and while it is read if it does not."""
    disk = MemoryDisk()
    setting = limited(body_bytes_max=1000, blob_bytes_max=2000)
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), store=MemoryStore(disk), setting=setting) as server,
    ):
        for size in (1001, 2001, 200_000):
            body = json.dumps({"input": "x" * size}).encode()
            answer = await server.call("POST", "/v1/runs", body=body)
            assert (answer.status, answer.code) == (413, "body_too_large")
            assert "1000 bytes" in answer.json["error"]["message"], "whatever the length"

            async def chunks(whole: bytes = body) -> AsyncIterator[bytes]:
                for at in range(0, len(whole), 500):
                    yield whole[at : at + 500]

            async with server.http.post(server.url + "/v1/runs", data=chunks()) as chunked:
                assert chunked.status == 413
        file = await server.call("POST", "/api/blobs", body=b"x" * 2001)
        assert "2000 bytes" in file.json["error"]["message"]
        assert (await server.get("/v1/runs"))[1]["data"] == []
    assert not disk.logs


async def test_a_large_body_is_looked_through_beside_the_loop() -> None:
    """P10: brackets by the hundred thousand hold up nobody else."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    body = b'{"input": "x", "metadata": {"a": [%b]}}' % b",".join([b"[]"] * 90_000)
    wanted = await parsed(body, Limits(), RunRequest)
    beside.cancel()
    assert wanted.input == "x"
    assert turns > 0


async def test_a_thousand_parts_are_all_that_one_request_may_hold_whatever_their_kind() -> None:
    """P12: texts count, in one message and in several, on every route."""

    def said(count: int) -> Any:
        return {"role": "user", "content": [{"type": "text", "text": "x"}] * count}

    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        run_id = await server.start("hi", session_id="s")
        for path, most, more in (
            ("/v1/runs", {"input": [said(1000)]}, {"input": [said(1001)]}),
            ("/v1/runs", {"input": [said(400), said(600)]}, {"input": [said(401), said(600)]}),
            (
                "/v1/runs",
                {"input": "x", "conversation_history": [said(999)]},
                {"input": "x", "conversation_history": [said(1000)]},
            ),
            ("/v1/chat/completions", {"messages": [said(1000)]}, {"messages": [said(500), said(501)]}),
            ("/v1/responses", {"input": [said(1000)]}, {"input": [said(1001)]}),
            ("/api/sessions/s/chat", {"input": [said(1000)]}, {"input": [said(1001)]}),
            (f"/v1/runs/{run_id}/messages", None, {"message": said(1001)["content"]}),
        ):
            refused = await server.call("POST", path, body=more)
            assert (refused.status, refused.code) == (400, "too_many_parts"), path
            if most is not None:
                assert (await server.post(path, most))[0] in {200, 202}, path


async def test_json_that_is_too_deep_or_has_too_many_parts_is_refused() -> None:
    """P12: also where the brackets stand inside strings, which count for nothing."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos)) as server:
        deep = b'{"input": "x", "metadata": {"a": %b1%b}}' % (b"[" * 63, b"]" * 63)
        answer = await server.call("POST", "/v1/runs", body=deep)
        assert (answer.status, answer.code) == (400, "json_too_deep")
        bottomless = b'{"input": ' + b"[" * 1_000_000
        answer = await server.call("POST", "/v1/runs", body=bottomless)
        assert (answer.status, answer.code) == (400, "json_too_deep")
        wide = b'{"input": "x", "metadata": {"a": [%b]}}' % b",".join([b"[]"] * 100_000)
        answer = await server.call("POST", "/v1/runs", body=wide)
        assert (answer.status, answer.code) == (400, "json_too_large")
        many = {"input": [{"role": "user", "content": "x"}] * 1001}
        answer = await server.call("POST", "/v1/runs", body=many)
        assert (answer.status, answer.code) == (400, "too_many_parts")
        text = "[" * 200 + '"' + "{" * 200_000
        assert (await server.post("/v1/runs", {"input": text}))[0] == 202


async def test_a_name_that_lists_repeat_is_a_short_one() -> None:
    """P10, P12: a page of two hundred runs is no larger than their number makes it."""
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        for field in ("model", "client_id"):
            answer = await server.call("POST", "/v1/runs", body={"input": "x", field: "m" * 257})
            assert (answer.status, answer.json["error"]["param"]) == (400, field)
            assert (await server.post("/v1/runs", {"input": "x", field: "m" * 256}))[0] == 202
        asked = {"messages": [{"role": "user", "content": "x"}], "input": "x", "model": "m" * 257}
        for path in ("/v1/chat/completions", "/v1/responses"):
            unknown = await server.call("POST", path, body=asked)
            assert (unknown.status, unknown.code) == (404, "model_not_found")
            assert len(unknown.body) < 512, "it isn't repeated whole"


async def test_what_cannot_be_encoded_again_is_refused() -> None:
    """P12: half a character is no text."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos)) as server:
        answer = await server.call("POST", "/v1/runs", body=b'{"input": "\\ud800"}')
        assert answer.status == 400


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\n",
        b"",
        b"GE",
    ],
)
@on_moved_loop
async def test_headers_that_do_not_come_end_the_connection(sent: bytes) -> None:
    """P10: a sender that says nothing holds nothing."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        assert await raw_after(LIMITS.header_s, server, sent) == b""


@on_moved_loop
async def test_a_body_that_does_not_come_is_answered_and_ends_the_connection() -> None:
    """P10, P12: a sender that stops in the middle hears so."""
    head = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    async with ChaosServer() as chaos:
        async with served(target_of(chaos)) as server:
            await server.get("/v1/runs/none")  # which loads the endpoints
            answer = await raw_after(LIMITS.body_s, server, head)
        assert b"408" in answer.split(b"\r\n")[0]
        assert b'"code":"body_too_slow"' in answer
        async with served(target_of(chaos), setting=limited(body_total_s=15)) as server:
            await server.get("/v1/runs/none")
            assert b'"code":"body_too_slow"' in await raw_after(15, server, head)


async def test_what_is_no_http_gets_the_envelope() -> None:
    """P12: even then."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        answer = await raw(server, b"\x16\x03\x01 hello\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400")
        assert b'"code":"invalid_http"' in answer
        assert has_security_headers(answer)
        foreign = await raw(server, b"FOO / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"a known HTTP method" in foreign
        length = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n"
        assert b"Content-Length" in await raw(server, length), "it says what is wrong"
        tunnel = await raw(server, b"CONNECT host:443 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"isn't a proxy" in tunnel


@for_each_row("path", ["/v1/chat/completions", "/v1/responses", "/api/sessions/s/chat/stream"])
async def test_a_plain_client_that_finds_no_room_leaves_no_run_behind(path: str) -> None:
    """P12: who is told to come back later does not come back to a second run."""
    async with (
        ChaosServer([Hang()], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT), setting=limited(subscribers_max=1)) as server,
    ):
        async with server.http.get(f"{server.url}/api/events"):
            await server.until_streams(1)
            body = {"messages": [{"role": "user", "content": "hi"}], "input": "hi", "stream": True}
            answer = await server.call("POST", path, body=body)
            assert (answer.status, answer.code) == (429, "too_many_streams")
        assert (await server.get("/v1/runs"))[1]["data"] == []


async def test_no_more_streams_than_there_is_room_for() -> None:
    """P10: one reader too many is told to come back; when one leaves there is room again."""
    setting = limited(subscribers_max=1)
    async with (
        ChaosServer([Hang()], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
    ):
        run_id = await server.start()
        path = f"{server.url}/v1/runs/{run_id}/events"
        async with server.http.get(path) as first:
            await first.content.readline()
            answer = await server.call("GET", f"/v1/runs/{run_id}/events")
            assert (answer.status, answer.code) == (429, "too_many_streams")
            assert answer.headers["Retry-After"]
        await server.until_streams(0)
        async with server.http.get(path) as again:
            assert again.status == 200


async def test_a_queue_that_is_full_says_so() -> None:
    """P2: what was not taken is said not to be taken."""
    async with (
        ChaosServer([Hang()], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        for _ in range(51):
            await server.start(session_id="s")
        answer = await server.call("POST", "/v1/runs", body={"input": "x", "session_id": "s"})
        assert (answer.status, answer.code) == (429, "queue_full")
        assert answer.headers["Retry-After"]


HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


@for_each_row(
    "sent",
    [
        HEAD + b"".join(b"x-%d: y\r\n" % n for n in range(300)) + b"\r\n",
        HEAD + b"x-long: " + b"a" * 100_000 + b"\r\n\r\n",
        HEAD + b"x-endless: " + b"a" * 400_000,
        b"GET /" + b"a" * 400_000,
        HEAD + b"x" * 400_000,
    ],
    ids=["many", "long", "endless value", "endless address", "endless name"],
)
async def test_a_flood_of_headers_is_cut_off(sent: bytes) -> None:
    """P10, P12: it is told so, and what it sent is not gathered."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        try:
            answer = await raw(server, sent)
        except ConnectionError:
            answer = b""  # what was still on its way when the connection was closed resets it
        if len(sent) < 10_000 or answer:
            assert answer.startswith(b"HTTP/1.1 431")
            assert b'"code":"headers_too_large"' in answer
            assert has_security_headers(answer)
        assert (await server.get("/health"))[0] == 200


@on_moved_loop
async def test_a_chunked_body_is_read_whole_and_a_broken_one_starts_nothing() -> None:
    """P12: chunks of any size make a body; a bad length, a slow chunk or an early end makes none."""
    head = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    head += b"Connection: close\r\n\r\n"
    disk = MemoryDisk()
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=MemoryStore(disk)) as server,
    ):
        for broken in (b"zz\r\n{}\r\n", b"2\r\n{}XX0\r\n\r\n"):
            answer = await raw(server, head + broken)
            assert answer.split(b" ")[1] == b"400", (broken, answer)
        for cut_short in (b'5\r\n{"inp', b"2\r\n{}\r\n"):
            answer = await raw_after(LIMITS.body_s, server, head + cut_short)
            assert answer.split(b" ")[1] == b"408", (cut_short, answer)
        assert not disk.logs
        body = b'{"input": "hi"}'
        pieces = b"".join(b"1\r\n%c\r\n" % letter for letter in body) + b"0\r\n\r\n"
        assert (await raw(server, head + pieces)).startswith(b"HTTP/1.1 202")
    assert len(disk.logs) == 1


async def test_two_lengths_are_no_request() -> None:
    """P11: what a proxy in front might read differently is not read at all."""
    head = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
    both, twice = b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"Content-Length: 3\r\n\r\n{}"
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for sent in (both, twice):
            assert (await raw(server, head + sent)).startswith(b"HTTP/1.1 400")


async def test_too_many_waiting_runs_are_refused_until_there_is_room() -> None:
    """P2, P10: what waits for a slot is bounded; a refusal says when to come back, and is not kept."""
    setting = replace(limited(queued_runs_max=1), runner=RunnerLimits(runs_max=1))
    async with (
        ChaosServer([Hang()], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
    ):
        first = await server.start(session_id="a")
        await chaos.seen.until_request(1)
        await server.start(session_id="b")
        for path, body in (
            ("/v1/runs", {"input": "x", "session_id": "c"}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
            ("/v1/responses", {"input": "x"}),
            ("/api/sessions/c/chat", {"message": "x"}),
        ):
            answer = await server.call("POST", path, body=body)
            assert (answer.status, answer.code) == (429, "queue_full"), path
            assert int(answer.headers["Retry-After"]) > 0
        assert len((await server.get("/api/sessions?all=true"))[1]["data"]) == 2
        await server.post(f"/v1/runs/{first}/stop")
        await chaos.seen.until_request(2)
        assert (await server.post("/v1/runs", {"input": "x", "session_id": "c"}))[0] == 202


class Refusing(MemoryStore):
    """A store that takes no writes while it is told so."""

    refuses: JournalError | None = None

    async def append(self, session_id: str, inputs: Sequence[Input], **rest: Any) -> Any:
        if self.refuses is not None:
            raise self.refuses
        return await super().append(session_id, inputs, **rest)


async def test_a_store_that_takes_no_writes_is_said_to_and_nothing_is_accepted() -> None:
    """P2: 503 in the envelope, with a time to come back; reading goes on, and the next request is taken."""
    store = Refusing()
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=store) as server,
    ):
        run_id = await server.start(session_id="s")
        await server.ended(run_id)
        for error, code in (
            (StoreFull("the disk is full"), "store_unavailable"),
            (StoreOverloaded("x"), "store_overloaded"),
        ):
            store.refuses = error
            for path, body in (
                ("/v1/runs", {"input": "x", "session_id": "s"}),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "stream": True}),
                ("/api/sessions", {"id": "t"}),
                (f"/v1/runs/{run_id}/retry", {}),
                ("/api/sessions/s/fork", {}),
            ):
                answer = await server.call("POST", path, body=body)
                assert (answer.status, answer.code) == (503, code), path
                assert answer.json["error"]["type"] == "server_error"
                assert int(answer.headers["Retry-After"]) > 0
        assert (await server.get(f"/v1/runs/{run_id}"))[1]["status"] == "completed"
        store.refuses = None
        assert (await server.post("/v1/runs", {"input": "x", "session_id": "s"}))[0] == 202
        assert len((await server.get("/v1/runs"))[1]["data"]) == 2
    await store.close()


async def test_a_write_of_unknown_outcome_is_a_504_that_says_how_to_send_it_again() -> None:
    """P2: nobody is told that it failed, and no client repeats it by itself without a key."""
    store = Refusing()
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        store.refuses = OutcomeUnknown("the connection to the database broke")
        answer = await server.call("POST", "/v1/runs", body={"input": "x", "session_id": "s"})
        assert (answer.status, answer.code) == (504, "outcome_unknown")
        assert "Retry with the same Idempotency-Key" in answer.json["error"]["message"]
        assert answer.headers["X-Should-Retry"] == "false"
        _, document = await server.get("/openapi.json")
        assert "504" in document["paths"]["/v1/runs"]["post"]["responses"]
        assert "504" not in document["paths"]["/v1/runs"]["get"]["responses"]
    await store.close()


@for_each_row(
    ("error", "status", "code"),
    [
        (StoreDamaged("integrity check failed at session s seq 2"), 500, "store_damaged"),
        (UnknownSession("there is no session 's'; it may have been purged"), 404, "session_not_found"),
    ],
)
async def test_what_no_later_try_can_heal_is_not_said_to_be_a_store_that_takes_no_writes(
    error: JournalError, status: int, code: str
) -> None:
    """P12: who reads it knows what is wrong, and no client tries again and again."""
    store = Refusing()
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        store.refuses = error
        answer = await server.call("POST", "/v1/runs", body={"input": "x", "session_id": "s"})
        assert (answer.status, answer.code) == (status, code)
        assert str(error) in answer.json["error"]["message"]
        assert "take writes" not in answer.json["error"]["message"]
        assert "Retry-After" not in answer.headers
        _, document = await server.get("/openapi.json")
        described = document["paths"]["/v1/runs"]["post"]["responses"]
        assert status == 404 or code in described[str(status)]["description"].split(", ")
    await store.close()
