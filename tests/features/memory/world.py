"""A world for memories: their tools, people who type, and a tool whose result is poisoned."""

from collections.abc import Mapping

from agent.world import Effect, World
from holdfast.features.memory.memories import Memories, OpenMemory, user_scope
from holdfast.features.memory.run import ReadNotes, Remember
from holdfast.features.memory.state import Memory
from holdfast.features.skills.run import ProposeSkill
from holdfast.interfaces.journal import Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.values import MemoryMode


def memory_tools(store: Store) -> tuple[Tool, ...]:
    return (Remember(), ReadNotes(store, Memories(store, SystemClock())), ProposeSkill())


def opened(store: Store, mode: MemoryMode) -> dict[str, OpenMemory]:
    """The open features of agents with a memory."""
    return {"memory": OpenMemory(mode, Memories(store, SystemClock()))}


async def of_user(store: Store) -> Memory:
    return await Memories(store, SystemClock()).load(user_scope(""))


async def typed(world: World, text: str, *, session_id: str = "s", **more: object) -> None:
    """A person types it on the page."""
    message = IncomingMessage(text=text, source="page", **more)  # pyright: ignore[reportArgumentType]
    assert isinstance(await world.inbox.send(session_id, message), Sent)


class Poisoned(Effect):
    """Returns a poisoned text."""

    text: str = ""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del args, call
        return ToolResult(self.text)
