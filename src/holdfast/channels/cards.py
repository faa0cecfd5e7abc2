"""The cards of approvals and questions: nobody decides on words that they can't see.

A card shows all of what it asks for. If that doesn't fit into one message, it is said in messages above the
card. If those are too many, or one of them didn't arrive, the card offers no consent: what it asks for can
only be denied there, and is decided on the page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from holdfast import events as e
from holdfast.channels.words import button_data
from holdfast.folds.run import AskStatus
from holdfast.safe_text import exact, safe, safe_line
from holdfast.tools.files.edits import NOT_COMPARED
from holdfast.values import Choice

TOO_LONG = "This is too long to show here. Open the page to read all of it and to allow it."
LONG_QUESTION = "This question is too long to show here. Open the page to read all of it."
ABOVE = "All of it is in the message above."
ALL_ABOVE = "All of it is in the {count} messages above."
WORDS_CHARS_MAX = 40_000  # of what is said above a card
SAID_CHARS_MAX = 300  # of what the agent said before it asked
SHORT_CHARS_MAX = 200  # of the headline of a card that is cut
LABEL_CHARS_MAX = 60
LISTED_CHARS_MAX = 1_200  # of all actions in a list, which is one message on every platform
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


@dataclass(frozen=True, slots=True)
class Card:
    """An ask with its buttons: each has a label and the data that a press sends, at most 64 bytes."""

    headline: str
    detail: str = ""  # shown as it is, in a fixed width
    notes: tuple[str, ...] = ()
    buttons: tuple[tuple[str, str], ...] = ()


# Whether a platform shows all of a card in one message, also if that is marked as a possible repeat.
FitsIn: TypeAlias = Callable[[Card], bool]


def about_card(ask: AskStatus, *, head: str, said: str) -> list[str]:
    """What helps to decide, if there is room: where it is from, and what the agent said before it asked."""
    notes = [f"From {safe_line(head)}"] if head else []
    words = _shortened(safe_line(said), SAID_CHARS_MAX)
    return [*notes, f"The agent said: {words}"] if words and isinstance(ask.asked, e.ApprovalAsked) else notes


def card_of(ask: AskStatus, fits: FitsIn, *, above: int = 0, about: Sequence[str] = ()) -> Card:
    """The card of an approval or a question, open or decided, as the platform can show it.

    `above` is the number of messages that are in the chat and say all of it; 0 if that isn't so.
    """
    card = _whole(ask)
    if ask.state != "open":
        decided = Card(card.headline, card.detail, (_decision(ask),))
        return decided if fits(decided) else _cut(decided, fits)
    card = _open_card(ask, card, fits, above=above)
    for note in about:
        noted = replace(card, notes=(*card.notes[:-1], note, *card.notes[-1:]))
        card = noted if fits(noted) else card
    return card


def _open_card(ask: AskStatus, card: Card, fits: FitsIn, *, above: int) -> Card:
    if is_shown_whole(ask, fits):
        return card
    # What was found about an action stays on its card, if there is room; some have more buttons than fit.
    note = ABOVE if above == 1 else ALL_ABOVE.format(count=above)
    all_notes = replace(card, notes=(*card.notes[:-1], note, card.notes[-1]))
    cut = [_cut(one, fits) for one in (all_notes, replace(card, notes=(note, card.notes[-1]))) if above]
    return next((one for one in cut if fits(one)), _cut(_without_consent(ask, card), fits))


def is_shown_whole(ask: AskStatus, fits: FitsIn) -> bool:
    """Whether a card shows everything that this ask is about, so that it can be allowed there."""
    return _is_complete(ask) and fits(_whole(ask))


def full_words(ask: AskStatus) -> str:
    """All that a card would say, as markdown for messages above it; empty if it is too much, or unknown."""
    match ask.asked:
        case e.ApprovalAsked() as asked if _is_complete(ask):
            whole = _approval_card(asked)
            head = f"{asked.approval_id}: {whole.headline}"
            words = _fenced("\n".join([head, whole.detail, *whole.notes[:-1]]))
        case e.QuestionAsked() as asked:
            choices = [f"{at}. {exact(choice)}" for at, choice in enumerate(asked.choices, 1)]
            words = "\n\n".join([safe(asked.text), "\n".join(choices)])
        case _:
            return ""
    return words if len(words) <= WORDS_CHARS_MAX else ""


def listed(asks: Sequence[AskStatus]) -> str:
    """Actions with their ids, each with all of its words, as markdown; those that don't fit are counted."""
    entries: list[str] = []
    left, unlisted = LISTED_CHARS_MAX, 0
    for ask in asks:
        text = _listed_text(ask)
        if _is_complete(ask) and len(text) <= left:
            left -= len(text)
            entries.append(f"`{ask.asked.ask_id}`:\n\n{_fenced(text)}")
        else:
            unlisted += 1
    if unlisted:
        entries.append(f"Too long to list here: {unlisted}. Look at their cards, or open the page.")
    return "\n\n".join(entries)


def several(asks: Sequence[AskStatus], command: str) -> str:
    """What waits, and how to name one of it, as markdown."""
    return f"Press a button, or name what you mean, as in /{command} ID. This waits:\n\n{listed(asks)}"


def is_listed_whole(ask: AskStatus) -> bool:
    """Whether a list can show all of this action."""
    return _is_complete(ask) and len(_listed_text(ask)) <= LISTED_CHARS_MAX


def _whole(ask: AskStatus) -> Card:
    """Everything that the ask is about."""
    match ask.asked:
        case e.ApprovalAsked() as asked:
            return _approval_card(asked)
        case e.QuestionAsked() as asked:
            return _question_card(asked)
        case _:
            raise AssertionError("a client's tools are no card")


def _is_complete(ask: AskStatus) -> bool:
    """Whether the ask itself has all of its words: a change may be too big to compare."""
    return not (isinstance(ask.asked, e.ApprovalAsked) and NOT_COMPARED in ask.asked.action.diff)


def _approval_card(asked: e.ApprovalAsked) -> Card:
    tool = f"({exact(asked.action.tool)})"
    return Card(
        headline=" ".join(filter(None, ("Allow this action?", exact(asked.headline), tool))),
        detail=_detail(asked),
        notes=(*_about(asked), f"For /approve and /deny: {asked.approval_id}"),
        buttons=tuple(_button(asked, choice) for choice in asked.choices),
    )


def _button(asked: e.ApprovalAsked, choice: Choice) -> tuple[str, str]:
    return CHOICES[choice], button_data("approval", asked.approval_id, choice)


def _detail(asked: e.ApprovalAsked) -> str:
    return "\n".join(exact(text).rstrip("\n") for text in (asked.action.summary, asked.action.diff) if text)


def _about(asked: e.ApprovalAsked) -> list[str]:
    """Where it acts, and what was found about it."""
    place = [f"In {', '.join(map(exact, asked.action.paths))}"] if asked.action.paths else []
    return [note for note in (*place, *map(exact, asked.findings), exact(asked.once_because)) if note]


def _question_card(asked: e.QuestionAsked) -> Card:
    """A question; choices that are too long for a button are listed above the buttons."""
    choices = [exact(choice) for choice in asked.choices]
    labels, detail = choices, ""
    if any(len(choice) > LABEL_CHARS_MAX for choice in choices):
        detail = "\n".join(f"{at}. {choice}" for at, choice in enumerate(choices, 1))
        labels = [f"{at}. {choice}"[: LABEL_CHARS_MAX - 1] + "…" for at, choice in enumerate(choices, 1)]
    buttons = tuple(
        (label, button_data("question", asked.question_id, str(at))) for at, label in enumerate(labels)
    )
    note = "Press a button, or write your answer." if buttons else "Write your answer."
    return Card(safe(asked.text), detail, (note,), buttons)


def _without_consent(ask: AskStatus, card: Card) -> Card:
    """The card of something that can't be shown whole: it can only be refused."""
    if isinstance(ask.asked, e.QuestionAsked):
        return Card(card.headline, card.detail, (LONG_QUESTION,))
    assert isinstance(ask.asked, e.ApprovalAsked)
    refusals = tuple(_button(ask.asked, choice) for choice in ask.asked.choices if choice == "deny")
    return Card(card.headline, card.detail, (TOO_LONG, f"For /deny: {ask.asked.approval_id}"), refusals)


def _cut(card: Card, fits: FitsIn) -> Card:
    """As much of the beginning as fits: of the detail, or of the headline if there is none."""
    if fits(card):
        return card
    if not card.detail:
        return _longest(card.headline, lambda text: replace(card, headline=text), fits)
    short = replace(card, headline=_shortened(card.headline, SHORT_CHARS_MAX))
    return _longest(card.detail, lambda text: replace(short, detail=text), fits)


def _longest(text: str, made: Callable[[str], Card], fits: FitsIn) -> Card:
    """The card with the longest beginning of this text that fits."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(made(_shortened(text, middle))) else (low, middle - 1)
    return made(_shortened(text, low))


def _shortened(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[:chars_max]}…"


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


def _listed_text(ask: AskStatus) -> str:
    assert isinstance(ask.asked, e.ApprovalAsked), "only actions are listed"
    return "\n".join([_detail(ask.asked), *_about(ask.asked)])


def _fenced(text: str) -> str:
    """A text as it is, in markdown: nothing in it ends its block."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
