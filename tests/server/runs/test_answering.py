"""Every interface answers approvals through one function: the same choice has the same effect on each."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from agent.world import messages
from channels.lab import ME, last_user_text, options_for, served_channels, until
from holdfast.agent.policy import AlwaysGrants, ConfiguredJudge
from holdfast.channels.cards import CHOICES
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.chaos.telegram import FakeTelegram
from holdfast.client import Client
from holdfast.journal.memory import MemoryStore
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.values import Choice
from server.ag_ui.test_ag_ui import told
from server.mcp.rpc_client import RpcClient
from server.toolbox import CountedShell
from serving import PATIENT, Served, served, target_of

Row = dict[str, Any]
Telegram = FakeTelegram
Face = Callable[[Served, Telegram, Row, Choice], Awaitable[None]]


async def by_native(server: Served, telegram: Telegram, row: Row, choice: Choice) -> None:
    del telegram
    body = {"choice": choice, "approval_id": row["approval_id"]}
    assert (await server.post(f"/v1/runs/{row['run_id']}/approval", body))[0] == 200


async def by_hermes(server: Served, telegram: Telegram, row: Row, choice: Choice) -> None:
    del telegram
    frame = (await server.until(row["run_id"], "approval.request")).data
    body = {"choice": choice, "request_id": frame["request_id"]}
    assert (await server.post(f"/v1/runs/{row['run_id']}/approval", body))[0] == 200


async def by_ag_ui(server: Served, telegram: Telegram, row: Row, choice: Choice) -> None:
    del telegram
    answer = {"interruptId": row["approval_id"], "status": "resolved", "payload": {"choice": choice}}
    await told(server, {"threadId": row["session_id"], "runId": "r2", "messages": [], "resume": [answer]})


async def by_mcp(server: Served, telegram: Telegram, row: Row, choice: Choice) -> None:
    del telegram
    client = await RpcClient(server).begun()
    result = await client.tool("answer", id=row["approval_id"], answer=choice)
    assert not result["isError"]


async def by_client(server: Served, telegram: Telegram, row: Row, choice: Choice) -> None:
    """As the terminal, `holdfast approvals` and ACP do."""
    del telegram
    async with Client(server.url) as client:
        await client.approve(row["run_id"], row["approval_id"], choice=choice)


async def by_card(server: Served, telegram: Telegram, row: Row, choice: Choice) -> None:
    del server, row
    await until(telegram, lambda: CHOICES[choice] in telegram.world.buttons(ME))
    telegram.world.click(ME, *telegram.world.buttons(ME)[CHOICES[choice]])


FACES = {
    "native": by_native,
    "hermes": by_hermes,
    "AG-UI": by_ag_ui,
    "MCP": by_mcp,
    "client": by_client,
    "card": by_card,
}


def fetch(request: SeenRequest) -> Script:
    """Needs two approvals in the server's mode, and one in the mode of its session."""
    if messages(request)[-1]["role"] == "tool":
        return [Say(f"done {last_user_text(request)}")]
    return [CallTool("shell", {"command": f"touch a && curl https://example.com/{last_user_text(request)}"})]


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
async def test_each_choice_has_the_same_effect_on_each_interface(face: Face, tmp_path: Path) -> None:
    """P8: a lasting choice stores the rule that was shown, in the mode of its session; the others, none."""
    tool, kept = CountedShell(), set[tuple[str, str]]()
    async with FakeTelegram() as telegram, ChaosServer(choose=fetch) as chaos:
        chats = served_channels(options_for(telegram, approvals="allow-workspace"))
        setting = replace(chats, tools=(tool,), judge=ConfiguredJudge(home=tmp_path, always=kept_always()))
        async with served(target_of(chaos, patience=PATIENT), setting=setting) as server:
            for choice in get_args(Choice):
                telegram.world.say(ME, choice)
                await until(telegram, lambda: CHOICES["deny"] in telegram.world.buttons(ME))
                _, shown = await server.get("/v1/approvals")
                (row,) = shown["data"]
                ran = len(tool.done)
                await face(server, telegram, row, choice)
                await server.ended(row["run_id"])
                await until(telegram, lambda: not telegram.world.buttons(ME))
                assert len(tool.done) == ran + (choice != "deny")
                kept |= (
                    {(choice, f"https://example.com/{choice}")} if choice in {"session", "always"} else set()
                )
                assert await rules(server) == kept


async def rules(server: Served) -> set[tuple[str, str]]:
    """The scope of each stored rule, and the address that it allows."""
    _, found = await server.get("/api/approvals/rules?sessions=all")
    return {(one["scope"], one["rule"]["argv"][-1]) for one in found["data"]}


def kept_always() -> AlwaysGrants:
    return AlwaysGrants(MemoryStore(MemoryDisk()))
