"""A target that signs in with Codex: what the backend gets, the faults of S000 and S001, and renewals."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from fakes.exchanges import Garble, Hold, PlatformStep, ResetConnection
from fakes.issuer import ACCOUNT, AnswerJson, FakeIssuer
from holdfast import events as e
from holdfast.chaos import (
    CallTool,
    ChaosServer,
    Gate,
    Hang,
    Lifecycle,
    Say,
    Script,
    Think,
)
from holdfast.features.sign_ins.events import CredentialRefreshed
from holdfast.features.sign_ins.sign_ins import SignInPatience
from holdfast.interfaces.journal import Record, Store
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.messages import ModelRequest, ToolSpec, UserMessage
from holdfast.targets import Target
from holdfast.values import Failure
from models.calls.calling import ended_by, target_of

from .world import RENEW, Signed, signed_in

GOOD = [Say("hello")]
QUICK = SignInPatience(answer_s=0.05, lock_s=0.2, wait_s=5)


async def failed(signed: Signed, request: ModelRequest | str = "hi") -> NoAnswer:
    ended = await signed.line.ask(request)
    assert isinstance(ended, NoAnswer)
    return ended


async def logged(store: Store, many: int) -> list[Record]:
    """So many records of the sign-in's log."""
    records: list[Record] = []
    async for batch in store.follow("crd_codex"):
        records += batch
        if len(records) >= many:
            break
    return records


async def test_the_backend_gets_what_it_requires_and_nothing_that_it_refuses(tmp_path: Path) -> None:
    tool = ToolSpec(name="add", description="Add.", schema={"type": "object"})
    request = ModelRequest(
        messages=(UserMessage("hi"),),
        instructions="Be brief.",
        tools=(tool,),
        cache_key="session-1",
        reasoning_effort="high",
    )
    async with signed_in(tmp_path) as signed:
        assert isinstance(await signed.line.ask(request), Answer)
        assert isinstance(await signed.line.ask(ModelRequest(messages=(UserMessage("hi"),))), Answer)
        assert not signed.backend.refusals
        first, second = signed.server.seen.requests
    assert first.path == "/backend-api/codex/responses"
    assert {
        name: first.headers[name]
        for name in (
            "authorization",
            "chatgpt-account-id",
            "originator",
            "openai-beta",
            "session-id",
            "accept",
        )
    } == {
        "authorization": f"Bearer {signed.issuer.sessions[0].access[0]}",
        "chatgpt-account-id": ACCOUNT,
        "originator": "holdfast",
        "openai-beta": "responses=experimental",
        "session-id": "session-1",
        "accept": "text/event-stream",
    }
    assert msgspec.json.encode(first.body) == msgspec.json.encode(
        {
            "model": "gpt-x",
            "stream": True,
            "store": False,
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "instructions": "Be brief.",
            "input": [{"role": "user", "content": "hi"}],
            "tools": [
                {
                    "type": "function",
                    "name": "add",
                    "description": "Add.",
                    "parameters": {"type": "object"},
                    "strict": False,
                }
            ],
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "high", "summary": "auto"},
            "prompt_cache_key": "session-1",
        }
    )
    assert (second.body or {})["instructions"], "the backend refuses a request without any"


# The script of the first connection, the patience, and what the attempt's failure says.
FAULTS: list[tuple[Script, dict[str, float], str, str]] = [
    ([Hang()], {"first_event_s": 0.05}, "TTFB threshold: 0.05s", "ttfb_kill"),
    ([Lifecycle(), Hang()], {"gap_s": 0.05}, "after first byte", "stream_idle_kill"),
    ([Think("hm"), Hang()], {"gap_s": 0.05}, "after first byte", "stream_idle_kill"),
]


@pytest.mark.parametrize(("fault", "patience", "text", "reason"), FAULTS, ids=["S000-1", "S000-5", "S000-4"])
async def test_a_silent_backend_is_cut_in_time_and_asked_again_with_the_same_token(
    tmp_path: Path, fault: Script, patience: dict[str, float], text: str, reason: str
) -> None:
    """S000-1, S000-4, S000-5, S001-1: no matter which credential the request has."""
    async with signed_in(tmp_path, fault, GOOD) as signed:
        signed.line.patient(**patience)
        assert isinstance(await signed.line.ask(), Answer)
        (failure,) = signed.line.told.of(e.AttemptFailed)
        assert text in failure.failure.text
        assert failure.close_reason == reason
        assert not signed.line.told.notices, "S000-9"
        assert len(set(signed.tokens_sent)) == 1
        assert signed.renewals == 0


async def test_a_turn_of_reasoning_or_tools_alone_is_no_stall(tmp_path: Path) -> None:
    """S001-2."""
    async with signed_in(tmp_path, [Think("hm"), CallTool("add", {})]) as signed:
        signed.line.patient(first_event_s=5)
        ended = await signed.line.ask()
        assert isinstance(ended, Answer)
        assert [tool.name for tool in ended.tools] == ["add"]


async def test_a_rejected_token_is_renewed_once_outside_the_count_of_attempts(tmp_path: Path) -> None:
    """P9, P11: no notice appears, and the log has no token."""
    async with signed_in(tmp_path) as signed:
        signed.line.trying(attempts_max=1, attempts_per_target_max=1)
        session = signed.issuer.sessions[0]
        session.access.append("another-token-than-we-have")
        assert isinstance(await signed.line.ask(), Answer)
        assert signed.tokens_sent == [session.access[0], session.access[2]]
        assert signed.renewals == 1
        assert not signed.line.told.notices
        created, record = await logged(signed.store, 2)
        assert isinstance(record.event, CredentialRefreshed)
        assert (record.event.name, record.event.rejected) == ("codex", True)
        log = created.body + record.body
        assert not [token for token in (*session.access, *session.spent) if token.encode() in log]
        assert isinstance(await signed.line.ask(sink=signed.line.another_voice()), Answer)
        assert signed.renewals == 1
        told = f"{session.access[2]} {session.refresh_token} {session.access[0]} text"
        assert signed.secrets.redact_text(told) == "[redacted] [redacted] [redacted] text"


async def test_a_token_that_stays_rejected_ends_the_call_with_the_command_to_run(tmp_path: Path) -> None:
    """The backend may reject the account, and not the token."""
    async with signed_in(tmp_path) as signed:
        signed.issuer.accepts = lambda access_token: False  # noqa: ARG005
        failure = (await failed(signed)).failure
        assert (failure.kind, failure.status) == ("auth", 401)
        assert "run `holdfast auth login codex`" in failure.text
        assert (signed.renewals, len(signed.tokens_sent)) == (1, 2)


async def test_a_revoked_sign_in_ends_calls_at_once_until_somebody_signs_in(tmp_path: Path) -> None:
    """P3: the issuer is asked once; a fallback answers instead."""
    async with ChaosServer(GOOD) as other, signed_in(tmp_path, left_s=-1) as signed:
        (session,) = signed.issuer.sessions
        echo = AnswerJson(
            401, {"error": {"code": "revoked", "message": f"{session.refresh_token} is revoked"}}
        )
        signed.issuer.scripts[RENEW] = [[echo]]
        for _ in range(2):
            failure = (await failed(signed)).failure
            assert failure.kind == "auth"
            assert (
                "no longer accepts the sign-in (401: [redacted] is revoked); run `holdfast auth login codex`"
                in failure.text
            )
        assert signed.renewals == 1
        signed.line.targets += (target_of(other, "chat", "other"),)
        assert isinstance(await signed.line.ask(sink=signed.line.another_voice()), Answer)
        assert not signed.tokens_sent, "no request is made without a token"


STALLS: dict[str, list[PlatformStep]] = {
    "silent": [Hold(Gate())],
    "reset": [ResetConnection()],
    "html": [Garble(status=503)],
    "error": [AnswerJson(500, {"error": "server_error"})],
    "no token": [AnswerJson(200, {"refresh_token": "rt"})],
}


@pytest.mark.parametrize("name", STALLS)
async def test_an_issuer_in_trouble_holds_up_nobody_whose_token_is_valid(tmp_path: Path, name: str) -> None:
    """P3: with an expired token, the call waits for a bounded time, and tries again."""
    async with signed_in(tmp_path, left_s=100, patience=QUICK) as signed:
        signed.issuer.scripts[RENEW] = [STALLS[name], STALLS[name]]
        assert isinstance(await signed.line.ask(), Answer)
        signed.line.clock.asleep_ms = 200_000
        assert isinstance(await signed.line.ask(sink=signed.line.another_voice()), Answer)
        assert signed.tokens_sent == [
            signed.issuer.sessions[0].access[0],
            signed.issuer.sessions[0].access[1],
        ]
        assert signed.renewals == 3


async def test_a_stalled_issuer_is_a_failure_that_another_target_makes_up_for(tmp_path: Path) -> None:
    async with ChaosServer(GOOD) as other, signed_in(tmp_path, left_s=-1, patience=QUICK) as signed:
        signed.issuer.scripts[RENEW] = [[Hold(Gate())]] * 9
        failure = (await failed(signed)).failure
        assert failure.kind == "server_error"
        assert "no answer from 127.0.0.1" in failure.text
        signed.line.targets += (target_of(other, "chat", "other"),)
        assert isinstance(await signed.line.ask(sink=signed.line.another_voice()), Answer)


@pytest.mark.parametrize("ahead_s", [-86_400, 86_400])
async def test_the_clock_of_the_issuer_does_not_matter(tmp_path: Path, ahead_s: int) -> None:
    """A token lives for as long as the issuer says, from when we got it."""
    async with signed_in(tmp_path, issuer=FakeIssuer(ahead_s=ahead_s, life_s=3_600), left_s=-1) as signed:
        for _ in range(3):
            assert isinstance(await signed.line.ask(sink=signed.line.another_voice()), Answer)
        assert signed.renewals == 1
        signed.line.clock.jumped_ms = -7 * 86_400_000
        assert isinstance(await signed.line.ask(sink=signed.line.another_voice()), Answer)
        assert signed.renewals == 1, "our own clock was set back"


async def test_a_run_that_is_stopped_during_a_renewal_loses_no_token(tmp_path: Path) -> None:
    """P5: the call ends at once, and the next one has the new token."""
    gate = Gate()
    async with signed_in(tmp_path, left_s=-1) as signed:
        signed.issuer.scripts[RENEW] = [[Hold(gate)]]
        task = signed.line.start()
        await gate.reached()
        assert "renewing the sign-in codex" in signed.line.told.line
        await ended_by(task, "user_stop")
        gate.open()
        assert isinstance(await signed.line.ask(sink=signed.line.another_voice()), Answer)
        assert signed.renewals == 1


async def test_concurrent_calls_share_one_renewal(tmp_path: Path) -> None:
    async with signed_in(tmp_path, left_s=-1) as signed:
        voices = [signed.line.another_voice() for _ in range(10)]
        ended = await asyncio.gather(*(signed.line.ask(sink=voice) for voice in voices))
        assert all(isinstance(one, Answer) for one in ended)
        assert signed.renewals == 1


async def test_another_target_is_not_asked_because_a_token_has_to_be_read(tmp_path: Path) -> None:
    """Hedging begins when half of the patience has passed."""
    async with ChaosServer(GOOD) as other, signed_in(tmp_path, left_s=-1) as signed:
        signed.line.targets += (target_of(other, "chat", "other"),)
        signed.line.trying(hedge=True)
        assert isinstance(await signed.line.ask(), Answer)
        assert other.seen.requests_seen == 0


async def test_a_token_is_sent_to_no_other_host(tmp_path: Path) -> None:
    """P11: neither by a mistake in the configuration nor because the issuer says so."""
    async with signed_in(tmp_path) as signed:
        for base_url in (
            "https://chatgpt.com.example/v1",
            "http://chatgpt.com/v1",
            "https://example.com/chatgpt.com",
        ):
            refused = await signed.authorize(replace(signed.target, base_url=base_url), "")
            assert isinstance(refused, Failure)
            assert f"isn't sent to {base_url}" in refused.text
        for base_url in ("https://chatgpt.com/backend-api/codex", "https://api.chatgpt.com/v1"):
            assert isinstance(await signed.authorize(replace(signed.target, base_url=base_url), ""), Target)
