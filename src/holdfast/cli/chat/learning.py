"""`/memory` in the chat: see what is remembered, and decide about what agents propose to learn."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast import events as e
from holdfast.api.powers.memory import MemoryProposalShown, MemoryShown
from holdfast.cli.powers.memory import DECIDED, added, markdown, place_in, subject
from holdfast.client.errors import ClientError, Refused
from holdfast.policy.tool_names import PROPOSE_SKILL, REMEMBER
from holdfast.safe_text import safe, safe_line

if TYPE_CHECKING:
    from holdfast.cli.chat.conversation import ChatScreen

USAGE = "/memory accept N or /memory reject N (N can be `all`)"
_Open = tuple[MemoryShown, MemoryProposalShown]


class ChatLearning:
    """Shows memories and proposals, the oldest first, and decides about these."""

    def __init__(self, chat: "ChatScreen") -> None:
        self._chat = chat
        self._proposing: set[str] = set()  # open runs that used a tool that proposes

    async def hear(self, event: e.Event) -> None:
        """When a run ends, show its proposals, so that they can be accepted in their own chat."""
        if isinstance(event, e.ToolAsked) and event.name in {REMEMBER, PROPOSE_SKILL}:
            self._proposing.add(event.run_id)
        elif isinstance(event, e.RunEnded) and event.run_id in self._proposing:
            self._proposing.discard(event.run_id)
            with suppress(ClientError):  # the proposals are still in the inbox
                proposals = _proposals((await self._chat.client.memories()).data)
                numbered = [
                    (nth, one)
                    for nth, one in enumerate(proposals, 1)
                    if one[1].origin is not None and one[1].origin.run_id == event.run_id
                ]
                if numbered:
                    await self._say("\n".join([*(_line(nth, one) for nth, one in numbered), USAGE]))

    async def memory(self, words: str) -> None:
        """Show everything, or accept or reject proposals by their numbers."""
        verb, *which = words.split() or ("show",)
        found = await self._chat.client.memories()
        proposals = _proposals(found.data)
        if verb == "show":
            await self._say(_shown(found.data, proposals))
        elif verb in {"accept", "reject"} and (chosen := _chosen(proposals, which)):
            await self._decide(verb, chosen)
        else:
            await self._say(USAGE if proposals else "No proposals.")

    async def _decide(self, verdict: str, chosen: Sequence[_Open]) -> None:
        for memory, proposal in chosen:
            about = safe_line(added(proposal.before, proposal.after), 80)
            try:
                body = {**place_in(memory), verdict: [proposal.change_id]}
                await self._chat.client.change_memory("decide", body)
            except Refused as error:
                await self._say(f"{about}: {safe_line(str(error), 200)}")
            else:
                await self._say(f"{DECIDED[verdict]}: {about}")

    async def _say(self, text: str) -> None:
        await self._chat.prompt.print(self._chat.style.dim(text))


def _proposals(memories: Sequence[MemoryShown]) -> list[_Open]:
    found = [(memory, one) for memory in memories for one in memory.proposals]
    return sorted(found, key=lambda pair: pair[1].proposed_at)


def _chosen(proposals: Sequence[_Open], which: Sequence[str]) -> Sequence[_Open]:
    """Those that are meant; none if a number is wrong."""
    if list(which) == ["all"]:
        return proposals
    numbers = [int(word) for word in which if word.isdecimal()]
    if len(numbers) != len(which) or not all(0 < number <= len(proposals) for number in numbers):
        return ()
    return [proposals[number - 1] for number in dict.fromkeys(numbers)]


def _shown(memories: Sequence[MemoryShown], proposals: Sequence[_Open]) -> str:
    known = [one for one in memories if one.scope != "skills" and (one.document or one.notes)]
    text = "\n\n".join(markdown(one).rstrip() for one in known)
    lines = [safe(text) if text else "No memories yet."]
    lines += [_line(nth, one) for nth, one in enumerate(proposals, 1)]
    return "\n\n".join([*lines, USAGE] if proposals else lines)


def _line(nth: int, proposed: _Open) -> str:
    memory, one = proposed
    others = f" (not only from your messages: {'; '.join(one.because)})" if one.because else ""
    about = f" about {safe_line(subject(memory), 200)}" if memory.scope != "skills" else ""
    return f"{nth}. proposed{about}: {_what(memory, one)}\n   reason: {safe_line(one.reason + others, 400)}"


def _what(memory: MemoryShown, one: MemoryProposalShown) -> str:
    """Show the proposed change; for a skill, every changed line, because it becomes instructions."""
    if memory.scope != "skills":
        return safe_line(added(one.before, one.after), 4_000)
    old, new = one.before.split("\n"), one.after.split("\n")
    gone = [f"   - {safe_line(line, 1_000)}" for line in old if line and line not in new]
    come = [f"   + {safe_line(line, 1_000)}" for line in new if line and line not in old]
    return "\n".join([f"the skill {safe_line(one.document, 64)}", *gone, *come])
