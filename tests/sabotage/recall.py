"""A wrong way to recall; the check of the promise that it breaks must notice."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from agent.world import World, ending, process
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.interfaces.index import RunQuery
from holdfast.runner.inbox import IncomingMessage
from holdfast.tools.recall import SearchSessions
from sabotage import Sabotage
from stores import MemoryStore
from tools.calls import Call

# P11: recall stays with the key


class SaysEveryoneIsAnn(MemoryStore):
    """Says that every run was asked for with the same key."""

    @override
    async def run(self, run_id: str) -> Any:
        row = await super().run(run_id)
        return None if row is None else replace(row, api_key="ann")

    @override
    async def runs(self, query: RunQuery) -> Any:
        return [replace(row, api_key="ann") for row in await super().runs(query)]


async def check_recall_finds_nothing_of_another_key(store_type: type[MemoryStore]) -> None:
    """P11: Bob's agent doesn't find what Ann said."""
    store = store_type()
    async with ChaosServer([Say("ok")], [Say("ok")]) as chaos, process(chaos, store=store) as world:
        await said(world, "ann", "ann's plum jam")
        run_id = await said(world, "bob", "hello")
        tool = SearchSessions(store)
        call = Call(workspace=Path("/w"), run_id=run_id, session_id="of-bob")
        assert "jam" not in (await tool.run({"query": "plum"}, call)).text
        opened = await tool.run({"session_id": "of-ann", "seq": 2}, call)
        assert "jam" not in opened.text


async def said(world: World, key: str, text: str) -> str:
    await world.inbox.send(f"of-{key}", IncomingMessage(text=text, source="page", key=key))
    log = await world.until(f"of-{key}", e.RunEnded)
    return ending(log).run_id


SABOTAGES = (
    Sabotage("P11", check_recall_finds_nothing_of_another_key, right=MemoryStore, wrong=SaysEveryoneIsAnn),
)
