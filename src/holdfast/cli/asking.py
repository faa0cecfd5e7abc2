"""Reading a person's answer to an approval or a question: a word that says it, never a bare Enter."""

from dataclasses import dataclass
from typing import TypeAlias

from holdfast import events as e
from holdfast.values import Choice

REASON_CHARS_MAX = 500
_NO = frozenset({"n", "no", "deny", "denied"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision about an action."""

    choice: Choice
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question."""

    text: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """What was typed says nothing; this says what would."""

    hint: str


Answer: TypeAlias = Verdict | Reply | Unclear


def read_answer(asked: e.ApprovalAsked | e.QuestionAsked, typed: str) -> Answer:
    """What the typed line means; only a whole word allows anything."""
    if isinstance(asked, e.QuestionAsked):
        return _reply(asked, typed.strip())
    word, _, rest = typed.strip().partition(" ")
    word = word.lower().rstrip(":,.")
    if word in _NO and "deny" in asked.choices:
        return Verdict("deny", rest.strip()[:REASON_CHARS_MAX])
    for choice in asked.choices:
        if word == choice and not rest.strip():
            return Verdict(choice)
    return Unclear(f"Type one of these words: {', '.join(asked.choices)}. Ctrl-C stops the run.")


def _reply(asked: e.QuestionAsked, typed: str) -> Answer:
    if not typed:
        return Unclear("Type an answer. Ctrl-C stops the run.")
    if typed.isascii() and typed.isdigit() and 1 <= int(typed[:6]) <= len(asked.choices):
        return Reply(asked.choices[int(typed[:6]) - 1])
    return Reply(typed)
