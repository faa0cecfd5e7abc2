"""What a channel tells people, in words; platforms add their own formatting."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from holdfast.folds.asks import AskKind
from holdfast.folds.entries import ending_words
from holdfast.folds.run import Run
from holdfast.safe_text import safe

MARK = "(may be a repeat)"
REFUSAL = "Sorry, I don't know you. Ask the person who runs this bot for a pairing code, and send it to me."
PAIRED = "You're paired. Write to me, and the agent answers. /help shows what else I understand."
ALREADY_PAIRED = "You are already paired, so you need no code. This code no longer works."
CODE_WRONG = "This code isn't right, or it has expired. Ask for a new one."
NO_ANSWER = "The agent finished without an answer."
QUEUE_FULL = "Too many messages are waiting. This one was not taken: send it again later, or /stop first."
TOO_LATE_TO_EDIT = "The agent already has this message, so the edit changes nothing. Send a new message."
TAKEN_OUT = "You deleted a message that still waited, so the agent doesn't get it."
TOO_LATE_TO_DELETE = (
    "The agent already has the message that you deleted, so that changes nothing. /stop stops the agent."
)
TEXT_TOO_LONG = (
    "This message is too long, so the agent didn't get it. Messages can have up to {chars:,} characters. "
    "Send it as a file."
)
EDIT_OF_OTHER = "Edits of this message change nothing. Send a new message."
EDIT_TOO_LONG = (
    "This edit is too long, so the message stays as it was. Messages can have up to {chars:,} characters."
)
DELETED = "This conversation was deleted, so messages that were still waiting get no answer. Send them again."
FILE_TOO_BIG = "This file is too big, so I didn't take it. Files can be up to {mb} MB."
CANNOT_TAKE = (
    "Something went wrong with this message, so the agent didn't get it. The server's log says what."
)
FILE_LOST = "I couldn't fetch this file. Send it again."
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
        "undo": "Undo the last run that changed files",
        "help": "What I understand",
    }
)

_COMMAND = re.compile(rf"(?<![\w/])/({'|'.join(COMMANDS)})\b")


def with_lead(text: str, lead: str) -> str:
    """Our own words as people of a platform read them, where commands begin with something else than `/`."""
    return text if lead == "/" else _COMMAND.sub(rf"{lead}\1", text)


def help_text() -> str:
    """What /help says, as markdown."""
    lines = "\n".join(f"/{name}: {what}" for name, what in COMMANDS.items())
    return f"Write to me, and the agent answers. While it works, it reads what you write.\n\n{lines}"


def ending_text(run: Run, *, can_retry: bool = True) -> str:
    """How a run ended and what to do, as markdown; empty if its answer says it all.

    `can_retry` says whether /retry means this run where the text is read.
    """
    match run.outcome:
        case None | "completed":
            return ""
        case "cancelled":
            return "Stopped." if run.cause in {"user_stop", "removed"} else f"{_ended(run)}."
        case _:
            hint = run.failure.hint if run.failure is not None else ""
            lines = [f"{_ended(run)}.", hint, "Send /retry to try again." if can_retry else ""]
            return safe("\n".join(line for line in lines if line))


def proposal_text(run: Run) -> str:
    """How to accept what the run proposed to remember or learn, as markdown; empty if it proposed nothing."""
    count = sum(1 for call in run.tools.values() if call.ended is not None and call.ended.proposal)
    if not count:
        return ""
    what = "A proposed memory or skill waits" if count == 1 else f"{count} proposed memories or skills wait"
    return f"{what} for your decision: open the inbox on the page, or run `holdfast memory show`."


def _ended(run: Run) -> str:
    assert run.outcome is not None, "it has ended"
    return ending_words(run.outcome, run.cause, failure=run.failure).rstrip(".")


def button_data(kind: AskKind, ask_id: str, choice: str) -> str:
    """What a button sends: the ask and the choice."""
    return f"{kind[0]}:{ask_id}:{choice}"


def pressed(data: str) -> tuple[str, str] | None:
    """The ask and the choice of a button; None if it isn't one of ours."""
    kind, _, rest = data.partition(":")
    ask_id, _, choice = rest.rpartition(":")
    return (ask_id, choice) if kind in {"a", "q"} and ask_id and choice else None
