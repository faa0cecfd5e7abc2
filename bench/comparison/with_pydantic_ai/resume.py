"""Survive kill -9: start the program again, and the run goes on without repeating its tool call."""

import asyncio
from pathlib import Path
from time import time_ns

from pydantic_ai import Agent, ModelMessagesTypeAdapter

SAVED = Path("messages.json")


async def note(text: str) -> str:
    """Write something down."""
    await asyncio.to_thread(Path(f"{time_ns()}.note").write_text, text)
    return "noted"


def save(messages: bytes) -> None:
    new = SAVED.with_suffix(".new")
    new.write_bytes(messages)
    new.replace(SAVED)


async def main() -> None:
    agent = Agent("openai:gpt-5", tools=[note])
    left = ModelMessagesTypeAdapter.validate_json(SAVED.read_bytes()) if SAVED.exists() else None
    async with agent.iter(None if left else "Note it", message_history=left) as run:
        async for node in run:
            messages = run.all_messages()
            if Agent.is_model_request_node(node) and node.request not in messages:
                messages = [*messages, node.request]
            save(ModelMessagesTypeAdapter.dump_json(messages))
    assert run.result is not None
    print(run.result.output)
    SAVED.unlink()


asyncio.run(main())
