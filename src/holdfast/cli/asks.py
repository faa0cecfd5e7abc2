"""Approvals and questions in a terminal: how they are shown, how a typed line is read, how it is sent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from holdfast import events as e
from holdfast.cli.ask_menu import STEP_MARK, WITH_CHANGES
from holdfast.cli.terminal.phrases import answer_words
from holdfast.client.errors import BadAnswer, Refused
from holdfast.client.updates import AskEvent, ask_id
from holdfast.policy.tool_names import UPDATE_PLAN
from holdfast.values import Choice, Width

if TYPE_CHECKING:
    from holdfast.api.server import Capabilities
    from holdfast.client import Client

REASON_CHARS_MAX = 500
_NO = frozenset({"n", "no", "deny", "denied"})
_YES = frozenset({"y", "yes"})


class ApprovalReply(Struct, frozen=True):
    """A person's verdict on an action."""

    choice: Choice
    reason: str = ""
    width: Width = "exact"
    steps: tuple[str, ...] = ()  # of a plan that the person changed


class QuestionReply(Struct, frozen=True):
    """A person's answer to a question."""

    text: str


class Unclear(Struct, frozen=True):
    """The typed line is no answer; the hint says what would be one."""

    hint: str


Answer: TypeAlias = ApprovalReply | QuestionReply


def read_answer(asked: AskEvent, typed: str) -> Answer | Unclear:
    """Parse the typed line. An empty line never approves anything."""
    if isinstance(asked, e.QuestionAsked):
        return _read_question(asked, typed.strip())
    word, _, rest = typed.strip().partition(" ")
    word = word.lower().rstrip(":,.")
    if word in _NO and "deny" in asked.choices:
        return ApprovalReply("deny", rest.strip()[:REASON_CHARS_MAX])
    if f"{word} " == WITH_CHANGES and asked.action.tool == UPDATE_PLAN:
        steps = tuple(step.strip() for step in rest.split(STEP_MARK.strip()) if step.strip())
        return ApprovalReply("once", steps=steps) if steps else Unclear("Add at least one step.")
    words = answer_words(asked.choices, asked.offers)
    said = " ".join(filter(None, (word, rest.strip().lower())))
    found = words.get("once" if said in _YES else said)
    if found is not None:
        return ApprovalReply(found[0], width=found[1])
    return Unclear("Press y or n or a number, or choose with ↑ ↓ and press Enter. Ctrl-C stops the run.")


def _read_question(asked: e.QuestionAsked, typed: str) -> QuestionReply | Unclear:
    if not typed:
        return Unclear("Type an answer, or press Ctrl-C to stop the run.")
    if typed.isascii() and typed.isdigit() and 1 <= int(typed[:6]) <= len(asked.choices):
        return QuestionReply(asked.choices[int(typed[:6]) - 1])
    return QuestionReply(typed)


async def send_answer(client: "Client", asked: AskEvent, answer: Answer) -> None:
    """Give the server a person's answer; raises Refused if the ask is no longer open."""
    if isinstance(answer, ApprovalReply):
        if answer.steps:
            await client.accept_plan(asked.run_id, ask_id(asked), answer.steps)
            return
        await client.approve(
            asked.run_id, ask_id(asked), choice=answer.choice, reason=answer.reason, width=answer.width
        )
    else:
        await client.answer(asked.run_id, ask_id(asked), answer=answer.text)


async def capabilities(client: "Client") -> "Capabilities | None":
    """Return the server's capabilities; None if it doesn't report them."""
    try:
        return await client.capabilities()
    except (Refused, BadAnswer):
        return None


async def key_scopes(client: "Client") -> Sequence[str]:
    """Return the scopes of the client's key; empty if unknown."""
    found = await capabilities(client)
    return () if found is None else found.auth.scopes


def may_approve(scopes: Sequence[str]) -> bool:
    """Whether a key with these scopes may answer approvals."""
    return not scopes or "approve" in scopes


CANNOT_APPROVE = (
    'Your key can\'t approve this: it lacks the scope "approve". Someone whose key has it must answer.'
)
