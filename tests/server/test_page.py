"""The page over HTTP: who gets what, compressed, kept, and under which policy."""

import asyncio
import gzip
from pathlib import Path
from typing import TYPE_CHECKING, cast

from holdfast.chaos import ChaosServer
from holdfast.server.options import ServerOptions
from holdfast.server.page import HELD_BYTES_MAX, read_page
from serving import Answer, Setting, served, target_of

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

SCRIPT = b"export {};" * 100
FILES = {
    "index.html": b"<!doctype html>page",
    "index.html.gz": gzip.compress(b"<!doctype html>page"),
    "assets/main-HASH.js": SCRIPT,
    "assets/main-HASH.js.gz": gzip.compress(SCRIPT),
    "icon.svg": b"<svg/>",
    "diagram.html": b"<!doctype html>diagrams",
    "assets/diagram-HASH.js": SCRIPT,
}


def sent(answer: Answer, name: str) -> list[str]:
    """All headers of this name."""
    return cast("CIMultiDictProxy[str]", answer.headers).getall(name)


async def test_hashed_files_are_kept_for_ever_and_all_others_are_asked_for_anew() -> None:
    setting = Setting(options=ServerOptions(page=FILES, keys=()))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        script = await server.call("GET", "/assets/main-HASH.js")
        assert "immutable" in script.headers["Cache-Control"]
        assert "Content-Security-Policy" in script.headers
        icon = await server.call("GET", "/icon.svg")
        assert icon.headers["Cache-Control"] == "no-cache"
        unchanged = await server.call("GET", "/icon.svg", headers={"If-None-Match": icon.headers["ETag"]})
        assert (unchanged.status, unchanged.body) == (304, b"")
        for missing in ("/assets/main-OLD.js", "/assets/none", "/missing.css", "/assets/main-HASH.js.gz"):
            assert (await server.call("GET", missing)).code == "not_found"


async def test_a_client_that_takes_gzip_gets_what_was_compressed_at_the_build() -> None:
    setting = Setting(options=ServerOptions(page=FILES, keys=()))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        zipped = await server.call("GET", "/assets/main-HASH.js", headers={"Accept-Encoding": "gzip"})
        assert zipped.headers["Content-Encoding"] == "gzip"
        assert zipped.body == SCRIPT  # the client unpacks
        assert zipped.headers["Content-Length"] == str(len(FILES["assets/main-HASH.js.gz"]))
        plain = await server.call("GET", "/assets/main-HASH.js", headers={"Accept-Encoding": "identity"})
        assert (plain.body, plain.headers.get("Content-Encoding")) == (SCRIPT, None)
        assert plain.headers["Vary"] == "Accept-Encoding"


async def test_the_address_of_any_session_leads_to_the_page_under_its_strict_policy() -> None:
    """P11."""
    setting = Setting(options=ServerOptions(page=FILES, keys=()))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        for path in ("/", "/s/ses_1", "/s/with.a.dot", "/s/%C3%BC%20b"):
            answer = await server.call("GET", path)
            assert answer.body == FILES["index.html"]
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
            assert "unsafe" not in policy


async def test_only_the_page_may_frame_the_document_that_draws_diagrams_and_nothing_else_is_framed() -> None:
    """P11: it has an origin of its own even if someone opens it by itself."""
    setting = Setting(options=ServerOptions(page=FILES, keys=()))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        frame = await server.call("GET", "/diagram.html")
        (policy,) = sent(frame, "Content-Security-Policy")
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; base-uri")
        assert policy.endswith("frame-ancestors 'self'; sandbox allow-scripts")
        assert sent(frame, "X-Frame-Options") == ["SAMEORIGIN"]
        script = await server.call("GET", "/assets/diagram-HASH.js")
        assert sent(script, "Cross-Origin-Resource-Policy") == ["cross-origin"]
        for path in ("/", "/assets/main-HASH.js", "/icon.svg", "/health", "/missing"):
            other = await server.call("GET", path)
            assert sent(other, "X-Frame-Options") == ["DENY"]
            assert sent(other, "Cross-Origin-Resource-Policy") == ["same-origin"]
            assert all("frame-ancestors 'none'" in one for one in sent(other, "Content-Security-Policy"))


async def test_what_is_neither_a_file_nor_a_place_of_the_page_is_not_found() -> None:
    """P12: a client that lost a part of its path is told so, and not shown a page."""
    setting = Setting(options=ServerOptions(page=FILES))
    lost = ("/models", "/health/", "/nothing/here", "/chat/completions", "/v1", "/s", "/s/", "/s/one/two")
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        for path in lost:
            answer = await server.call("GET", path)
            assert (answer.status, answer.code) == (404, "not_found"), path


async def test_a_server_without_a_page_says_so_and_how_to_get_one() -> None:
    """P12."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        answer = await server.call("GET", "/")
        assert (answer.status, answer.code) == (404, "no_page")
        assert "scripts/setup" in answer.body.decode()


async def test_a_large_script_stays_on_disk_until_someone_asks_for_it(tmp_path: Path) -> None:
    large = SCRIPT * (HELD_BYTES_MAX // len(SCRIPT) + 1)
    path = tmp_path / "assets" / "diagram-HASH.js"
    path.parent.mkdir()
    path.write_bytes(large)
    (tmp_path / "index.html").write_bytes(FILES["index.html"])
    page = await asyncio.to_thread(read_page, tmp_path)
    assert page == {"assets/diagram-HASH.js": path, "index.html": FILES["index.html"]}
    setting = Setting(options=ServerOptions(page=page, keys=()))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        script = await server.call("GET", "/assets/diagram-HASH.js")
        assert (script.status, script.body) == (200, large)
        known = {"If-None-Match": script.headers["ETag"]}
        assert (await server.call("GET", "/assets/diagram-HASH.js", headers=known)).status == 304
        path.unlink()
        assert (await server.call("GET", "/assets/diagram-HASH.js")).code == "not_found"
