"""Over HTTP: the files of a workspace are listed, read and uploaded, and nothing else is reached."""

import asyncio
import os
import resource
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.chaos import ChaosServer
from holdfast.redaction import Redactor
from holdfast.server.options import ApiKey, Limits, ServerOptions
from serving import Answer, Served, Setting, served, target_of

ROOT = "/api/sessions/s/files"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
HTML = "<html><script>fetch('/api/keys')</script>"
SVG = "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


@asynccontextmanager
async def files_of(workspace: Path, **setting: Any) -> AsyncGenerator[Served]:
    """A server with one session that works in this folder."""
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), setting=Setting(workspace=workspace, **setting)) as server,
    ):
        if "options" not in setting or not setting["options"].keys:
            status, _ = await server.post("/api/sessions", {"id": "s"})
            assert status == 201
        yield server


def made(root: Path) -> Path:
    """A workspace with everything that a listing must tell apart."""
    (root / "outside").mkdir()
    (root / "outside" / "precious").write_text("precious")
    ws = root / "ws"
    for folder in ("src", "build", ".git/info", "node_modules", ".ssh"):
        (ws / folder).mkdir(parents=True)
    (ws / ".gitignore").write_text("build/\n*.log\n!kept.log\n")
    (ws / ".git" / "info" / "exclude").write_text("mine\n")
    (ws / "src" / ".gitignore").write_text("made.py\n")
    for name in ("Readme.md", "a.log", "kept.log", "mine", "src/main.py", "src/made.py", "build/out"):
        (ws / name).write_text(name)
    (ws / ".env").write_text("KEY=1")
    (ws / ".ssh" / "config").write_text("Host *")
    (ws / "out").symlink_to(root / "outside")
    (ws / "precious").symlink_to("../outside/precious")
    (ws / "alias").symlink_to("src/main.py")
    (ws / "hidden").symlink_to(".env")
    os.mkfifo(ws / "pipe")
    return ws


async def listed(server: Served, path: str = "", **query: str) -> dict[str, Any]:
    more = "".join(f"&{name}={quote(value)}" for name, value in query.items())
    status, page = await server.get(f"{ROOT}?path={quote(path)}{more}")
    assert status == 200, page
    return page


def content(path: str, more: str = "") -> str:
    return f"{ROOT}/content?path={quote(path, safe='')}{more}"


async def test_a_folder_is_listed_with_what_is_ignored_and_what_cannot_be_opened(tmp_path: Path) -> None:
    """P11, P13: secrets, links that lead out and what is no file are named and not opened."""
    workspace = await asyncio.to_thread(made, tmp_path)
    async with files_of(workspace) as server:
        page = await listed(server)
        entries = {one["name"]: one for one in page["entries"]}
        folders = [".git", ".ssh", "build", "node_modules", "src"]
        assert [one["name"] for one in page["entries"]] == [
            *folders, ".env", ".gitignore", "a.log", "alias", "hidden", "kept.log", "mine", "out", "pipe",
            "precious", "Readme.md",
        ]  # fmt: skip
        assert {name for name, one in entries.items() if one.get("ignored")} == {
            ".git", "build", "node_modules", "a.log", "mine",
        }  # fmt: skip
        refused = {name: one["refused"] for name, one in entries.items() if "refused" in one}
        assert set(refused) == {".env", ".ssh", "hidden", "out", "pipe", "precious"}
        assert refused[".env"] == "This file may contain secrets, so it isn't shown here."
        assert refused["out"].startswith("This link is broken or leads out of the workspace")
        assert (entries["alias"]["kind"], entries["alias"]["link"]) == ("file", True)
        assert entries["Readme.md"]["bytes"] == len("Readme.md")
        inner = await listed(server, "src/")
        assert [(one["name"], one.get("ignored", False)) for one in inner["entries"]] == [
            (".gitignore", False), ("made.py", True), ("main.py", False),
        ]  # fmt: skip
        below = await listed(server, "build")
        assert [one["ignored"] for one in below["entries"]] == [True]
        for path, status, code in (
            ("../outside", 400, "path_refused"),
            ("out", 400, "path_refused"),
            (".ssh", 403, "file_secret"),
            ("nowhere", 404, "file_not_found"),
            ("Readme.md", 400, "path_refused"),
            ("x" * 5_000, 400, "path_refused"),
            ("a\0b", 400, "path_refused"),
        ):
            answer = await server.call("GET", f"{ROOT}?path={quote(path)}")
            assert (answer.status, answer.code) == (status, code), path
        bad = await server.call("GET", f"{ROOT}?cursor=%C3%A4")
        assert (bad.status, bad.code) == (400, "invalid_request")


async def test_a_folder_of_any_size_comes_in_pages_with_hostile_names_among_them(tmp_path: Path) -> None:
    """P10: a page is bounded; names are data, whatever they hold."""
    hostile = [
        "<img src=x onerror=alert(1)>", "new\nline", "\u202egpj.exe", "n" * 255, "-rf", 'quo"te', " ",
    ]  # fmt: skip

    def fill() -> None:
        for nth in range(2_500):
            (tmp_path / f"file-{nth:05}").touch()
        for name in hostile:
            (tmp_path / name).touch()
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")).touch()

    await asyncio.to_thread(fill)
    async with files_of(tmp_path) as server:
        names: dict[str, str] = {}
        cursor = ""
        for _ in range(10):
            page = await listed(server, cursor=cursor, limit="700")
            assert len(page["entries"]) <= 700
            assert page["entries_total"] == 2_508
            assert not names.keys() & {one["name"] for one in page["entries"]}
            names |= {one["name"]: one.get("refused", "") for one in page["entries"]}
            cursor = page.get("next_cursor", "")
            if not cursor:
                break
            await asyncio.to_thread((tmp_path / "file-00000").unlink, missing_ok=True)
            await asyncio.to_thread((tmp_path / "file-00000").touch)
        assert len(names) == 2_508
        assert names["\\xff\\xfe"] == "The name isn't valid UTF-8, so it can't be opened here."
        for name in hostile:
            assert names[name] == ""
            answer = await server.call("GET", content(name))
            assert (answer.status, answer.body) == (200, b""), name
            assert "\n" not in answer.headers["Content-Disposition"]


async def read(server: Served, path: str, more: str = "", **headers: str) -> Answer:
    return await server.call("GET", content(path, more), headers=headers)


async def test_a_file_is_what_its_bytes_say_and_runs_nothing_in_a_browser(tmp_path: Path) -> None:
    """P11: HTML and SVG are text, a sandbox surrounds all of it, and only a PDF may be framed, by us."""
    contents = {
        "page.html": HTML.encode(),
        "picture.svg": SVG.encode(),
        "fake.png": HTML.encode(),
        "real": PNG,
        "paper": b"%PDF-1.7\n<html><script>",
        "blob.html": b"\0<html>",
        "cut.txt": b"x" * 7_999 + "ä".encode(),
        "latin.txt": b"caf\xe9",
        "empty": b"",
    }

    def fill() -> None:
        for name, data in contents.items():
            (tmp_path / name).write_bytes(data)

    await asyncio.to_thread(fill)
    async with files_of(tmp_path) as server:
        answers = {name: await read(server, name) for name in contents}
        assert {name: one.headers["Content-Type"].partition(";")[0] for name, one in answers.items()} == {
            "page.html": "text/plain",
            "picture.svg": "text/plain",
            "fake.png": "text/plain",
            "real": "image/png",
            "paper": "application/pdf",
            "blob.html": "application/octet-stream",
            "cut.txt": "text/plain",
            "latin.txt": "application/octet-stream",
            "empty": "text/plain",
        }
        for name, answer in answers.items():
            assert answer.body == contents[name]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'")
            is_pdf = name == "paper"
            assert ("sandbox" in policy, "frame-ancestors 'none'" in policy) == (not is_pdf, not is_pdf)
            assert answer.headers["X-Frame-Options"] == ("SAMEORIGIN" if is_pdf else "DENY")
            kind = answer.headers["Content-Disposition"].partition(";")[0]
            assert kind == ("attachment" if name in {"blob.html", "latin.txt"} else "inline")
        saved = await read(server, "paper", "&download=true")
        assert saved.headers["Content-Disposition"] == "attachment; filename*=UTF-8''paper"
        assert "sandbox" in saved.headers["Content-Security-Policy"]


async def test_part_of_a_file_of_two_gigabytes_is_read_alone(tmp_path: Path) -> None:
    """P10."""
    size = 2_000_000_000

    def fill() -> None:
        with (tmp_path / "large").open("wb") as file:
            file.truncate(size)
            file.seek(size - 3)
            file.write(b"end")
        (tmp_path / "small").write_bytes(b"0123456789")

    await asyncio.to_thread(fill)
    async with files_of(tmp_path) as server:
        last = await read(server, "large", Range="bytes=-4")
        assert (last.status, last.body) == (206, b"\0end")
        assert last.headers["Content-Range"] == f"bytes {size - 4}-{size - 1}/{size}"
        head = await server.call("HEAD", content("large"))
        assert (head.status, head.headers["Content-Length"]) == (200, str(size))
        async with server.http.get(server.url + content("large")) as answer:
            assert await answer.content.readexactly(1_000_000) == bytes(1_000_000)
            # whoever leaves early closes the file
        for given, status, body in (
            ("bytes=2-4", 206, b"234"),
            ("bytes=8-", 206, b"89"),
            ("bytes=-3", 206, b"789"),
            ("bytes=0-99", 206, b"0123456789"),
            ("bytes=4-2", 200, b"0123456789"),
            ("bytes=0-1,3-4", 200, b"0123456789"),
            ("lines=1-2", 200, b"0123456789"),
        ):
            answer = await read(server, "small", Range=given)
            assert (answer.status, answer.body) == (status, body), given
        beyond = await read(server, "small", Range="bytes=10-")
        assert (beyond.status, beyond.code) == (416, "no_such_range")
        whole = await read(server, "small")
        again = await read(server, "small", **{"If-None-Match": whole.headers["ETag"]})
        assert again.status == 304
        other = await read(server, "small", **{"Range": "bytes=2-4", "If-Range": '"other"'})
        assert other.status == 200


async def test_nothing_secret_or_outside_is_read_and_nothing_waits(tmp_path: Path) -> None:
    """P3, P11: not through a link, a pipe, dots or the server's own secrets in a file."""
    workspace = await asyncio.to_thread(made, tmp_path)
    secret = "sk-known-to-the-server-0123456789"  # noqa: S105  # of a server that lives for a test

    def fill() -> None:
        (workspace / "config.toml").write_text(f"a = 1\nkey = '{secret}'\n")
        (workspace / "long.txt").write_text("x" * 1_048_570 + secret + "y" * 1_048_570)
        Path(os.fsdecode(os.fsencode(workspace) + b"/odd-\xff")).symlink_to("/etc/passwd")
        (workspace / "to-odd").symlink_to(os.fsdecode(b"odd-\xff/x"))

    await asyncio.to_thread(fill)
    async with files_of(workspace, secrets=Redactor([secret])) as server:
        for path, status, code in (
            (".env", 403, "file_secret"),
            ("hidden", 403, "file_secret"),
            (".ssh/config", 403, "file_secret"),
            ("precious", 400, "path_refused"),
            ("out/precious", 400, "path_refused"),
            ("../outside/precious", 400, "path_refused"),
            ("/etc/passwd", 404, "file_not_found"),
            ("pipe", 400, "path_refused"),
            ("src", 400, "path_refused"),
            ("to-odd", 400, "path_refused"),
            ("nothing", 404, "file_not_found"),
            ("", 400, "invalid_request"),
        ):
            answer = await read(server, path)
            assert (answer.status, answer.code) == (status, code), path
        shown = await read(server, "config.toml")
        stars = b"*" * len(secret)
        assert shown.body == b"a = 1\nkey = '" + stars + b"'\n"
        middle = await read(server, "config.toml", Range="bytes=20-30")
        assert middle.body == b"*" * 11
        long = await read(server, "long.txt")
        assert long.body == b"x" * 1_048_570 + stars + b"y" * 1_048_570


async def put(server: Served, path: str, data: bytes, more: str = "") -> Answer:
    return await server.call("PUT", content(path, more), body=data)


async def test_a_dropped_file_is_stored_whole_and_over_nothing_without_being_told(tmp_path: Path) -> None:
    """P12, P13."""
    workspace = await asyncio.to_thread(made, tmp_path)
    options = ServerOptions(limits=Limits(body_bytes_max=4_000, blob_bytes_max=20_000))
    async with files_of(workspace, options=options) as server:
        large = bytes(15_000)  # more than a request may hold elsewhere
        first = await put(server, "src/new.bin", large)
        assert (first.status, first.json) == (201, {"path": "src/new.bin", "bytes": len(large)})
        there = await put(server, "src/new.bin", b"other")
        assert (there.status, there.code) == (409, "file_exists")
        assert await asyncio.to_thread((workspace / "src/new.bin").read_bytes) == large
        await asyncio.to_thread((workspace / "src/new.bin").chmod, 0o755)
        told = await put(server, "src/new.bin", b"other", "&overwrite=true")
        assert (told.status, told.json["replaced"]) == (200, True)
        assert await asyncio.to_thread((workspace / "src/new.bin").read_bytes) == b"other"
        assert (await asyncio.to_thread((workspace / "src/new.bin").stat)).st_mode & 0o777 == 0o755
        before = await asyncio.to_thread(_names, tmp_path)
        for path, status, code in (
            (".env", 403, "file_secret"),
            ("hidden", 403, "file_secret"),
            (".git/hooks", 403, "file_protected"),
            (".github/workflows/ci.yml", 404, "file_not_found"),
            ("AGENTS.md", 403, "file_protected"),
            ("src/Makefile", 403, "file_protected"),
            ("precious", 400, "path_refused"),
            ("../outside/new", 400, "path_refused"),
            ("out/new", 400, "path_refused"),
            ("missing/new", 404, "file_not_found"),
            ("src", 400, "path_refused"),
            ("src/..", 400, "path_refused"),
            ("pipe", 400, "path_refused"),
            ("n" * 256, 400, "path_refused"),
            ("", 400, "invalid_request"),
        ):
            answer = await put(server, path, b"x", "&overwrite=true")
            assert (answer.status, answer.code) == (status, code), path
        too_large = await put(server, "src/huge", bytes(20_001))
        assert (too_large.status, too_large.code) == (413, "body_too_large")
        assert await asyncio.to_thread(_names, tmp_path) == before


def _names(root: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_size for path in sorted(root.rglob("*"))}


async def test_a_browser_reads_one_file_by_ticket_and_a_chat_key_uploads_nothing(tmp_path: Path) -> None:
    """P11."""
    key = "sk-secret-of-the-owner"
    owner = {"Authorization": f"Bearer {key}"}
    await asyncio.to_thread((tmp_path / "a b.txt").write_text, "hello")
    options = ServerOptions(keys=(ApiKey("owner", key),))
    async with files_of(tmp_path, options=options) as server:
        await server.post("/api/sessions", {"id": "s"}, **owner)
        page = await server.signed_in(key=key)
        address = content("a b.txt")
        _, issued = await server.post("/api/tickets", {"path": address}, **page)
        cookie = {"Cookie": page["Cookie"]}
        opened = await server.call("GET", f"{address}&ticket={issued['ticket']}", headers=cookie)
        assert (opened.status, opened.body) == (200, b"hello")
        other = await server.call("GET", f"{content('other')}&ticket={issued['ticket']}", headers=cookie)
        assert other.status == 401
        _, chat = await server.post("/api/keys", {"name": "chat", "scopes": ["chat"]}, **owner)
        guest = {"Authorization": f"Bearer {chat['key']}"}
        assert (await server.call("GET", address, headers=guest)).status == 200
        refused = await server.call("PUT", content("new"), body=b"x", headers=guest)
        assert (refused.status, refused.code) == (403, "missing_scope")


@pytest.mark.parametrize("path", ["", "/content?path=a"])
async def test_an_unknown_session_has_no_files(path: str, tmp_path: Path) -> None:
    async with files_of(tmp_path) as server:
        answer = await server.call("GET", f"/api/sessions/none/files{path}")
        assert (answer.status, answer.code) == (404, "session_not_found")


async def test_a_path_that_is_not_text_names_no_other_file(tmp_path: Path) -> None:
    """P12: what can't be decoded is refused, not replaced; the replacement character itself is a name."""
    async with files_of(tmp_path) as server:
        for method, more in (("PUT", ""), ("GET", ""), ("PUT", "&overwrite=true")):
            answer = await server.call(method, f"{ROOT}/content?path=a%FF{more}", body=b"x")
            assert (answer.status, answer.code) == (400, "invalid_request"), method
        answer = await server.call("GET", f"{ROOT}?path=%C3")
        assert (answer.status, answer.code) == (400, "invalid_request")
        assert await asyncio.to_thread(os.listdir, tmp_path) == []
        assert (await server.call("PUT", content("a\N{REPLACEMENT CHARACTER}"), body=b"x")).status == 201


async def test_of_many_uploads_to_one_new_name_one_wins(tmp_path: Path) -> None:
    """P2: the others are told that the file exists, and what was stored stays."""
    async with files_of(tmp_path) as server:
        puts = [server.call("PUT", content("contested"), body=b"%d" % nth) for nth in range(12)]
        answers = await asyncio.gather(*puts)
        assert sorted(one.status for one in answers) == [201, *[409] * 11]
        assert {one.code for one in answers if one.status == 409} == {"file_exists"}
        (winner,) = [nth for nth, one in enumerate(answers) if one.status == 201]
        assert await asyncio.to_thread((tmp_path / "contested").read_bytes) == b"%d" % winner
        assert await asyncio.to_thread(os.listdir, tmp_path) == ["contested"]


async def test_an_upload_that_does_not_fit_on_the_disk_says_so_and_leaves_the_old_file(
    tmp_path: Path,
) -> None:
    """P12: it's the server's trouble, not the request's."""
    async with files_of(tmp_path) as server:
        assert (await server.call("PUT", content("there"), body=b"old")).status == 201
        was = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, was[1]))
        try:
            answer = await server.call("PUT", content("there", "&overwrite=true"), body=bytes(900_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, was)
        assert (answer.status, answer.code) == (507, "disk_full")
        assert await asyncio.to_thread((tmp_path / "there").read_bytes) == b"old"
        assert await asyncio.to_thread(os.listdir, tmp_path) == ["there"]
