"""Event streams: any cursor, any number of readers, slow ones too."""

import asyncio

from holdfast.chaos import ChaosServer, Drop, Gate, Hang, Say, SayWords, Wait
from holdfast.server.options import Limits, ServerOptions
from holdfast.targets import Patience
from serving import PATIENT, Frame, Setting, limited, served, target_of, text_of
from stores import MemoryStore


async def test_every_cursor_gives_the_same_log() -> None:
    """P7: a reader that comes at any point, live or after the end, sees the same frames."""
    gate = Gate()
    script = [Say("one "), Say("two "), Wait(gate), Say("three")]
    async with ChaosServer(script) as chaos, served(target_of(chaos, patience=PATIENT)) as server:
        run_id = await server.start()
        live = asyncio.create_task(server.all_frames(run_id, view="native"))
        hermes = asyncio.create_task(server.all_frames(run_id))
        await gate.reached()
        gate.open()
        whole = await live
        assert [frame.data["type"] for frame in whole][-1] == "run.ended"
        assert await server.all_frames(run_id, view="native") == whole
        for cursor in whole[:-1]:
            rest = await server.all_frames(run_id, view="native", after=cursor.id)
            assert rest == [frame for frame in whole if frame.id > cursor.id]
        shown = await hermes
        for cursor in shown[:-1]:
            rest = await server.all_frames(run_id, after=cursor.id)
            assert rest == [frame for frame in shown if frame.id > cursor.id]


async def test_the_terminal_cursor_has_nothing_to_add_and_a_foreign_one_replays() -> None:
    """P7: 204 stops a browser's EventSource; a cursor that this run never gave out skips nothing."""
    async with ChaosServer([Say("x")], [Say("y")]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start(session_id="s")
        whole = await server.all_frames(run_id)
        path = f"/v1/runs/{run_id}/events"
        terminal = str(whole[-1].id)
        assert (await server.call("GET", path, headers={"Last-Event-ID": terminal})).status == 204
        assert (await server.call("GET", f"{path}?after={terminal}")).status == 204
        assert await server.all_frames(run_id, after=10**9) == whole
        later = await server.start(session_id="s")
        await server.all_frames(later)
        assert await server.all_frames(later, after=whole[-1].id) == await server.all_frames(later)
        for odd in ("x", "-1", "99999999999999999999999", "²"):
            frames = [
                frame async for frame in server.follow(path, headers={"Last-Event-ID": odd}) if frame.id
            ]
            assert frames == whole


async def test_a_stream_says_when_it_is_over() -> None:
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start()
        body = (await server.call("GET", f"/v1/runs/{run_id}/events")).body
        assert body.endswith(b"\n\n: stream closed\n\n")


async def test_text_that_was_seen_is_repeated_only_where_it_changed() -> None:
    """P4, P7: at the first difference one line says so, then the new text; the output is clean."""
    async with (
        ChaosServer([Say("hello world"), Drop()], [Say("hello "), Say("there")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        run_id = await server.start()
        frames = await server.all_frames(run_id)
        assert text_of(frames) == "hello world\n\n[answer restarted]\n\nhello there"
        assert frames[-1].data["output"] == "hello there"
        native = await server.all_frames(run_id, view="native")
        assert "attempt.superseded" in [frame.data["type"] for frame in native]


async def test_a_reader_that_does_not_read_costs_nobody_anything() -> None:
    """P10: it falls behind in the log; the run and all other readers go on."""
    script = [SayWords(f"{'x' * 1500} " * 2_000)]  # more than all buffers on the way hold
    async with ChaosServer(script) as chaos, served(target_of(chaos, patience=PATIENT)) as server:
        run_id = await server.start()
        async with server.http.get(f"{server.url}/v1/runs/{run_id}/events") as stuck:
            frames = await server.all_frames(run_id)
            assert frames[-1].data["event"] == "run.completed"
            lines = [line async for line in stuck.content]
        assert max(len(line) for line in lines) < 128 * 1024
        ids = [int(line[4:]) for line in lines if line.startswith(b"id: ")]
        assert ids == [frame.id for frame in frames]


async def test_an_output_too_long_for_a_line_is_shortened_there_and_whole_in_the_run() -> None:
    text = "ä" * 90_000
    async with ChaosServer([Say(text)]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start()
        frames = await server.all_frames(run_id)
        assert frames[-1].data["output_truncated"] is True
        assert text.startswith(frames[-1].data["output"])
        assert text_of(frames) == text
        assert (await server.ended(run_id))["output"] == text


async def test_a_silent_stream_has_heartbeats_and_a_live_line_without_ids() -> None:
    """P3: what is waited for is said while it is waited for."""
    limits = Limits(heartbeat_s=0.05, live_after_s=0.02, live_every_s=0.02)
    setting = Setting(options=ServerOptions(limits=limits))
    patience = Patience(first_event_s=20)
    async with (
        ChaosServer([Hang()]) as chaos,
        served(target_of(chaos, patience=patience), setting=setting) as server,
    ):
        run_id = await server.start()
        await chaos.seen.until_body(1)
        lines: list[bytes] = []
        async with server.http.get(f"{server.url}/v1/runs/{run_id}/events") as stream:
            async for line in stream.content:
                lines.append(line)
                if b": keepalive\n" in lines and any(b'"event":"live"' in one for one in lines):
                    break
        at = next(n for n, line in enumerate(lines) if b'"event":"live"' in line)
        assert lines[at - 1] == b"\n"
        assert run_id.encode() in lines[at]


async def test_shutting_down_ends_streams_that_only_listen() -> None:
    """P3: leaving the server waits for no reader."""
    store = MemoryStore()
    async with (
        ChaosServer([Hang()]) as chaos,
        served(target_of(chaos, patience=PATIENT), store=store) as server,
    ):
        run_id = await server.start()
        await chaos.seen.until_body(1)
        reading: asyncio.Task[list[Frame]] = asyncio.create_task(server.all_frames(run_id))
        await server.until_streams(1)
        server.streams.end()
        assert "run.started" in [frame.data["event"] for frame in await reading]
        again = await server.call("GET", f"/v1/runs/{run_id}/events")
        assert (again.status, again.code) == (503, "shutting_down")


async def test_many_readers_each_get_everything() -> None:
    """P7: a second reader takes nothing from the first."""
    gate = Gate()
    script = [Say("a"), Wait(gate), SayWords("b c d e f")]
    async with (
        ChaosServer(script) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=limited(subscribers_max=100)) as server,
    ):
        run_id = await server.start()
        readers = [asyncio.create_task(server.all_frames(run_id)) for _ in range(30)]
        await gate.reached()
        gate.open()
        results = await asyncio.gather(*readers)
    assert all(frames == results[0] for frames in results)
    assert text_of(results[0]) == "ab c d e f"
