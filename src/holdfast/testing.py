"""For your own tests: a scripted model, a model server that misbehaves on purpose, and a clock that you move.

    from holdfast import Agent
    from holdfast.testing import Call, Say, ScriptedModel

    agent = Agent(ScriptedModel([Call("add", a=2, b=3), Say("5")]), tools=[add])

A scripted model is a real server on loopback, so your test goes through the same code as production does.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.chaos import (
    CallTool,
    ChaosServer,
    Drop,
    Gate,
    Hang,
    Refuse,
    Say,
    Think,
    Wait,
    bad_key,
    overloaded,
    rate_limited,
    rate_limited_s,
    server_error,
)
from holdfast.chaos.reply import Step
from holdfast.targets import Patience, RetryLimits, Target, Wire

__all__ = [
    "Call",
    "ChaosServer",
    "Drop",
    "FakeClock",
    "Gate",
    "Hang",
    "Refuse",
    "Say",
    "ScriptedModel",
    "Think",
    "Wait",
    "bad_key",
    "overloaded",
    "rate_limited",
    "rate_limited_s",
    "server_error",
]


def Call(tool: str, /, **args: object) -> CallTool:  # noqa: N802  # stands beside Say and Think, which are classes
    """The model calls a tool with these arguments.

    Example::

        from holdfast.testing import Call

        assert Call("add", a=2).args == {"a": 2}
    """
    return CallTool(tool, args)


class ScriptedModel:
    """A model that gives one answer after the other; pass it to `Agent` in place of a model's name.

    Each item is one answer of the model: a step such as `Say` or `Call`, or a list of steps. `requests` holds
    what the agent sent, as JSON. One more request than there are answers fails.

    Example::

        from holdfast import Agent
        from holdfast.testing import Call, Say, ScriptedModel

        async def add(a: int, b: int) -> int:
            '''Add two numbers.'''
            return a + b

        model = ScriptedModel([Call("add", a=2, b=3), [Say("It is "), Say("5.")]])
        assert (await Agent(model, tools=[add]).run("2 + 3?")).output == "It is 5."
        assert len(model.requests) == 2
    """

    def __init__(
        self,
        answers: Sequence[Step | Sequence[Step]],
        *,
        wire: Wire = "chat",
        name: str = "scripted",
        patience: Patience | None = None,
        retry: RetryLimits | None = None,
    ) -> None:
        scripts = [list(answer) if isinstance(answer, Sequence) else [answer] for answer in answers]
        self._server = ChaosServer(*scripts)
        self._wire: Wire = wire
        self._name = name
        self._patience = patience or Patience()
        self._retry = retry or RetryLimits()

    @property
    def requests(self) -> list[Mapping[str, Any]]:
        """What the agent sent, request by request."""
        return [request.body or {} for request in self._server.record.requests]

    @property
    def server(self) -> ChaosServer:
        """The server, with all that it saw."""
        return self._server

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[Target]:
        """The target of a server that is open for as long as the context is."""
        async with self._server as server:
            yield Target(
                name=self._name,
                wire=self._wire,
                base_url=server.url if self._wire == "anthropic" else server.base_url,
                model="scripted",
                patience=self._patience,
                retry=self._retry,
            )


class FakeClock:
    """A clock that stands still until somebody sleeps or you move it; pass it as `Agent(clock=…)`.

    A sleep returns at once and moves the clock, so retries and waits for rate limits take no time. Watchdogs
    of connections use real time.

    Example::

        from holdfast import Agent
        from holdfast.testing import FakeClock, Say, ScriptedModel, rate_limited_s

        clock = FakeClock()
        agent = Agent(ScriptedModel([rate_limited_s(30), Say("hello")]), clock=clock)
        assert (await agent.run("hello")).output == "hello"
        assert clock.slept_s >= 30
    """

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._start_ms = now_ms
        self._passed_s = 0.0
        self.slept_s = 0.0

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._passed_s += seconds

    def now_ms(self) -> int:
        """Milliseconds of Unix time."""
        return self._start_ms + round(1000 * self._passed_s)

    def monotonic_s(self) -> float:
        """Seconds since the clock was made."""
        return self._passed_s

    def steady_s(self) -> float:
        """The same, since this clock's computer never sleeps."""
        return self._passed_s

    async def sleep_s(self, seconds: float) -> None:
        """Move the clock, and let others run."""
        self.slept_s += seconds
        self.advance(seconds)
        await asyncio.sleep(0)
