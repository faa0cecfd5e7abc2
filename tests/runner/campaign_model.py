"""The model of the fault campaign: what it does follows from what it is shown, so a crash changes nothing.

A message for it is a kind and an id. Every effect that it asks for has a name of its own, so that an outside
witness can count it.
"""

import json
import random
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.chaos import CallTool, Drop, Say, SayWords, Script, SeenRequest

KINDS = ("text", "tools", "outside", "ask", "slow", "drop")
LONG = ("long", "job")  # an answer and tools that take seconds, so that something dies meanwhile
STEPS = 3
UNKNOWN = "whether it took effect is unknown"


@dataclass(frozen=True, slots=True)
class Model:
    """Chooses the script for each request; `port` is where effects outside are received."""

    port: int

    def __call__(self, request: SeenRequest) -> Script:
        """See holdfast.chaos.Choose."""
        messages = msgspec.convert((request.body or {})["messages"], list[dict[str, Any]])
        asked = [nth for nth, message in enumerate(messages) if _kind(message)]
        if not asked:
            return [Say("a summary, or a word about something else")]
        kind, effect = str(messages[asked[-1]]["content"]).split()[:2]
        since = messages[asked[-1] + 1 :]
        match kind:
            case "tools":
                return self._tools(effect, since, pause_s=len(effect) % 5 / 100)
            case "job":
                return self._tools(effect, since, pause_s=1.5)
            case "outside":
                return self._outside(effect, since)
            case "ask" if not _results(since):
                return [CallTool("ask_user", {"text": f"which colour for {effect}?"})]
            case "slow":
                return [SayWords(words(effect, 60), 0.01)]
            case "long":
                return [SayWords(words(effect, 200), 0.02)]
            case "drop" if random.Random(effect + str(len(messages))).random() < 0.2:
                return [SayWords(f"{effect} is cut", 0.005), Drop()]
            case _:
                return [SayWords(words(effect, 15), 0.005)]

    @staticmethod
    def _tools(effect: str, since: list[dict[str, Any]], *, pause_s: float) -> Script:
        """A few steps, each with an effect on a file; a step whose effect is unknown is tried again."""
        results = _results(since)
        step = 0
        if results:
            command = _last_command(since)
            if UNKNOWN in results[-1]:
                return [Say("once more"), CallTool("shell", {"command": command})]
            step = int(command.split("effect=")[1].split(".")[1].split()[0]) + 1
        if step == STEPS:
            return [SayWords(f"{effect} is done", 0.003)]
        name = f"{effect}.{step}"
        command = f"echo effect={name} >> effects; sleep {pause_s}"
        return [Say(f"step {step}"), CallTool("shell", {"command": command})]

    def _outside(self, effect: str, since: list[dict[str, Any]]) -> Script:
        if _results(since):
            return [Say("told")]
        return [CallTool("shell", {"command": f"echo effect={effect} > /dev/tcp/127.0.0.1/{self.port}"})]


def words(effect: str, count: int) -> str:
    """An answer of so many words, each of which says where it belongs."""
    return " ".join(f"{effect}:{nth}" for nth in range(count))


def _kind(message: dict[str, Any]) -> bool:
    return message["role"] == "user" and str(message["content"]).split(" ")[0] in {*KINDS, *LONG}


def _results(since: list[dict[str, Any]]) -> list[str]:
    return [str(message["content"]) for message in since if message["role"] == "tool"]


def _last_command(since: list[dict[str, Any]]) -> str:
    calls = [call for message in since for call in message.get("tool_calls") or ()]
    return json.loads(calls[-1]["function"]["arguments"])["command"]
