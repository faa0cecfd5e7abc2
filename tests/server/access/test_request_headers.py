"""Headers that packages rely on: their key in any of its headers, request ids, and when to try again."""

from typing import Any

import anthropic
import openai
import pytest
from multidict import CIMultiDict

from features.relay.relaying import body_for, keyed, relaying, target_on
from holdfast.chaos import ChaosServer, Say, Status
from holdfast.server.options import ApiKey, Limits, ServerOptions
from serving import Setting, served, target_of
from tables import for_each_row

KEY = "laptop-key-0123456789abcdef"


@for_each_row("header", [{"Authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}, {"api-key": KEY}])
async def test_a_key_is_taken_from_each_header_that_packages_send_it_in(header: dict[str, str]) -> None:
    """P11: and it never reaches the log, whichever header it came in."""
    paths = ["/v1/models", "/v1/runs", "/api/sessions", "/v1/capabilities", "/metrics"]
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        relaying(target_on(chaos, "chat"), setting=keyed(ApiKey("laptop", KEY))) as server,
    ):
        for path in paths:
            assert (await server.call("GET", path)).status == 401, path
            assert (await server.call("GET", path, headers=header)).status == 200, path
        said = await server.call("POST", "/v1/runs", body={"input": f"my key is {KEY}"}, headers=header)
        shown = await server.call("GET", f"/v1/runs/{said.json['run_id']}/events?cursor=", headers=header)
        assert KEY not in shown.body.decode()
        log = f"/api/sessions/{said.json['session_id']}/messages"
        assert KEY not in (await server.call("GET", log, headers=header)).body.decode()


async def test_an_unconfigured_key_of_an_open_server_is_secret_in_every_header() -> None:
    """P11: someone's real key for a provider must not end up in a log."""
    real = "sk-proj-0123456789abcdefABCDEF0123456789abcdef"
    async with ChaosServer([Say("ok")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        for header in ({"Authorization": f"Bearer {real}"}, {"x-api-key": real}, {"api-key": real}):
            said = await server.call("POST", "/v1/runs", body={"input": f"key {real}"}, headers=header)
            log = await server.call("GET", f"/api/sessions/{said.json['session_id']}/messages")
            assert real not in log.body.decode(), header


async def test_every_response_has_a_request_id_that_the_packages_read() -> None:
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        relaying(target_on(chaos, "anthropic")) as server,
    ):
        for path in ("/health", "/v1/models", "/v1/nothing-here", "/v1/runs/run_unknown"):
            headers = (await server.call("GET", path)).headers
            assert headers["x-request-id"] == headers["request-id"], path
            assert headers["x-request-id"].startswith("req_")
        messages: Any = [{"role": "user", "content": "hi"}]
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
            done = await client.chat.completions.create(model="holdfast", messages=messages)
            assert (done._request_id or "").startswith("req_")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its documented name
            with pytest.raises(openai.NotFoundError) as missing:
                await client.chat.completions.create(model="no-such", messages=messages)
            assert (missing.value.request_id or "").startswith("req_")
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="any", max_retries=0) as client:
            told = await client.messages.create(model="main", max_tokens=9, messages=messages)
            assert (told._request_id or "").startswith("req_")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its documented name


async def test_a_providers_request_id_is_passed_on_as_it_is() -> None:
    refused = Status(400, body="{}", headers={"x-request-id": "req_of_provider"})
    async with ChaosServer([refused]) as chaos, relaying(target_on(chaos, "chat")) as server:
        answer = await server.call("POST", "/v1/chat/completions", body=body_for("chat"))
        assert answer.headers.getall("x-request-id") == ["req_of_provider"]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def test_every_429_says_when_to_try_again() -> None:
    limits = Limits(subscribers_max=0)
    setting = Setting(options=ServerOptions(limits=limits))
    limited = Status(429, body='{"error": {"message": "slow down", "code": "insufficient_quota"}}')
    async with ChaosServer([limited], after_last="repeat") as chaos:
        async with served(target_of(chaos), setting=setting) as server:
            full = await server.call(
                "POST", "/v1/chat/completions", body=body_for("chat", stream=True, model="holdfast")
            )
            assert (full.status, full.code) == (429, "too_many_streams")
            assert int(full.headers["Retry-After"]) > 0
            failed = await server.call(
                "POST", "/v1/chat/completions", body=body_for("chat", model="holdfast")
            )
            assert failed.status == 429, failed.body
            assert int(failed.headers["Retry-After"]) > 0
        async with relaying(target_on(chaos, "chat"), wait_s=0) as server:
            passed = await server.call("POST", "/v1/chat/completions", body=body_for("chat"))
            assert passed.status == 429
            assert int(passed.headers["Retry-After"]) > 0


@for_each_row("name", ["Idempotency-Key", "X-Holdfast-Chat-Id", "X-OpenWebUI-User-Id"])
async def test_a_header_that_decides_what_is_meant_is_refused_if_it_is_repeated(name: str) -> None:
    """P7: one of two values would be picked, and a proxy in front may have read the other."""
    headers = CIMultiDict([(name, "a"), (name, "b")])
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        answer = await server.call("POST", "/v1/runs", body={"input": "hi"}, headers=headers)
        assert (answer.status, answer.code) == (400, "repeated_header")
