"""Images that a client names by an https address: fetched under strict rules, stored, shown to the model."""

import base64
import ipaddress
from dataclasses import dataclass
from typing import Any

import pytest
from typing_extensions import override
from yarl import URL

from features.openai.official_client import client_of
from features.relay.relaying import PATHS, relaying, target_on
from fixed_pages import fixed_pages, page
from holdfast.chaos import ChaosServer, Say
from holdfast.policy.public_addresses import IPAddress
from holdfast.server.image_fetcher import HttpsOnly, ImageFetcher
from holdfast.server.image_urls import ImageUrls
from holdfast.server.options import ServerOptions
from holdfast.targets import Wire
from holdfast.tools.web.addresses import AddressPolicy, UrlRefused, insist_on_form
from holdfast.tools.web.fetch import BODY_BYTES_MAX, Fetcher
from serving import Setting, served, target_of
from tables import for_each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
INLINE = "data:image/png;base64," + base64.b64encode(PNG).decode()


@dataclass(frozen=True)
class Loopback(AddressPolicy):
    """Reaches this machine, but for one other address of it, which stands for a private one."""

    private: str = "127.0.0.9"

    @override
    def insist_on_url(self, url: URL) -> None:
        insist_on_form(url)
        if url.host == self.private:
            raise UrlRefused(f"{url.host} isn't a public address.")

    @override
    def allows(self, address: IPAddress) -> bool:
        return address.is_loopback and str(address) != self.private


PAGES = {
    "/cat.png": page(PNG, "image/png"),
    "/unnamed": page(PNG, "application/octet-stream"),
    "/moved": page(b"", "text/plain", "Location: http://localhost:PORT/cat.png", status="302 Found"),
    "/inside": page(b"", "text/plain", "Location: http://127.0.0.9:PORT/cat.png", status="302 Found"),
    "/loop": page(b"", "text/plain", "Location: /loop", status="302 Found"),
    "/gone": page(b"no", status="404 Not Found"),
    "/text": page(b"<html>", "text/html"),
    "/lie": page(b"<html>", "image/png"),
    "/huge": page(PNG + bytes(BODY_BYTES_MAX), "image/png"),
}


def fetching() -> Setting:
    fetcher = Fetcher(Loopback(), follows_to_any_host=True)
    return Setting(options=ServerOptions(images=ImageUrls(ImageFetcher(fetcher))))


def chat_body(url: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    return {"messages": [{"role": "user", "content": parts}]}


def shown_images(body: Any) -> list[str]:
    contents: list[Any] = [one["content"] for one in body["messages"]]
    parts: list[Any] = [part for content in contents if isinstance(content, list) for part in content]  # pyright: ignore[reportUnknownVariableType]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


async def test_an_image_is_fetched_once_stored_and_shown_to_the_model_on_each_route() -> None:
    """P6: the log has the image itself, so a retry sees the same one although its address is gone."""
    async with (
        ChaosServer([Say("a cat")], after_last="repeat") as chaos,
        fixed_pages(PAGES) as images,
        served(target_of(chaos), setting=fetching()) as server,
        client_of(server) as client,
    ):
        for path in ("/cat.png", "/unnamed", "/moved"):
            answer = await server.call("POST", "/v1/chat/completions", body=chat_body(images.url(path)))
            assert answer.status == 200, answer.body
            sent: Any = chaos.seen.requests[-1].body
            assert shown_images(sent) == [INLINE], path
        run_id = answer.headers["X-Hermes-Run-Id"]
        part: Any = {"type": "input_image", "detail": "auto", "image_url": images.url("/cat.png")}
        twice: Any = [{"role": "user", "content": [part, part]}]
        fetched = len(images.asked)
        await client.responses.create(model="holdfast", input=twice)
        assert len(images.asked) == fetched + 1
        assert shown_images(chaos.seen.requests[-1].body) == [INLINE, INLINE]
        content = [{"type": "input_text", "text": "?"}, part]
        started = await server.start("", input=[{"role": "user", "content": content}])
        await server.ended(started)
        assert shown_images(chaos.seen.requests[-1].body) == [INLINE]

        fetched = len(images.asked)
        status, again = await server.post(f"/v1/runs/{run_id}/retry")
        assert status == 202
        await server.ended(again["run_id"])
        assert shown_images(chaos.seen.requests[-1].body) == [INLINE]
        assert len(images.asked) == fetched


@for_each_row(
    ("path", "why"),
    [
        ("/gone", "status 404"),
        ("/text", "isn't a PNG"),
        ("/lie", "isn't a PNG"),
        ("/huge", "larger than 5 MiB"),
        ("/loop", "redirects more than"),
        ("/inside", "isn't a public address"),
    ],
)
async def test_what_cant_be_fetched_is_a_400_that_names_the_part(path: str, why: str) -> None:
    """P12: and leaves nothing behind."""
    async with (
        ChaosServer() as chaos,
        fixed_pages(PAGES) as images,
        served(target_of(chaos), setting=fetching()) as server,
    ):
        answer = await server.call("POST", "/v1/chat/completions", body=chat_body(images.url(path)))
        assert (answer.status, answer.code) == (400, "image_not_fetched"), answer.body
        assert why in answer.json["error"]["message"]
        assert answer.json["error"]["param"] == "messages[0].content[1].image_url"
        assert (await server.get("/v1/runs"))[1]["data"] == []


@for_each_row(
    "url",
    [
        "http://example.com/a.png",
        "https://127.0.0.1/a.png",
        "https://[::1]/a.png",
        "https://169.254.169.254/latest/meta-data",
        "https://2130706433/a.png",
        "https://localhost/a.png",
        "https://intranet/a.png",
        "https://example.com:8443/a.png",
        "https://me:secret@example.com/a.png",
        "https://example.com%00.internal/a.png",
        "HTTPS://10.0.0.1/a.png",
    ],
)
async def test_addresses_that_are_not_public_https_are_never_reached(url: str) -> None:
    """P11: a client can't have the server look into its own network. The server is as it is shipped."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        answer = await server.call("POST", "/v1/chat/completions", body=chat_body(url))
        assert (answer.status, answer.code) == (400, "image_not_fetched"), answer.body
        assert "secret" not in answer.body.decode()


def test_the_shipped_policy_allows_public_addresses_and_https_alone() -> None:
    HttpsOnly().insist_on_url(URL("https://example.com/a.png"))
    assert HttpsOnly().allows(ipaddress.ip_address("93.184.216.34"))
    assert not HttpsOnly().allows(ipaddress.ip_address("127.0.0.1"))
    with pytest.raises(UrlRefused):
        HttpsOnly().insist_on_url(URL("http://example.com/a.png"))


async def test_too_many_addresses_are_refused_before_any_is_fetched() -> None:
    async with (
        ChaosServer() as chaos,
        fixed_pages(PAGES) as images,
        served(target_of(chaos), setting=fetching()) as server,
    ):
        urls = [images.url(f"/cat.png?{nth}") for nth in range(21)]
        parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        answer = await server.call(
            "POST", "/v1/chat/completions", body={"messages": [{"role": "user", "content": parts}]}
        )
        assert (answer.status, answer.code) == (400, "too_many_parts")
        assert images.asked == []


async def test_a_repeat_with_the_same_idempotency_key_needs_no_second_fetch() -> None:
    """P2: also if the image is gone by then."""
    pages = dict(PAGES)
    async with (
        ChaosServer([Say("a cat")], after_last="repeat") as chaos,
        fixed_pages(pages) as images,
        served(target_of(chaos), setting=fetching()) as server,
    ):
        for path, said in (
            ("/v1/chat/completions", chat_body(images.url("/cat.png"))),
            ("/v1/responses", {"input": chat_body(images.url("/cat.png"))["messages"]}),
            ("/v1/runs", {"input": chat_body(images.url("/cat.png"))["messages"]}),
        ):
            pages["/cat.png"] = PAGES["/cat.png"]
            key = {"Idempotency-Key": f"of {path}"}
            first = await server.call("POST", path, body=said, headers=key)
            assert first.status in {200, 202}, first.body
            pages["/cat.png"] = PAGES["/gone"]
            again = await server.call("POST", path, body=said, headers=key)
            assert (again.status, again.headers.get("Idempotency-Replayed")) == (first.status, "true")


@for_each_row(("wire", "other"), [("chat", "anthropic"), ("anthropic", "chat"), ("responses", "chat")])
async def test_the_relay_passes_addresses_on_and_fetches_them_for_other_wires(
    wire: Wire, other: Wire
) -> None:
    async with (
        ChaosServer([Say("a cat")], after_last="repeat") as chaos,
        fixed_pages(PAGES) as images,
        relaying(
            target_on(chaos, wire, name="same"), target_on(chaos, other, name="other"), setting=fetching()
        ) as server,
    ):
        url = images.url("/cat.png")
        path = PATHS[wire]
        body: dict[str, Any] = chat_body(url)
        if wire == "anthropic":
            blocks = [{"type": "text", "text": "?"}, {"type": "image", "source": {"type": "url", "url": url}}]
            body = {"max_tokens": 9, "messages": [{"role": "user", "content": blocks}]}
        elif wire == "responses":
            blocks = [{"type": "input_text", "text": "?"}, {"type": "input_image", "image_url": url}]
            body = {"input": [{"role": "user", "content": blocks}]}
        same = await server.call("POST", path, body={"model": "same", **body})
        assert (same.status, images.asked) == (200, [])
        assert url in str(chaos.seen.requests[-1].body)
        translated = await server.call("POST", path, body={"model": "other", **body})
        assert (translated.status, images.asked) == (200, ["/cat.png"]), translated.body
        assert base64.b64encode(PNG).decode() in str(chaos.seen.requests[-1].body)
        assert url not in str(chaos.seen.requests[-1].body)
