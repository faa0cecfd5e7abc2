"""Sessions over HTTP: list, search, change, delete and undo, drafts, queue, export."""

import json

from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait
from holdfast.journal.memory_disk import MemoryDisk
from serving import PATIENT, limited, said_to, served, target_of
from stores import MemoryStore
from tables import for_each_row

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


async def test_a_session_is_created_listed_changed_and_shown() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        key = {"Idempotency-Key": "k"}
        first = await server.call("POST", "/api/sessions", body={"title": "  A\n name "}, headers=key)
        again = await server.call("POST", "/api/sessions", body={"title": "  A\n name "}, headers=key)
        assert (first.status, again.status) == (201, 201)
        assert first.json == again.json
        assert first.json["title"] == "A name"
        session_id = first.json["session_id"]
        taken = await server.call("POST", "/api/sessions", body={"session_id": session_id})
        assert (taken.status, taken.code) == (409, "session_exists")
        path = f"/api/sessions/{session_id}"
        changed = await server.call("PATCH", path, body={"title": "B", "pinned": True, "read_seq": 99})
        assert (changed.json["title"], changed.json["pinned"]) == ("B", True)
        _, shown = await server.get(path)
        assert (shown["read_seq"], shown["last_seq"], shown["unread"]) == (1, 3, False)
        await server.call("PATCH", path, body={"archived": True, "pinned": False})
        assert (await server.get("/api/sessions"))[1]["data"] == []
        assert [one["id"] for one in (await server.get("/api/sessions?archived=true"))[1]["data"]] == [
            session_id
        ]
        bad = await server.call("PATCH", path, body={"pinned": "very"})
        assert (bad.status, bad.json["error"]["param"]) == (400, "pinned")
        assert (await server.call("PATCH", "/api/sessions/none", body={})).code == "session_not_found"


async def test_the_list_has_pages_and_finds_text_with_highlights() -> None:
    async with (
        ChaosServer([Say("the quick answer")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        for n in range(5):
            await server.ended(await server.start(f"question {n}", session_id=f"s{n}"))
        seen: list[str] = []
        cursor = ""
        while True:
            _, page = await server.get(f"/api/sessions?limit=2&cursor={cursor}")
            seen += [one["id"] for one in page["data"]]
            if not page["has_more"]:
                break
            cursor = page["next_cursor"]
        assert seen == ["s4", "s3", "s2", "s1", "s0"]
        _, found = await server.get("/api/sessions?q=quick&limit=3")
        assert len(found["data"]) == 3
        hit = found["data"][0]["hit"]
        assert [hit["passage"][begin:end] for begin, end in hit["highlights"]] == ["quick"]
        assert (await server.get("/api/sessions?q=nowhere"))[1]["data"] == []
        await server.call("PATCH", "/api/sessions/s1", body={"archived": True})
        for archived, expected in (("", {"s0", "s1"}), ("&archived=true", {"s1"}), ("&archived=no", {"s0"})):
            _, found = await server.get(f"/api/sessions?q=question{archived}")
            assert {one["id"] for one in found["data"]} & {"s0", "s1"} == expected
        assert (await server.get("/api/sessions?cursor=odd"))[0] == 400


async def test_a_deleted_session_is_gone_at_once_and_can_be_taken_back() -> None:
    """P5: its runs are stopped, and what comes back is whole."""
    async with (
        ChaosServer([Say("secret words"), Hang()]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        run_id = await server.start("hi", session_id="s")
        await chaos.seen.until_body(1)
        deleted = await server.call("DELETE", "/api/sessions/s")
        assert deleted.json["deleted"] is True
        assert (await server.ended(run_id))["status"] == "cancelled"
        assert (await server.get("/api/sessions"))[1]["data"] == []
        assert (await server.get("/api/sessions/s"))[0] == 404
        assert (await server.call("DELETE", "/api/sessions/s")).status == 404
        refused = await server.call("POST", "/v1/runs", body={"input": "x", "session_id": "s"})
        assert (refused.status, refused.code) == (409, "session_deleted")
        back = await server.call("POST", "/api/sessions/s/undelete")
        assert back.status == 200
        assert (await server.get("/api/sessions/s/messages"))[1]["data"]
        assert (await server.call("POST", "/api/sessions/none/undelete")).status == 404


async def test_a_purge_leaves_nothing() -> None:
    """P11: at once if asked for, else when the time to take it back is over."""
    disk = MemoryDisk()
    setting = limited(undelete_s=0.05)
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=MemoryStore(disk), setting=setting) as server,
    ):
        for session_id in ("now", "later"):
            await server.ended(await server.start("hi", session_id=session_id))
            await server.call("PUT", f"/api/sessions/{session_id}/draft", body={"text": "d"})
        follow = server.follow("/api/sessions/later/events")
        await anext(follow)
        assert (await server.call("DELETE", "/api/sessions/now?now=true")).status == 200
        assert "now" not in disk.logs
        await server.call("DELETE", "/api/sessions/later")
        async for _ in follow:
            pass  # the stream ends with the session
    assert not disk.logs
    assert not disk.runs
    assert not [key for key in disk.notes if key.startswith("session/")]


async def test_the_transcript_comes_in_pages_newest_first() -> None:
    async with ChaosServer([Say("answer")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        for n in range(4):
            await server.ended(await server.start(f"q{n}", session_id="s"))
        pages: list[list[str]] = []
        path = "/api/sessions/s/messages?limit=3"
        while True:
            _, page = await server.get(path)
            pages.insert(0, [one["kind"] for one in page["data"]])
            if not page["has_more"]:
                break
            path = f"/api/sessions/s/messages?limit=3&before={page['next_before']}"
        assert [kind for kinds in pages for kind in kinds] == ["person", "text", "ending"] * 4
        _, page = await server.get("/api/sessions/s/messages")
        assert [(one.get("role"), one.get("content")) for one in page["data"]][-3:-1] == [
            ("user", "q3"),
            ("assistant", "answer"),
        ]


async def test_a_fork_copies_up_to_a_seq_and_leaves_the_source_alone() -> None:
    gate = Gate()
    async with (
        ChaosServer([Say("one")], [Say("half"), Wait(gate)], [Say("other")], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        await server.ended(await server.start("first", session_id="s"))
        second = await server.start("second", session_id="s")
        await gate.reached()
        await server.start("queued", session_id="s")
        _, before = await server.get("/api/sessions/s/export")
        forked = await server.call("POST", "/api/sessions/s/fork", body={"session_id": "f"})
        assert forked.status == 201
        _, copy = await server.get("/api/sessions/f/export")
        count = len(before["events"])
        assert copy["events"][1:count] == before["events"][1:]
        assert copy["events"][0]["epoch"] != before["events"][0]["epoch"]
        assert (await server.get("/api/sessions/f/queue"))[1]["data"] == []
        assert (await server.get("/api/sessions/f"))[1]["open_runs"] == 0
        await server.ended(await server.start("third", session_id="f"))
        assert said_to(chaos, nth=3)[:2] == ["first", "one"]
        assert said_to(chaos, nth=3)[-1] == "third"
        assert (await server.get(f"/v1/runs/{second}"))[1]["status"] == "running"
        bad = await server.call("POST", "/api/sessions/s/fork", body={"at_seq": 10_000})
        assert (bad.status, bad.json["error"]["param"]) == (400, "at_seq")
        gate.open()


async def test_a_fork_can_retry_a_run_that_it_inherited_and_the_source_stays_as_it_is() -> None:
    """P7, P12: the run is looked for in the log of the fork, which need not have begun it."""
    async with (
        ChaosServer([Say("one")], [Say("two")], [Say("another")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        await server.ended(await server.start("first", session_id="s"))
        second = (await server.ended(await server.start("second", session_id="s")))["run_id"]
        await server.post("/api/sessions/s/fork", {"session_id": "f"})
        _, source = await server.get("/api/sessions/s/export")
        status, again = await server.post(f"/v1/runs/{second}/retry", {"session_id": "f"})
        assert (status, again["session_id"]) == (202, "f")
        await server.ended(again["run_id"])
        assert said_to(chaos, nth=3) == ["first", "one", "second"]
        _, page = await server.get("/api/sessions/f/messages")
        texts = [one["content"] for one in page["data"] if one["kind"] == "text"]
        assert texts == ["one", "another"]
        assert (await server.get("/api/sessions/s/export"))[1]["events"] == source["events"]
        for session_id, run_id, code in (
            ("none", second, "session_not_found"),
            ("f", "run_none", "run_not_found"),
            ("s", again["run_id"], "run_not_found"),
        ):
            status, answer = await server.post(f"/v1/runs/{run_id}/retry", {"session_id": session_id})
            assert (status, answer["error"]["code"]) == (404, code)


async def test_a_conversation_is_compacted_on_request_and_once_per_key() -> None:
    """P2, P12: the response names a run; what can't be compacted gets a clear error."""
    async with (
        ChaosServer([Say("one")], [Say("## Task\nin short")], [Say("two")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        status, answer = await server.post("/api/sessions/none/compact", {})
        assert (status, answer["error"]["code"]) == (404, "session_not_found")
        await server.ended(await server.start("first", session_id="s"))
        body, once = {"focus": "the\nnumber"}, {"Idempotency-Key": "k1"}
        status, started = await server.post("/api/sessions/s/compact", body, **once)
        assert (status, started["session_id"]) == (202, "s")
        assert (await server.post("/api/sessions/s/compact", body, **once))[1] == started
        assert (await server.ended(started["run_id"]))["status"] == "completed"
        status, answer = await server.post("/api/sessions/s/compact", {})
        assert (status, answer["error"]["code"]) == (409, "nothing_to_compact")
        assert (await server.post("/api/sessions/s/compact", {"focus": "x" * 2_001}))[0] == 400
        await server.ended(await server.start("second", session_id="s"))
        assert said_to(chaos, nth=3)[0].endswith("in short\n\nsecond")
        _, page = await server.get("/api/sessions/s/messages")
        said = [entry["content"] for entry in page["data"] if entry["kind"] in {"person", "text"}]
        assert said == ["first", "one", "/compact the number", "second", "two"]


async def test_a_rewind_hides_what_came_after() -> None:
    async with (
        ChaosServer([Say("one")], [Say("two")], [Say("three")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        first = await server.ended(await server.start("first", session_id="s"))
        await server.ended(await server.start("second", session_id="s"))
        status, _ = await server.post("/api/sessions/s/rewind", {"to_seq": first["last_event_id"]})
        assert status == 200
        await server.ended(await server.start("third", session_id="s"))
        assert said_to(chaos, nth=3) == ["first", "one", "third"]
        assert (await server.post("/api/sessions/s/rewind", {"to_seq": 0}))[0] == 400
        assert (await server.post("/api/sessions/s/rewind", {}))[1]["error"]["param"] == "to_seq"


async def test_drafts_are_kept_on_the_server() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        path = "/api/sessions/s/draft"
        assert (await server.get(path))[1] == {"text": ""}
        await server.post("/api/sessions", {"session_id": "s"})
        await server.call("PUT", path, body={"text": "half a thought"})
        assert (await server.get(path))[1] == {"text": "half a thought"}
        await server.call("PUT", path, body={"text": ""})
        assert (await server.get(path))[1] == {"text": ""}


async def test_a_session_that_is_gone_keeps_no_draft() -> None:
    """P12: a page that is still open writes nothing into what was deleted."""
    disk = MemoryDisk()
    async with ChaosServer() as chaos, served(target_of(chaos), store=MemoryStore(disk)) as server:
        await server.post("/api/sessions", {"session_id": "s"})
        await server.call("PUT", "/api/sessions/s/draft", body={"text": "half a thought"})
        assert (await server.call("DELETE", "/api/sessions/s?now=true")).status == 200
        late = await server.call("PUT", "/api/sessions/s/draft", body={"text": "half a thought"})
        assert (late.status, late.code) == (404, "session_not_found")
        assert (await server.call("PUT", "/api/sessions/s/draft", body={"text": ""})).status == 200
    assert not [key for key in disk.notes if key.startswith("session/s/")]


async def test_the_queue_can_be_edited_moved_paused_and_cleared() -> None:
    """P2: what waits is the same for everyone who looks, and what no longer waits says so."""
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("one")], [Say("two")], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        first = await server.start("a", session_id="s")
        await gate.reached()
        runs = [await server.start(text, session_id="s") for text in ("b", "c", "d", "e")]
        queue = "/api/sessions/s/queue"
        _, waiting = await server.get(queue)
        assert [one["text"] for one in waiting["data"]] == ["b", "c", "d", "e"]
        b, c, d, e = (one["message_id"] for one in waiting["data"])
        await server.call("PATCH", f"{queue}/{c}", body={"text": "C", "position": 0})
        await server.call("DELETE", f"{queue}/{d}")
        steered = await server.call("PATCH", f"{queue}/{e}", body={"steer": True})
        assert [(one["text"], one["state"]) for one in steered.json["data"]] == [
            ("e", "steering"),
            ("C", "queued"),
            ("b", "queued"),
        ]
        assert (await server.ended(runs[2]))["status"] == "cancelled"
        assert (await server.call("POST", f"{queue}/pause")).json["paused"] is True
        gate.open()
        await server.ended(first)
        assert (await server.get(queue))[1]["paused"] is True
        late = await server.call("DELETE", f"{queue}/{e}")
        assert (late.status, late.code) == (409, "message_not_waiting")
        assert (await server.call("DELETE", f"{queue}/msg_x")).status == 404
        assert (await server.call("POST", f"{queue}/clear")).json["data"] == []
        assert (await server.ended(runs[0]))["status"] == "cancelled"
        del b


async def test_a_session_is_exported_as_json_and_as_text() -> None:
    async with ChaosServer([Say("an answer")]) as chaos, served(target_of(chaos)) as server:
        await server.ended(await server.start("a question", session_id="s"))
        _, whole = await server.get("/api/sessions/s/export")
        assert [event["seq"] for event in whole["events"]] == list(range(1, len(whole["events"]) + 1))
        text = await server.call("GET", "/api/sessions/s/export?format=md")
        assert "## You\n\na question" in text.body.decode()
        assert "## Assistant\n\nan answer" in text.body.decode()
        assert (await server.call("GET", "/api/sessions/s/export?format=pdf")).status == 400


async def test_a_session_is_exported_as_a_page_that_needs_nothing_else() -> None:
    """P11: nothing that a person, the model or a tool wrote becomes markup, a script or a request."""
    bad = "<script>alert(1)</script><img src=x onerror=y>"
    text = f"**Bold** [a](javascript:b) ![c](https://tracker.example/p.png)\n\n| d |\n|---|\n| e |\n\n{bad}"
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    script = [[CallTool("no_such_tool", {"path": bad})], [Say(text)]]
    async with ChaosServer(*script) as chaos, served(target_of(chaos)) as server:
        asked = [{"role": "user", "content": [{"type": "text", "text": bad}, image]}]
        _, begun = await server.post("/v1/runs", {"input": asked, "session_id": "s"})
        await server.ended(begun["run_id"])
        await server.call("PATCH", "/api/sessions/s", body={"title": bad})
        got = await server.call("GET", "/api/sessions/s/export?format=html")
        page = got.body.decode()
    assert got.headers["Content-Type"].startswith("text/html")
    assert "attachment" in got.headers["Content-Disposition"]
    assert "<strong>Bold</strong>" in page
    assert "<td>e</td>" in page
    assert f"data:image/png;base64,{PIXEL}" in page
    assert "<title>&lt;script&gt;" in page
    assert "<script" not in page
    assert "onerror=y>" not in page.replace("onerror=y&gt;", "")
    assert 'href="javascript' not in page
    assert 'src="https' not in page
    assert "default-src 'none'" in page


async def test_one_stream_has_the_whole_log_and_the_changes_of_the_list() -> None:
    """P7: gap-free with ids; what happens elsewhere comes without one."""
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        await server.ended(await server.start(session_id="mine"))
        _, whole = await server.get("/api/sessions/mine/export")
        count = len(whole["events"])
        own: list[int] = []
        async for frame in server.follow("/api/sessions/mine/events"):
            if frame.id:
                own.append(frame.id)
                if frame.id == count:
                    await server.start(session_id="other")
            elif frame.data["type"] == "session.changed" and frame.data["session"]["id"] == "other":
                break
        assert own == list(range(1, count + 1))
        rest = server.follow("/api/sessions/mine/events?after=3")
        assert (await anext(rest)).id == 4
        replay = server.follow("/api/sessions/mine/events?after=99999")
        assert (await anext(replay)).id == 1
        await rest.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        await replay.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def test_chat_waits_for_the_answer_or_streams_it() -> None:
    async with (
        ChaosServer([Say("one")], [Say("two "), Say("three")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        status, answer = await server.post("/api/sessions/s/chat", {"message": "hi"})
        assert (status, answer["message"]["content"], answer["status"]) == (200, "one", "completed")
        stream = await server.call("POST", "/api/sessions/s/chat/stream", body={"message": "go on"})
        lines = stream.body.decode().splitlines()
        assert "event: run.started" in lines
        deltas = [
            json.loads(line[6:]) for line in lines if '"assistant.delta"' in line and line.startswith("data")
        ]
        assert "".join(delta["delta"] for delta in deltas) == "two three"
        assert lines[-3] == "event: done"
        assert stream.headers["X-Hermes-Run-Id"].startswith("run_")
        status, failed = await server.post("/api/sessions/s/chat", {"message": "again"})
        assert (status, failed["error"]["type"]) == (502, "server_error")


async def test_blobs_go_up_and_come_down_and_are_named_in_messages() -> None:
    async with (
        ChaosServer([Say("seen")]) as chaos,
        served(target_of(chaos), setting=limited(blob_bytes_max=100)) as server,
    ):
        put = await server.call("POST", "/api/blobs", body=b"\x89PNG", headers={"Content-Type": "image/png"})
        assert put.status == 201
        name = put.json["blob"]
        got = await server.call("GET", f"/api/blobs/{name}")
        assert (got.body, got.headers["Content-Disposition"]) == (b"\x89PNG", "attachment")
        image = await server.call("GET", f"/api/blobs/{name}?media_type=image/png")
        assert image.headers["Content-Type"] == "image/png"
        svg = await server.call("GET", f"/api/blobs/{name}?media_type=image/svg%2Bxml")
        assert svg.headers["Content-Type"] == "application/octet-stream"
        assert (await server.call("GET", "/api/blobs/nothing")).code == "blob_not_found"
        assert (await server.call("POST", "/api/blobs", body=b"x" * 101)).code == "body_too_large"
        assert (await server.call("POST", "/api/blobs", body=b"")).code == "empty_blob"
        part = {"kind": "image", "blob": name, "media_type": "image/png"}
        run_id = await server.start("look", parts=[part])
        frames = await server.all_frames(run_id, view="native")
        assert frames[-1].data["type"] == "run.ended"


async def test_an_interrupted_run_keeps_its_output_above_a_mark_that_reading_does_not_change() -> None:
    """P6, P9: the mark is computed at each reading, and says what is true of the log."""
    disk, gate = MemoryDisk(), Gate()
    async with ChaosServer([Say("half an answer"), Wait(gate)], [Say("next")]) as chaos:
        target = target_of(chaos, patience=PATIENT)
        async with served(target, store=MemoryStore(disk)) as server:
            run_id = await server.start("hi", session_id="s", on_restart="interrupt")
            await gate.reached()
        async with served(target, store=MemoryStore(disk)) as server:
            assert (await server.ended(run_id))["code"] == "interrupted"
            count = len(disk.logs["s"])
            reads = [await server.call("GET", "/api/sessions/s/messages") for _ in range(20)]
            assert {answer.body for answer in reads} == {reads[0].body}
            assert len(disk.logs["s"]) == count
            entries = reads[0].json["data"]
            assert [one["kind"] for one in entries] == ["person", "text", "ending"]
            assert entries[1]["content"] == "half an answer"
            assert entries[2]["mark"] == "Interrupted; output recovered from the run journal."
            assert (await server.ended(await server.start("go on", session_id="s")))["output"] == "next"


@for_each_row(
    ("title", "name"),
    [
        ("Plan für Österreich", "Plan%20f%C3%BCr%20%C3%96sterreich.md"),
        ('a/b\\c: "d" %2e..', "a%20b%20c%20d%202e.md"),
        ("../..", "session.md"),
        ("x" * 200, "x" * 80 + ".md"),
    ],
)
async def test_an_export_is_named_after_its_chat(title: str, name: str) -> None:
    """Whatever the title holds, the name is one that every system can store."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        await server.post("/api/sessions", {"id": "s", "title": title})
        got = await server.call("GET", "/api/sessions/s/export?format=md")
        wanted = f"attachment; filename=\"session.md\"; filename*=UTF-8''{name}"
        assert got.headers["Content-Disposition"] == wanted
