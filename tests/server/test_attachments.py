"""Images and files of people: from the upload, or from inside a request, to what the model is shown."""

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.interfaces.journal import Store
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.targets import Target, Wire
from serving import PATIENT, Served, served, target_of
from stores import MemoryStore, SqliteStore
from tables import for_each_row

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
ENCODED = base64.b64encode(PNG).decode()
DATA_URL = f"data:image/png;base64,{ENCODED}"
NOTES = f"data:text/plain;charset=utf-8;base64,{base64.b64encode(b'buy milk').decode()}"
WIRES: Sequence[Wire] = ("chat", "responses", "anthropic")


def speaking(chaos: ChaosServer, wire: Wire) -> Target:
    return replace(target_of(chaos), wire=wire)


def shown_to(chaos: ChaosServer, *, nth: int) -> list[Any]:
    """The parts of the last message of the nth request, in whatever wire it came."""
    body: Any = chaos.seen.requests[nth - 1].body
    messages = body.get("messages") or body.get("input")
    return messages[-1]["content"]


def image_on(wire: Wire) -> dict[str, Any]:
    """The image as the wire's provider documents it."""
    if wire == "chat":
        return {"type": "image_url", "image_url": {"url": DATA_URL}}
    if wire == "responses":
        return {"type": "input_image", "detail": "auto", "image_url": DATA_URL}
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}}


async def store_of(kind: str, folder: Path) -> Store:
    return MemoryStore() if kind == "memory" else await SqliteStore.open(folder / "holdfast.db")


def files_with(folder: Path, data: bytes) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and data in file.read_bytes()]


def without_marks(parts: list[Any]) -> list[Any]:
    """Without the breakpoints of prompt caches."""
    return [{key: value for key, value in part.items() if key != "cache_control"} for part in parts]


async def upload(server: Served, data: bytes, media_type: str) -> dict[str, Any]:
    answer = await server.call("POST", "/api/blobs", body=data, headers={"Content-Type": media_type})
    assert answer.status == 201
    return answer.json


@for_each_row("wire", WIRES)
async def test_an_uploaded_image_and_file_reach_the_model(wire: Wire) -> None:
    """The same bytes on every wire, also in the session's next run, which shows the conversation again."""
    async with (
        ChaosServer([Say("a cat")], after_last="repeat") as chaos,
        served(speaking(chaos, wire)) as server,
    ):
        image, file = await upload(server, PNG, "image/png"), await upload(server, b"buy milk", "text/plain")
        parts = [
            {"kind": "image", "blob": image["blob"], "media_type": "image/png", "name": "cat.png"},
            {"kind": "file", "blob": file["blob"], "media_type": "text/plain", "name": "list.txt"},
        ]
        run_id = await server.start("what is it?", parts=parts, session_id="s")
        assert (await server.ended(run_id))["output"] == "a cat"
        shown = without_marks(shown_to(chaos, nth=1))
        assert image_on(wire) in shown
        assert "File list.txt:\nbuy milk" in [part.get("text") for part in shown]
        await server.ended(await server.start("and now?", session_id="s"))
        assert ENCODED in str(chaos.seen.requests[1].body)
        back = await server.call("GET", f"/api/blobs/{image['blob']}?media_type=image/png")
        assert (back.body, back.headers["Content-Type"]) == (PNG, "image/png")


async def test_a_damaged_attachment_is_missing_and_holds_up_no_run(tmp_path: Path) -> None:
    """P3, P4: the model is told, and every run of the session still ends."""
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    async with (
        ChaosServer([Say("a cat")], after_last="repeat") as chaos,
        served(target_of(chaos), store=store) as server,
    ):
        image = await upload(server, PNG, "image/png")
        parts = [{"kind": "image", "blob": image["blob"], "media_type": "image/png", "name": "cat.png"}]
        await server.ended(await server.start("what is it?", parts=parts, session_id="s"))
        (file,) = await asyncio.to_thread(files_with, tmp_path / "blobs", PNG)
        await asyncio.to_thread(file.write_bytes, PNG[:-8] + bytes(8))
        assert (await server.ended(await server.start("and now?", session_id="s")))["status"] == "completed"
        assert "[cat.png: no longer available]" in str(chaos.seen.requests[1].body)
    await store.close()


async def test_images_and_files_inside_a_request_become_blobs_of_the_session() -> None:
    """OpenAI's forms on every route that takes messages; the log names them and holds no bytes."""
    disk = MemoryDisk()
    asked: list[tuple[str, Any]] = [
        (
            "/v1/chat/completions",
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": DATA_URL}}]}
                ]
            },
        ),
        (
            "/v1/responses",
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": DATA_URL}]}]},
        ),
        (
            "/api/sessions/s/chat",
            {"message": [{"role": "user", "content": [{"type": "image_url", "image_url": DATA_URL}]}]},
        ),
        (
            "/v1/responses",
            {
                "input": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "input_text", "text": "read"},
                            {"type": "input_file", "filename": "list.txt", "file_data": NOTES},
                        ],
                    }
                ]
            },
        ),
    ]
    async with (
        ChaosServer([Say("seen")], after_last="repeat") as chaos,
        served(target_of(chaos), store=MemoryStore(disk)) as server,
    ):
        for path, body in asked:
            status, answer = await server.post(path, body)
            assert status == 200, answer
        for nth in (1, 2, 3):
            assert shown_to(chaos, nth=nth) == [image_on("chat")]
        assert shown_to(chaos, nth=4) == "read\n\nFile list.txt:\nbuy milk"
        _, exported = await server.get("/api/sessions/s/export")
        assert ENCODED not in str(exported)
    assert PNG in disk.blobs.values()


async def test_an_image_said_to_a_run_under_way_reaches_its_next_call() -> None:
    async with (
        ChaosServer([Say("hm"), Hang()], [Say("ok")]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        run_id = await server.start()
        await server.until(run_id, "message.delta")
        said = {"message": [{"type": "image_url", "image_url": {"url": DATA_URL}}], "mode": "redirect"}
        assert (await server.post(f"/v1/runs/{run_id}/messages", said))[0] == 200
        assert (await server.ended(run_id))["status"] == "completed"
        assert image_on("chat") in shown_to(chaos, nth=2)


@for_each_row(
    ("part", "code"),
    [
        ({"type": "image_url", "image_url": {"url": "https://10.0.0.1/cat.png"}}, "image_not_fetched"),
        ({"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/cat.png"}}, "image_not_fetched"),
        ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "not_a_data_url"),
        ({"type": "input_image", "file_id": "file-1"}, "not_a_data_url"),
        ({"type": "image_url", "image_url": "data:image/png;base64,%%%"}, "invalid_request"),
        ({"type": "image_url", "image_url": "data:image/png;base64,"}, "invalid_request"),
        ({"type": "image_url", "image_url": "data:image/svg+xml;base64,PHN2Zy8+"}, "invalid_request"),
        ({"type": "input_file", "file_url": "https://example.com/x.pdf"}, "not_a_data_url"),
        ({"type": "input_audio", "input_audio": {}}, "invalid_request"),
        ({"type": "image", "blob": "0" * 64, "media_type": "image/png"}, "blob_not_found"),
        ({"type": "image", "blob": "../../etc/passwd", "media_type": "image/png"}, "blob_not_found"),
    ],
)
async def test_what_cannot_be_attached_is_refused_and_nothing_is_fetched_or_kept(
    part: Any, code: str
) -> None:
    """P11, P12: the server asks no address that a client names."""
    disk = MemoryDisk()
    async with ChaosServer() as chaos, served(target_of(chaos), store=MemoryStore(disk)) as server:
        body = {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}, part]}]}
        answer = await server.call("POST", "/v1/runs", body=body)
        assert (answer.status, answer.code) == (400, code), answer.body
        assert answer.json["error"]["param"]
    assert not disk.logs
    assert not disk.blobs


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_uploaded_image_goes_with_the_last_session_that_shows_it(kind: str, tmp_path: Path) -> None:
    """P11: no file of it is left; one that was uploaded once more since is kept for who did so."""
    store = await store_of(kind, tmp_path)
    async with (
        ChaosServer([Say("a cat")], after_last="repeat") as chaos,
        served(target_of(chaos), store=store) as server,
    ):
        image = await upload(server, PNG, "image/png")
        path = f"/api/blobs/{image['blob']}"
        part = {"kind": "image", "blob": image["blob"], "media_type": "image/png"}
        for session_id in ("s", "t"):
            run_id = await server.start("the same?", parts=[part, part], session_id=session_id)
            await server.ended(run_id)
        await server.call("DELETE", "/api/sessions/s?now=true")
        assert (await server.call("GET", path)).status == 200
        await upload(server, PNG, "image/png")
        await server.call("DELETE", "/api/sessions/t?now=true")
        await server.ended(await server.start("again", parts=[part], session_id="u"))
        await server.call("DELETE", "/api/sessions/u?now=true")
        assert (await server.call("GET", path)).status == 404
    assert not await asyncio.to_thread(files_with, tmp_path, PNG)
    await store.close()
