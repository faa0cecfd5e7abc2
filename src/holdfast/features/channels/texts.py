"""Texts for people in chats. Platforms add their own formatting."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from holdfast.catalog import FEATURES
from holdfast.folds.asks import AskKind
from holdfast.folds.entries import ending_words
from holdfast.folds.run import Run
from holdfast.safe_text import safe

MARK = "(may be a repeat)"
REFUSAL = "You don't have access to this bot. Ask its owner for a pairing code and send it here."
PAIRED = "You're paired. Send a message to talk to the agent, or /help to list commands."
ALREADY_PAIRED = "You're already paired. The code has been voided."
CODE_WRONG = "This code is wrong or expired. Ask for a new one."
NO_ANSWER = "The agent finished without an answer."
QUEUE_FULL = "The queue is full, so this message wasn't accepted. Resend it later, or send /stop first."
TOO_LATE_TO_EDIT = "The agent already read this message, so the edit has no effect. Send a new message."
TAKEN_OUT = "Your deleted message was removed from the queue."
TOO_LATE_TO_DELETE = "The agent already read the message you deleted. To stop the agent, send /stop."
TEXT_TOO_LONG = (
    "This message is too long, so it wasn't accepted. The limit is {chars:,} characters. Send it as a file."
)
EDIT_OF_OTHER = "Edits to this message have no effect. Send a new message."
EDIT_TOO_LONG = "This edit is too long, so the message is unchanged. The limit is {chars:,} characters."
DELETED = "This conversation was deleted, along with its queued messages. Resend any you still need."
FILE_TOO_BIG = "This file is too large. The limit is {mb} MB."
NOT_ACCEPTED = "An internal error occurred, so this message wasn't accepted. See the server's log."
FILE_LOST = "Couldn't fetch this file. Send it again."
PRESS, TYPE = "Press a button or type your answer.", "Type your answer."
_DIGITS: Final[Mapping[str, int]] = MappingProxyType({"once": 1, "session": 2, "always": 3, "deny": 4})
_DIGITS_MAX = 9
_CODE = re.compile(r"([A-Z]{1,4})([1-9])")
COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "new": "Start a new conversation",
        "stop": "Stop the agent",
        "status": "Show the agent's status",
        "queue": "List queued messages",
        "model": "Show or choose the model",
        "mode": "Show or set the permission mode",
        "home": "Send results to this chat",
        "approve": "Approve a request",
        "deny": "Deny a request",
        "retry": "Run the last message again",
        **{
            name: command.help
            for feature in FEATURES.values()
            for name, command in feature.messenger_commands.items()
        },
        "help": "List commands",
    }
)

_COMMAND = re.compile(rf"(?<![\w/])/({'|'.join(COMMANDS)})\b")


def with_lead(text: str, lead: str) -> str:
    """Adapt our texts to a platform with another command prefix than `/`."""
    return text if lead == "/" else _COMMAND.sub(rf"{lead}\1", text)


def help_text() -> str:
    """Return the text of /help, as markdown."""
    lines = "\n".join(f"/{name}: {what}" for name, what in COMMANDS.items())
    return f"Send a message to talk to the agent. You can also send messages while it works.\n\n{lines}"


def ending_text(run: Run, *, can_retry: bool = True) -> str:
    """Describe how a run ended and the next step, as markdown; "" if the answer is enough.

    `can_retry` is whether /retry applies to this run in the chat.
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
    """Describe how to review the run's proposals, as markdown; "" if there are none."""
    count = sum(1 for call in run.tools.values() if call.ended is not None and call.ended.proposal)
    if not count:
        return ""
    what = (
        "A proposed memory or skill is waiting"
        if count == 1
        else (f"{count} proposed memories or skills are waiting")
    )
    return f"{what} for your review: open the inbox on the page, or run `holdfast memory show`."


def _ended(run: Run) -> str:
    assert run.outcome is not None, "it has ended"
    return ending_words(run.outcome, run.cause, failure=run.failure).rstrip(".")


def button_data(kind: AskKind, ask_id: str, choice: str) -> str:
    """Encode the request and the choice of a button."""
    return f"{kind[0]}:{ask_id}:{choice}"


def code_of(number: int, data: str) -> str:
    """Return the code for a button of a chat's card with this number; empty if it has none."""
    choice = data.rpartition(":")[2]
    digit = _DIGITS.get(choice) or (int(choice) + 1 if choice.isdecimal() else 0)
    if not number or not 0 < digit <= _DIGITS_MAX:
        return ""
    letters = ""
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{digit}"


def coded(text: str) -> tuple[int, int] | None:
    """Return the number of the card and the digit of the choice that a reply names; None if it's no code."""
    found = _CODE.fullmatch(text.strip().upper())
    if found is None:
        return None
    number = 0
    for letter in found[1]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number, int(found[2])


def choice_of(kind: AskKind, digit: int) -> str:
    """Return the choice that a code's digit stands for; empty if there is none."""
    if kind == "question":
        return str(digit - 1)
    return next((choice for choice, known in _DIGITS.items() if known == digit), "")


def pressed(data: str) -> tuple[str, str] | None:
    """Decode the request and the choice of a button; None if it isn't ours."""
    kind, _, rest = data.partition(":")
    ask_id, _, choice = rest.rpartition(":")
    return (ask_id, choice) if kind in {"a", "q"} and ask_id and choice else None
