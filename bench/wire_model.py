"""The model behind bench/wire.py: what it answers is told by the word `play:NAME` in the last such message.

It speaks Chat Completions and nothing of the program under test is in it, so that two checkouts meet the same
bytes. Each piece of text is one delta, and a gate holds an answer until the bench opens it: what a server
journals then depends on no clock.
"""

import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from aiohttp import web

Step: TypeAlias = tuple[Any, ...]
Attempt: TypeAlias = list[Step]
Turn: TypeAlias = list[Attempt]

BUSY = {"error": {"message": "Overloaded", "type": "server_error", "code": "overloaded"}}
LIMITED = {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
NO_KEY = {"error": {"message": "Bad key", "type": "invalid_request_error", "code": "invalid_api_key"}}
BROKEN = {"error": {"message": "Internal error", "type": "server_error", "code": None}}


def shell(command: str) -> Step:
    return ("call", "shell", {"command": command})


ASK: Step = ("call", "ask_user", {"text": "Which colour?", "choices": ["red", "blue"]})
PLAYS: dict[str, list[Turn]] = {
    "plain": [[[("say", "The answer is 42, naïve “quoted” <b>.")]]],
    "again": [[[("say", "The second answer about harbours.")]]],
    "think": [[[("think", "Let me see."), ("say", "Thought and said.")]]],
    "gated": [[[("say", "The first half, "), ("gate", "gated"), ("say", "the second half.")]]],
    "stopped": [[[("say", "Before the stop."), ("gate", "never")]]],
    "cut": [[[("say", "This goes on and"), ("finish", "length")]]],
    "refused": [[[("refuse", "I can't help with that.")]]],
    "filtered": [[[("say", "Something"), ("finish", "content_filter")]]],
    "empty": [[[("finish", "stop")]]],
    "echo": [[[("say", "I run it."), shell("echo hello > out.txt; cat out.txt")]], [[("say", "It ran.")]]],
    "grant": [[[shell("touch granted.txt")]], [[shell("touch granted.txt")]], [[("say", "Twice.")]]],
    "always": [[[shell("mkdir -p made")]], [[("say", "Made.")]]],
    "two": [[[shell("touch one.txt"), shell("touch two.txt")]], [[("say", "Both.")]]],
    "bad": [[[("call", "shell", {"wrong": 1}), ("call", "no_such_tool", {})]], [[("say", "Neither.")]]],
    "read": [
        [[("say", "I read it."), ("call", "read_file", {"path": "note.txt"})]],
        [[("call", "read_file", {"path": "none.txt"})]],
        [[("say", "I have read it.")]],
    ],
    "write": [[[("call", "write_file", {"path": "new.txt", "content": "new\n"})]], [[("say", "Written.")]]],
    "ask": [[[("say", "One question."), ASK]], [[("say", "Thank you.")]]],
    "retry": [[[("status", 500, BROKEN)], [("say", "Second try.")]]],
    "superseded": [[[("say", "Half of it "), ("drop",)], [("say", "The whole of it.")]]],
    "cut_call": [[[("say", "I call"), ("half_call", "shell"), ("drop",)], [("say", "No call after all.")]]],
    "failed": [[[("say", "Some words"), ("status_in_stream", BROKEN)]]],
    "bad_key": [[[("status", 401, NO_KEY)]]],
    "down": [[[("status", 503, BUSY)]]],
    "limited": [[[("status", 429, LIMITED, {"retry-after": "3600"})], [("say", "After the gate.")]]],
}


class Model:
    """What the model was asked, and the gates that the bench opens."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.url = ""
        self._is_open = is_open
        self._asked: Counter[tuple[str, int]] = Counter()
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._reached: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(0))

    async def reached(self, gate: str) -> None:
        """Wait until one more answer stands at the gate."""
        async with asyncio.timeout(30):
            await self._reached[gate].acquire()

    def open(self, gate: str) -> None:
        """Let the answers at the gate go on; the gate is closed behind them."""
        self._gates.pop(gate).set()

    def attempt(self, messages: list[dict[str, Any]]) -> tuple[str, int, Attempt]:
        """The play that was asked for, the turn in it, and what to answer now."""
        name, turn = "plain", 0
        for message in messages:
            if message["role"] == "user" and (found := re.search(r"play:(\w+)", str(message["content"]))):
                name, turn = found[1], 0
            elif message["role"] == "assistant" and message.get("tool_calls"):
                turn += 1
        turns = PLAYS[name]
        attempts = turns[min(turn, len(turns) - 1)]
        nth = min(self._asked[name, turn], len(attempts) - 1)
        self._asked[name, turn] += 1
        return name, turn, attempts[nth]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """POST …/chat/completions."""
        name, turn, steps = self.attempt((await request.json())["messages"])
        if steps[0][0] == "status":
            _, status, body, *headers = steps[0]
            return web.json_response(body, status=status, headers=headers[0] if headers else None)
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        says = Saying(answer, f"{name}_{turn}")
        await says.delta({"role": "assistant", "content": ""})
        for kind, *rest in steps:
            if kind == "gate":
                self._reached[rest[0]].release()
                if not self._is_open:
                    await self._gates[rest[0]].wait()
            elif kind == "drop":
                assert request.transport is not None
                request.transport.abort()
                return answer
            else:
                await says.step(kind, *rest)
        await says.end()
        return answer


class Saying:
    """One streamed answer."""

    def __init__(self, answer: web.StreamResponse, where: str) -> None:
        self._answer = answer
        self._where = where
        self._calls = 0
        self._finish = ""
        self._has_ended = False

    async def step(self, kind: str, *rest: Any) -> None:
        """Whatever an answer can hold."""
        match kind:
            case "say":
                await self.delta({"content": rest[0]})
            case "think":
                await self.delta({"reasoning_content": rest[0]})
            case "refuse":
                await self.delta({"refusal": rest[0]})
            case "call":
                await self._call(rest[0], json.dumps(rest[1]))
            case "half_call":
                await self._call(rest[0], '{"comm')
            case "finish":
                self._finish = rest[0]
            case "status_in_stream":
                await self._send(rest[0])
                self._has_ended = True
            case _:
                raise ValueError(kind)

    async def _call(self, name: str, arguments: str) -> None:
        call = {"index": self._calls, "id": f"tc_{self._where}_{self._calls}", "type": "function"}
        self._calls += 1
        await self.delta({"tool_calls": [{**call, "function": {"name": name, "arguments": arguments}}]})

    async def delta(self, delta: dict[str, Any], finish: str | None = None) -> None:
        """One chunk."""
        await self._chunk([{"index": 0, "delta": delta, "finish_reason": finish}])

    async def end(self) -> None:
        """The finish, the usage, the marker."""
        if self._has_ended:
            return
        await self.delta({}, self._finish or ("tool_calls" if self._calls else "stop"))
        await self._chunk([], usage={"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})
        await self._answer.write(b"data: [DONE]\n\n")

    async def _chunk(self, choices: list[Any], **more: Any) -> None:
        about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
        await self._send({**about, "choices": choices, **more})

    async def _send(self, data: dict[str, Any]) -> None:
        await self._answer.write(b"data: " + json.dumps(data).encode() + b"\n\n")


@asynccontextmanager
async def scripted_model(*, is_open: bool = False, port: int = 0) -> AsyncGenerator[Model]:
    """The model on a loopback port; `is_open` leaves every gate open."""
    model = Model(is_open=is_open)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", model.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    model.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield model
    finally:
        await runner.cleanup()
