"""Requests that real programs sent, shortened: they pass as they are, and translated to other wires."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.chaos import ChaosServer, Say
from holdfast.targets import Wire
from server.relay.relaying import relaying, target_on

RECORDED: Mapping[str, Any] = json.loads(
    (Path(__file__).parent / "recorded_requests.json").read_text("utf-8")
)
SPEAKS: Mapping[str, Wire] = {
    "claude": "anthropic",
    "codex": "responses",
    "opencode": "chat",
    "aider": "chat",
}
PASS = ("anthropic-", "x-codex-", "session-id", "thread-id", "originator", "user-agent", "x-stainless-")


@pytest.mark.parametrize("name", SPEAKS)
async def test_a_real_request_goes_up_as_it_is(name: str) -> None:
    asked = RECORDED[name]
    body = asked["body"] | {"model": "main"}
    async with ChaosServer([Say("ok")]) as chaos, relaying(target_on(chaos, SPEAKS[name])) as server:
        answer = await server.call("POST", asked["path"], body=body, headers=asked["headers"])
        assert answer.status == 200, answer.body
        sent = chaos.seen.requests[0]
        assert sent.body == body | {"model": "main-model"}
        assert sent.path == asked["path"]
        passed = {key: value for key, value in asked["headers"].items() if key.startswith(PASS)}
        assert passed.items() <= sent.headers.items()


TRANSLATED: list[tuple[str, Wire]] = [
    ("claude", "chat"),
    ("claude", "responses"),
    ("codex", "chat"),
    ("codex", "anthropic"),
    ("opencode", "anthropic"),
    ("opencode", "responses"),
    ("aider", "anthropic"),
    ("aider", "responses"),
]


@pytest.mark.parametrize(("name", "target"), TRANSLATED)
async def test_a_real_request_is_translated(name: str, target: Wire) -> None:
    asked = RECORDED[name]
    body = asked["body"] | {"model": "main"}
    async with ChaosServer([Say("translated")]) as chaos, relaying(target_on(chaos, target)) as server:
        answer = await server.call("POST", asked["path"], body=body, headers=asked["headers"])
        assert answer.status == 200, answer.body
        assert b"translated" in answer.body
