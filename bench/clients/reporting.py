"""What every client program shares: the tasks, and a line of JSON for each result."""

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

PATIENT_S = 30.0
WEATHER = {"Bern": "21 degrees", "Thun": "19 degrees"}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "How warm it is in a city.", "parameters": CITY}


class MissingCapability(Exception):
    """The client has no way to do this."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How a client asks: with which key, for which model, and how patient it is."""

    url: str
    key: str
    model: str
    surface: str
    retries: int = 0
    timeout_s: float = PATIENT_S


@dataclass(frozen=True, slots=True)
class Told:
    """What a client was told: the text, and whether it was given counts of tokens."""

    text: str
    tokens: bool = True


class Client(Protocol):
    """What a client can do."""

    async def ask(self, asking: Asking, prompt: str) -> Told:
        """Ask, and wait for the whole answer."""
        ...

    async def stream(self, asking: Asking, prompt: str) -> Sequence[str]:
        """The pieces of the answer, as they come."""
        ...

    async def converse(self, asking: Asking, prompts: Sequence[str]) -> tuple[list[str], list[str]]:
        """Ask in one conversation with the tool; the cities it was called for, and the texts."""
        ...

    async def structured(self, asking: Asking, prompt: str) -> dict[str, Any]:
        """The answer as an object with `city` and `celsius`."""
        ...


def weather(city: str) -> str:
    """Say how warm it is in a city."""
    return WEATHER[city]


def user(prompt: str) -> Any:
    """A message of the user, as the wires of OpenAI and Anthropic write it."""
    return {"role": "user", "content": prompt}


def run(client: Client) -> None:
    """Do the tasks that the first argument lists, and print what came of each."""
    scene = json.loads(sys.argv[1])
    asyncio.run(_report(client, scene))


async def _report(client: Client, scene: dict[str, Any]) -> None:
    tasks = _tasks(client, scene)
    for name in scene["tasks"]:
        try:
            async with asyncio.timeout(scene["limit_s"]):
                result: Any = await tasks[name]()
        except MissingCapability:
            result = None
        except Exception as error:  # noqa: BLE001  # whatever a client raises is its result
            result = {"raised": _said(error)}
            traceback.print_exc()
        print(json.dumps({"task": name, "result": result}), flush=True)


def _tasks(client: Client, scene: dict[str, Any]) -> dict[str, Callable[[], Awaitable[Any]]]:
    def asking(**fields: Any) -> Asking:
        known = {name: scene[name] for name in ("url", "key", "model", "surface")}
        return Asking(**(known | fields))

    async def plain() -> Any:
        told = await client.ask(asking(), "plain")
        return {"text": told.text, "tokens": told.tokens}

    async def stream() -> Any:
        pieces = [piece for piece in await client.stream(asking(), "stream") if piece]
        return {"text": "".join(pieces), "in pieces": len(pieces) > 1}

    async def conversation(*prompts: str) -> Any:
        cities, texts = await client.converse(asking(), prompts)
        return {"called for": cities, "texts": texts}

    async def structured() -> Any:
        return await client.structured(asking(), "structured")

    async def errors() -> Any:
        found = {
            "wrong key": await _error(client.ask(asking(key="not-a-key-of-this-server"), "plain")),
            "unknown model": await _error(client.ask(asking(model="no-such-model"), "plain")),
        }
        for kind in ("refused", "quota", "overloaded"):
            found[kind] = await _error(client.ask(asking(), f"error {kind}"))
        found["half an answer"] = await _error(client.stream(asking(), "error half"), words=True)
        return found

    async def retry() -> Any:
        return {"text": (await client.ask(asking(), "retry")).text}

    async def timeout() -> Any:
        return {"text": (await client.ask(asking(retries=2, timeout_s=1.0), "timeout")).text}

    return {
        "plain": plain,
        "stream": stream,
        "tools": lambda: conversation("weather Bern"),
        "multi-turn": lambda: conversation("weather Bern", "weather Thun"),
        "structured": structured,
        "errors": errors,
        "retry": retry,
        "timeout": timeout,
    }


async def _error(doing: Awaitable[Any], *, words: bool = False) -> Any:
    """The status of the error that the client raises; with `words`, only that it raises one."""
    try:
        got = await doing
    except MissingCapability:
        raise
    except Exception as error:  # noqa: BLE001  # whatever a client raises is its result
        return "error" if words else _status(error)
    return f"no error, but {got!r}"


def _status(error: BaseException) -> Any:
    seen: BaseException | None = error
    while seen is not None:
        status = getattr(seen, "status_code", None)
        if isinstance(status, int):
            return status
        seen = seen.__cause__ or seen.__context__
    return _said(error)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:400]
