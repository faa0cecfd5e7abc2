"""Pages that signed in: what they alone can do, what other ports cannot, and what a key may not."""

import asyncio
import base64
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace
from playwright.async_api import Request, Response, expect

from holdfast.chaos import CallTool, Say
from holdfast.server.options import ApiKey, ServerOptions
from page.browsing import Chat, Chatting, Visit, faults_of, requests_of
from server.toolbox import Counted
from serving import AsksAbout, Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "sk-secret-of-the-owner"  # noqa: S105  # the key of a server that lives for a test
OWNER = {"Authorization": f"Bearer {SECRET}"}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


def locked() -> Setting:
    return Setting(
        options=ServerOptions(keys=(ApiKey("owner", SECRET),)),
        tools=(Counted(),),
        judge=AsksAbout(frozenset({"touch"})),
    )


async def enter(chat: Chat, key: str = SECRET) -> None:
    await chat.page.get_by_label("Key", exact=True).fill(key)
    await chat.button("Sign in").click()
    await expect(chat.box).to_be_visible()


def refusals_of(chat: Chat) -> list[str]:
    """What the page is not given from now on."""
    refused: list[str] = []
    asked: list[
        Request
    ] = []  # what was asked for before somebody signed in may be refused as late as it likes

    def ask(request: Request) -> None:
        asked.append(request)

    def hear(answer: Response) -> None:
        if answer.status in {401, 403} and answer.request in asked:
            refused.append(answer.url)

    chat.page.on("request", ask)
    chat.page.on("response", hear)
    return refused


@asynccontextmanager
async def neighbour(heard: list[str]) -> AsyncGenerator[str]:
    """Another program on the same host: it hears what browsers send it, and shows them a page of its own."""

    async def answer(request: web.Request) -> web.Response:
        heard.append(request.headers.get("Cookie", ""))
        return web.Response(text="<title>neighbour</title>", content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_another_port_of_the_host_gets_the_cookie_and_can_do_nothing_with_it(visit: Visit) -> None:
    """P11: neither its program, which replays the cookie, nor its page, which is of the same site."""
    heard: list[str] = []
    async with visit.chatting([Say("private")], setting=locked()) as server, neighbour(heard) as other:
        context = await visit.context()
        chat = await visit(server.url, context)
        await enter(chat)
        await chat.say("hello")
        await chat.answered("private")
        stranger = await visit(other, context)
        (cookie,) = {one for one in heard if "holdfast" in one}
        async with aiohttp.ClientSession() as http:
            for path in ("/api/sessions", "/v1/runs", "/api/events"):
                async with http.get(server.url + path, headers={"Cookie": cookie}) as answer:
                    assert answer.status == 401
        tried = await stranger.page.evaluate(
            """async url => {
                const ask = (path, init) => fetch(url + path, {credentials: 'include', ...init})
                    .then(answer => answer.status, () => 'unread');
                const image = path => new Promise(tell => {
                    const img = new Image();
                    img.onload = () => tell('shown');
                    img.onerror = () => tell('refused');
                    img.src = url + path;
                });
                return [
                    await ask('/api/sessions'),
                    await ask('/v1/runs', {method: 'POST', mode: 'no-cors', body: '{"input": "x"}'}),
                    await ask('/api/sign-out', {method: 'POST', mode: 'no-cors'}),
                    await image('/icon.svg'),
                ];
            }""",
            server.url,
        )
        assert tried == ["unread", "unread", "unread", "refused"]
        runs = await server.served.call("GET", "/v1/runs", headers=OWNER)
        assert len(runs.json["data"]) == 1
        await chat.page.reload()
        await chat.answered("private")
        visit.errors.clear()  # the browser says what it did not let the neighbour do


async def pictured(server: Chatting) -> None:
    """A chat with an image and a file in it."""
    parts: list[dict[str, str]] = []
    for kind, media_type, name in (("image", "image/png", "dot.png"), ("file", "text/plain", "notes.txt")):
        data = PIXEL if kind == "image" else b"some notes"
        headers = OWNER | {"Content-Type": media_type}
        made = await server.served.call("POST", "/api/blobs", body=data, headers=headers)
        parts.append({"kind": kind, "blob": made.json["blob"], "media_type": media_type, "name": name})
    body = {"input": "look", "parts": parts, "session_id": "pictures"}
    assert (await server.served.post("/v1/runs", body, **OWNER))[0] == 202


async def test_images_and_downloads_come_with_tickets(visit: Visit) -> None:
    """P11: they cannot send a header; nothing is refused, and no other address holds a ticket."""
    async with visit.chatting([Say("seen")], setting=locked()) as server:
        await pictured(server)
        chat = await visit(server.url)
        await enter(chat)
        refused, asked = refusals_of(chat), requests_of(chat.page)
        await chat.rows.first.get_by_role("link").click()
        await chat.answered("seen")
        image = chat.page.get_by_role("img", name="dot.png")
        await chat.page.wait_for_function("() => document.querySelector('.part-image')?.naturalWidth === 1")
        async with chat.page.expect_download() as saved:
            await chat.button("notes.txt").click()
        download = await saved.value
        assert download.suggested_filename == "notes.txt"
        assert await asyncio.to_thread((await download.path()).read_bytes) == b"some notes"
        await chat.rows.first.get_by_role("button", name=re.compile("^Options for")).click()
        async with chat.page.expect_download() as saved:
            await chat.page.get_by_role("menuitem", name="Export as Markdown").click()
        assert b"look" in await asyncio.to_thread((await (await saved.value).path()).read_bytes)
        async with chat.page.context.expect_page() as opened:
            await image.click()
        whole = await opened.value
        await expect(whole.locator("img")).to_be_visible()
        assert refused == []
        ticketed = [url for url in asked if "ticket=" in url]
        assert ticketed
        assert all(re.search(r"/api/blobs/|/export\?", url) for url in ticketed)


async def test_a_reload_and_another_tab_stay_signed_in_and_a_sign_out_is_for_both(visit: Visit) -> None:
    """P7, P11: the secret leaves the browser with the sign-out.

    P9: a page with a cookie and no secret, as after an upgrade, or when the browser's storage was cleared,
    asks to sign in once, and not in circles.
    """
    async with visit.chatting([Say("one")], setting=locked()) as server:
        context = await visit.context()
        chat = await visit(server.url, context)
        await enter(chat)
        refused = refusals_of(chat)
        await chat.page.reload()
        await expect(chat.box).to_be_visible()
        tab = await visit(server.url, context)
        await tab.say("hello")
        await tab.answered("one")
        assert refused == []
        await tab.button("Settings").click()
        await tab.button("Sign out").click()
        await tab.sees("Sign in to Holdfast")
        await chat.sees("Sign in to Holdfast")
        assert await chat.page.evaluate("localStorage.getItem('holdfast.page')") is None
        await enter(chat)
        await tab.page.reload()
        await expect(tab.rows).to_have_count(1)
        await tab.page.close()
        await chat.page.evaluate("localStorage.clear()")
        asked = requests_of(chat.page)
        await chat.page.reload()
        await chat.sees("Sign in to Holdfast")
        await chat.page.wait_for_load_state("networkidle")
        assert len([url for url in asked if "/api/" in url or "/v1/" in url]) < 10
        await enter(chat)
        await chat.page.reload()
        await expect(chat.box).to_be_visible()


async def test_a_browser_without_storage_is_signed_in_until_it_is_reloaded(visit: Visit) -> None:
    async with visit.chatting([Say("hi")], setting=locked()) as server:
        context = await visit.context()
        await context.add_init_script(
            "Object.defineProperty(window, 'localStorage', {get() { throw Error() }})"
        )
        chat = await visit(server.url, context)
        await enter(chat)
        await chat.say("hello")
        await chat.answered("hi")


async def test_what_a_key_may_not_do_is_not_offered(visit: Visit) -> None:
    """P8, P11: an approval says who can answer it; there is no Delete, and no list of rules.

    A page whose key is revoked says why it asks for another.
    """
    async with visit.chatting([CallTool("touch", {"path": "a"})], setting=locked()) as server:
        _, made = await server.served.post("/api/keys", {"name": "guest", "scopes": ["chat"]}, **OWNER)
        chat = await visit(server.url)
        await expect(chat.page.locator("#sign-in-problem")).to_have_text("")
        await enter(chat, made["key"])
        refused = refusals_of(chat)
        await chat.say("do it")
        card = chat.page.get_by_role("region", name="Approval needed")
        await expect(card).to_contain_text("Your key can't approve actions")
        await expect(card.get_by_role("button")).to_have_count(0)
        assert await faults_of(chat.page) == []
        await chat.rows.first.get_by_role("button", name=re.compile("^Options for")).click()
        await expect(chat.page.get_by_role("menuitem", name="Archive")).to_be_visible()
        await expect(chat.page.get_by_role("menuitem", name="Delete")).to_have_count(0)
        await chat.page.keyboard.press("Escape")
        await chat.button("Settings").click()
        await expect(chat.page.get_by_role("dialog")).to_contain_text("Models")
        await expect(chat.page.get_by_role("dialog")).not_to_contain_text("Allowed without asking")
        assert refused == []
        assert (await server.served.call("DELETE", "/api/keys/guest", headers=OWNER)).status == 200
        await chat.page.reload()
        await expect(chat.page.get_by_role("alert")).to_contain_text("your key was revoked")
        await enter(chat)
        await expect(chat.button("Allow once")).to_be_visible()


async def test_the_page_works_under_a_path_and_leaves_the_rest_of_the_host_alone(visit: Visit) -> None:
    """P11: its requests, addresses, cookie and storage are under the path that the proxy serves it at."""
    setting = locked()
    setting = replace(setting, options=replace(setting.options, mount_path="/agents"))
    async with visit.chatting(
        [Say("first")], [Say("```mermaid\ngraph LR; A-->B\n```")], setting=setting
    ) as server:
        chat = await visit(f"{server.url}/agents/")
        asked = requests_of(chat.page)
        await enter(chat)
        await chat.say("hello")
        await chat.answered("first")
        await chat.is_over()
        assert "/agents/s/" in chat.page.url
        await chat.page.reload()
        await chat.answered("first")
        await chat.say("draw")
        await expect(chat.page.get_by_role("img").last).to_be_visible()
        assert [url for url in asked if not url.startswith((f"{server.url}/agents/", "data:"))] == []
        (cookie,) = await chat.page.context.cookies()
        assert cookie.get("path") == "/agents"
        assert await chat.page.evaluate("Object.keys(localStorage).filter(key => key.includes('page'))") == [
            "holdfast.page/agents"
        ]
