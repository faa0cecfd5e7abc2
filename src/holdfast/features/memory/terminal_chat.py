"""`/memory` in the terminal chat: show memories, and accept or reject proposals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.client.errors import Refused
from holdfast.features.memory.actions import DECIDED, added, markdown, place_in, subject
from holdfast.features.memory.bodies import MemoryProposalShown, MemoryShown
from holdfast.features.memory.client import MemoryCalls
from holdfast.safe_text import safe, safe_line

if TYPE_CHECKING:
    from holdfast.cli.chat.conversation import ChatScreen

USAGE = "/memory accept N or /memory reject N (N can be `all`)"
_Open = tuple[MemoryShown, MemoryProposalShown]


async def show_proposals(chat: "ChatScreen", run_id: str) -> None:
    """Show the open proposals of the run, by number."""
    numbered = [
        _line(nth, one)
        for nth, one in enumerate(_proposals((await MemoryCalls(chat.client).list()).data), 1)
        if one[1].origin is not None and one[1].origin.run_id == run_id
    ]
    if numbered:
        await _say(chat, "\n".join([*numbered, USAGE]))


async def memory(chat: "ChatScreen", text: str) -> None:
    """Show all memories, or accept or reject proposals by number."""
    verb, *words = text.split() or ("show",)
    found = await MemoryCalls(chat.client).list()
    proposals = _proposals(found.data)
    if verb == "show":
        await _say(chat, _shown(found.data, proposals))
    elif verb in {"accept", "reject"} and (chosen := _chosen(proposals, words)):
        for place, proposal in chosen:
            await _say(chat, await _decided(chat, verb, place, proposal))
    else:
        await _say(chat, USAGE if proposals else "No proposals.")


async def propose(chat: "ChatScreen", text: str) -> None:
    """Propose a memory about the workspace, or about the user if the text begins with another #."""
    is_about_user = text.startswith("#")
    text = text.lstrip("#").strip()
    if not text:
        await _say(chat, "Add a text: #use uv, not pip, or ##I live in Lisbon")
        return
    place = {"scope": "user"} if is_about_user else {"scope": "workspace", "workspace": str(chat.workspace)}
    await MemoryCalls(chat.client).propose({**place, "text": text, "session_id": chat.session_id})
    numbered = [*enumerate(_proposals((await MemoryCalls(chat.client).list()).data), 1)]
    await _say(chat, "\n".join([_line(*numbered[-1]), USAGE]))


async def _decided(chat: "ChatScreen", verb: str, place: MemoryShown, proposal: MemoryProposalShown) -> str:
    """Accept or reject a proposal, and return the result."""
    change = safe_line(added(proposal.before, proposal.after), 80)
    try:
        await MemoryCalls(chat.client).decide({**place_in(place), verb: [proposal.change_id]})
    except Refused as error:
        return f"{change}: {safe_line(str(error), 200)}"
    return f"{DECIDED[verb]}: {change}"


async def _say(chat: "ChatScreen", text: str) -> None:
    await chat.prompt.print(chat.style.dim(text))


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
