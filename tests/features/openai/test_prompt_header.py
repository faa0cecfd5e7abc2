"""The server's prompt on the OpenAI-compatible routes: before the caller's, or not at all."""

from typing import Any

from holdfast.chaos import ChaosServer, Say
from serving import Served, Setting, served, target_of

CHAT: list[dict[str, Any]] = [{"role": "system", "content": "caller"}, {"role": "user", "content": "hi"}]
BASE, BOTH, ALONE = Setting(prompt="BASE"), "BASE\n\ncaller", "caller"


async def system_text(server: Served, chaos: ChaosServer, *, model: str = "", **headers: str) -> str:
    body = {"messages": CHAT, **({"model": model} if model else {})}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await server.call("POST", "/v1/chat/completions", body=body, headers=names)
    assert answer.status == 200, answer.json
    sent: Any = chaos.seen.requests[-1].body
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    return sent["messages"][0]["content"]


async def test_a_caller_chooses_whether_its_system_message_follows_ours() -> None:
    async with (
        ChaosServer(choose=lambda _: [Say("ok")]) as chaos,
        served(target_of(chaos), setting=BASE) as server,
    ):
        assert await system_text(server, chaos) == BOTH
        assert await system_text(server, chaos, X_Holdfast_Prompt="default") == BOTH
        assert await system_text(server, chaos, X_Holdfast_Prompt="none") == ALONE
        assert await system_text(server, chaos, X_Holdfast_Task="title") == ALONE
        answer = await server.call("POST", "/v1/responses", body={"input": "hi", "instructions": "caller"})
        assert answer.status == 200
        sent: Any = chaos.seen.requests[-1].body
        assert sent["messages"][0]["content"] == BOTH


async def test_a_relayed_request_gains_no_prompt() -> None:
    async with (
        ChaosServer(choose=lambda _: [Say("ok")]) as chaos,
        served(target_of(chaos), setting=BASE) as server,
    ):
        assert await system_text(server, chaos, model=target_of(chaos).name) == ALONE


async def test_another_value_of_the_header_is_refused_by_name() -> None:
    """P12."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=BASE) as server:
        answer = await server.call(
            "POST", "/v1/chat/completions", body={"messages": CHAT}, headers={"X-Holdfast-Prompt": "off"}
        )
        assert (answer.status, answer.json["error"]["param"]) == (400, "X-Holdfast-Prompt")
        assert chaos.seen.requests == []
