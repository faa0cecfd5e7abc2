"""What a channel tells people, in words; platforms add their own formatting."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from holdfast import events as e
from holdfast.folds.asks import AskKind
from holdfast.folds.entries import ending_words
from holdfast.folds.run import AskStatus, Run
from holdfast.safe_text import exact, safe
from holdfast.values import Choice

MARK = "(may be a repeat)"
REFUSAL = "Sorry, I don't know you. Ask the person who runs this bot for a pairing code, and send it to me."
PAIRED = "You're paired. Write to me, and the agent answers. /help shows what else I understand."
ALREADY_PAIRED = "You are already paired, so you need no code. This code no longer works."
CODE_WRONG = "This code isn't right, or it has expired. Ask for a new one."
NO_ANSWER = "The agent finished without an answer."
QUEUE_FULL = "Too many messages are waiting. This one was not taken: send it again later, or /stop first."
TOO_LATE_TO_EDIT = "The agent already has this message, so the edit changes nothing. Send a new message."
FILE_TOO_BIG = "This file is too big, so I didn't take it. Files can be up to {mb} MB."
CANNOT_TAKE = (
    "Something went wrong with this message, so the agent didn't get it. The server's log says what."
)
FILE_LOST = "I couldn't fetch this file. Send it again."
SUMMARY_CHARS_MAX = 1_500
DIFF_LINES_MAX = 30
CHOICES: Final[Mapping[Choice, str]] = MappingProxyType(
    {
        "once": "Allow once",
        "session": "Allow in this conversation",
        "always": "Always allow",
        "deny": "Deny",
    }
)
_DECIDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "once": "✓ Allowed once",
        "session": "✓ Allowed in this conversation",
        "always": "✓ Always allowed",
        "deny": "✗ Denied",
    }
)
COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "new": "Start a new conversation",
        "stop": "Stop what the agent is doing",
        "status": "What the agent is doing",
        "queue": "Messages that wait",
        "model": "Show or choose the model",
        "approve": "Allow what the agent asks for",
        "deny": "Refuse what the agent asks for",
        "retry": "Answer the last message again",
        "undo": "Take back the files that the last run changed",
        "help": "What I understand",
    }
)

_COMMAND = re.compile(rf"(?<![\w/])/({'|'.join(COMMANDS)})\b")


@dataclass(frozen=True, slots=True)
class Card:
    """An ask with its buttons: each has a label and the data that a press sends, at most 64 bytes."""

    headline: str
    detail: str = ""  # shown as it is, in a fixed width
    notes: tuple[str, ...] = ()
    buttons: tuple[tuple[str, str], ...] = ()


def with_lead(text: str, lead: str) -> str:
    """Our own words as people of a platform read them, where commands begin with something else than `/`."""
    return text if lead == "/" else _COMMAND.sub(rf"{lead}\1", text)


def help_text() -> str:
    """What /help says, as markdown."""
    lines = "\n".join(f"/{name}: {what}" for name, what in COMMANDS.items())
    return f"Write to me, and the agent answers. While it works, it reads what you write.\n\n{lines}"


def ending_text(run: Run) -> str:
    """How a run ended and what to do, as markdown; empty if its answer says it all."""
    match run.outcome:
        case None | "completed":
            return ""
        case "cancelled":
            return "Stopped." if run.cause in {"user_stop", "removed"} else f"Stopped: {run.cause}."
        case _:
            words = ending_words(run.outcome, run.cause, failure=run.failure)
            hint = run.failure.hint if run.failure is not None else ""
            lines = [f"{words.rstrip('.')}.", hint, "Send /retry to try again."]
            return safe("\n".join(line for line in lines if line))


def button_data(kind: AskKind, ask_id: str, choice: str) -> str:
    """What a button sends: the ask and the choice."""
    return f"{kind[0]}:{ask_id}:{choice}"


def pressed(data: str) -> tuple[str, str] | None:
    """The ask and the choice of a button; None if it isn't one of ours."""
    kind, _, rest = data.partition(":")
    ask_id, _, choice = rest.rpartition(":")
    return (ask_id, choice) if kind in {"a", "q"} and ask_id and choice else None


def card_of(ask: AskStatus) -> Card:
    """The card of an approval or a question, open or decided."""
    asked = ask.asked
    match asked:
        case e.ApprovalAsked():
            card = _approval_card(asked)
        case e.QuestionAsked():
            card = _question_card(asked)
        case _:
            raise AssertionError("a client's tools are no card")
    if ask.state == "open":
        return card
    return Card(card.headline, card.detail, (_decision(ask),))


def _approval_card(asked: e.ApprovalAsked) -> Card:
    action = asked.action
    detail = exact(action.summary)
    if action.diff:
        lines = exact(action.diff).splitlines()
        more = [f"… and {len(lines) - DIFF_LINES_MAX} more lines"] if len(lines) > DIFF_LINES_MAX else []
        detail = "\n".join([detail, *lines[:DIFF_LINES_MAX], *more])
    if len(detail) > SUMMARY_CHARS_MAX:
        detail = detail[:SUMMARY_CHARS_MAX] + "…"
    place = [f"In {', '.join(map(exact, action.paths))}"] if action.paths else []
    notes = [*place, *(exact(one) for one in asked.findings[:5]), exact(asked.once_because)]
    notes.append(f"For /approve and /deny: {asked.approval_id}")
    return Card(
        headline=f"Allow this action? ({exact(action.tool)})"
        + (f" {exact(asked.headline)}" if asked.headline else ""),
        detail=detail,
        notes=tuple(note for note in notes if note),
        buttons=tuple(
            (CHOICES[choice], button_data("approval", asked.approval_id, choice)) for choice in asked.choices
        ),
    )


def _question_card(asked: e.QuestionAsked) -> Card:
    buttons = tuple(
        (exact(choice)[:60], button_data("question", asked.question_id, str(at)))
        for at, choice in enumerate(asked.choices)
    )
    note = "Press a button, or write your answer." if buttons else "Write your answer."
    return Card(headline=safe(asked.text)[:3_000], notes=(note,), buttons=buttons)


def _decision(ask: AskStatus) -> str:
    by = f" by {ask.by}" if ask.by else ""
    match ask.state:
        case "answered" if isinstance(ask.asked, e.ApprovalAsked):
            return f"{_DECIDED.get(ask.answer, ask.answer)}{by}"
        case "answered":
            return f"✓ Answered{by}: {safe(ask.answer)[:500]}"
        case "expired":
            return "✗ Expired: nobody answered in time"
        case _:
            return "✗ No longer needed"
