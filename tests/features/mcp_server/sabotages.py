"""Wrong MCP servers: any key approves, a repeated call runs again, and a closed form is consent."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from starlette.types import ASGIApp
from typing_extensions import override

from features.mcp_server.rpc_client import RpcClient
from holdfast import events as e
from holdfast.api.operation import SCOPES, Scope
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.features.mcp_server.frames import elicited_answer
from holdfast.interfaces.journal import Store
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.access.auth import KeyRing
from holdfast.server.access.middleware import AccessMiddleware
from holdfast.server.options import ApiKey, ServerOptions
from holdfast.values import Action
from sabotage import Sabotage
from sabotage.servers import Around, Make, TakesTwice, as_it_is
from server.toolbox import Counted
from serving import AsksAbout, Setting, served, target_of
from stores import MemoryStore

Read: TypeAlias = Callable[[e.AskAsked, Mapping[str, Any]], tuple[str, str]]
KEY = ApiKey("owner", "sk-secret-of-the-owner")
OWNER = {"Authorization": f"Bearer {KEY.secret}"}


class GivesEveryScope(KeyRing):
    """Lets every key do everything."""

    @override
    def scopes_of(self, name: str) -> frozenset[Scope]:
        del name
        return frozenset(SCOPES)


def any_key_approves(app: ASGIApp, store: Store) -> ASGIApp:
    """A server that looks at no key's scopes."""
    del store
    assert isinstance(app, AccessMiddleware)
    app.keys = GivesEveryScope([KEY], app.keys.added)
    return app


async def check_a_chat_key_approves_nothing(around: Around) -> None:
    """P8, P11: the tool `answer` with a key that may only chat."""
    counted = Counted()
    options = ServerOptions(keys=(KEY,))
    judge = AsksAbout(frozenset({"touch"}))
    setting = Setting(tools=(counted,), judge=judge, options=options, around=around)
    async with (
        ChaosServer([CallTool("touch", {"n": 1})], [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        _, made = await server.post("/api/keys", {"name": "chat", "scopes": ["chat"]}, **OWNER)
        client = RpcClient(server, headers={"Authorization": f"Bearer {made['key']}"})
        waits = await client.tool("run_agent", message="hi")
        await client.tool("answer", id=waits["structuredContent"]["ask"]["id"], answer="once")
        assert not counted.done, "a key without the scope has approved an action"


async def check_a_repeated_call_is_one_run(make: Make) -> None:
    """P2: under one idempotency key, through /mcp."""
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=make(MemoryDisk())) as server,
    ):
        for _ in range(2):
            meta = {"holdfast/idempotency-key": "k"}
            await RpcClient(server).tool("run_agent", _meta=meta, message="hi")
        assert len((await server.get("/v1/runs"))[1]["data"]) == 1, "the call ran twice"


def closing_is_consent(asked: e.AskAsked, result: Mapping[str, Any]) -> tuple[str, str]:
    """Reads a form that was closed as a yes."""
    if result.get("action") == "cancel":
        return "once", ""
    return elicited_answer(asked, result)


async def check_only_a_choice_is_consent(read: Read) -> None:
    """P8: whatever a client sends in place of one."""
    asked = e.ApprovalAsked(
        at_ms=0, run_id="r", approval_id="a", tool_call_id="t", action=Action(tool="shell", summary="rm")
    )
    assert read(asked, {"action": "accept", "content": {"choice": "once"}}) == ("once", "")
    for action in ("decline", "cancel"):
        for content in (None, {}, {"choice": "once"}):
            assert read(asked, {"action": action, "content": content})[0] == "deny", "silence is consent"
    for bad in (
        {},
        {"action": "accept"},
        {"action": "accept", "content": {"choice": True}},
        {"action": "yes"},
        {"action": "accept", "content": {"choice": "once"}, "error": {"code": 1, "message": "no"}},
    ):
        try:
            said, _ = read(asked, bad)
        except ValueError:
            continue
        assert said == "deny", "what is no choice is consent"


SABOTAGES = (
    Sabotage("P8", check_a_chat_key_approves_nothing, as_it_is, any_key_approves),
    Sabotage("P2", check_a_repeated_call_is_one_run, MemoryStore, TakesTwice),
    Sabotage("P8", check_only_a_choice_is_consent, elicited_answer, closing_is_consent),
)
