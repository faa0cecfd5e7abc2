"""Small logs, asks and texts, for tests of what becomes of them in a chat."""

from typing import Any

from hypothesis import strategies as st

from holdfast import events as e
from holdfast.features.channels.cards import Card
from holdfast.features.channels.deliveries import PlatformFormat, preview_intent
from holdfast.features.channels.events import (
    ChannelUpdateLogged,
)
from holdfast.features.channels.state import AcceptedMessage, ChannelState, apply_to_channel
from holdfast.features.channels.telegram.carrier import card_fits
from holdfast.folds.run import AskStatus
from holdfast.folds.session_fold import SessionFold
from holdfast.values import Action, Failure

TAKEN = AcceptedMessage("1", "s", "m", "5")
PREVIEW = preview_intent(TAKEN, "r", 2)
SHOWN = e.DeliveryConfirmed(at_ms=3, delivery=PREVIEW.key, platform_id="7")
DIALECT = PlatformFormat(
    count=lambda text: len(text.split("|")) if text else 0, fits=card_fits, lead="!", format=3
)
ID = f"apr_{'0' * 24}"
MARKUP = [
    "<",
    ">",
    "&",
    "<!channel>",
    "<!here|x>",
    "<@U1>",
    "<#C1>",
    "@channel",
    "@everyone",
    "`",
    "*",
    "**",
    "_",
]
MORE = ["[", "](http://x)", "|", "~~", "&lt;", "\\", "#", ":smile:", "😀", "```\n", "\n", "\n\n", "> ", "- "]
SPECIAL = st.sampled_from([*MARKUP, *MORE, "1. ", "    ", "\0", "\ud800"])
ANY_TEXT = st.lists(SPECIAL | st.text(max_size=20), max_size=60).map("".join)


def channel_of(*events: e.Event) -> ChannelState:
    state = ChannelState()
    message = ChannelUpdateLogged(
        at_ms=1,
        key="k",
        became="message",
        chat="1",
        user="u",
        platform_id="5",
        session_id="s",
        message_id="m",
    )
    for seq, event in enumerate([message, *events], 1):
        apply_to_channel(state, seq, event)
    return state


def session_of(text: str, outcome: str = "completed", *, proposals: int = 0) -> SessionFold:
    session = SessionFold()
    failure = Failure(kind="auth", text="no key", hint="Set one.") if outcome == "failed" else None
    log: list[e.Event] = [
        e.SessionCreated(at_ms=1, epoch="e"),
        e.MessageAccepted(at_ms=1, message_id="m", text="hi"),
        e.RunQueued(at_ms=1, run_id="r", message_id="m"),
        e.MessageDispatched(at_ms=1, run_id="r", message_id="m"),
        e.RunStarted(at_ms=1, run_id="r"),
        e.CallStarted(at_ms=1, run_id="r", call_id="c", turn=0),
        e.AttemptStarted(at_ms=1, run_id="r", call_id="c", attempt_id="a1", target="t"),
        *([e.TextDelta(at_ms=1, run_id="r", segment=0, text=text)] if text else []),
        *(event for number in range(proposals) for event in proposing(f"t{number}")),
        e.RunEnded(at_ms=1, run_id="r", outcome=outcome, failure=failure),  # pyright: ignore[reportArgumentType]
    ]
    for seq, event in enumerate(log, 1):
        session.apply(seq, event)
    return session


def proposing(call: str) -> list[e.Event]:
    return [
        e.ToolAsked(at_ms=1, run_id="r", tool_call_id=call, name="remember", args={}),
        e.ToolEnded(at_ms=1, run_id="r", tool_call_id=call, ok=True, result="", proposal=f"r/{call}"),
    ]


def approval(summary: str, **fields: Any) -> AskStatus:
    action = Action(tool="shell", summary=summary, diff=fields.pop("diff", ""), paths=fields.pop("paths", ()))
    asked = e.ApprovalAsked(at_ms=1, run_id="r", approval_id=ID, tool_call_id="c", action=action, **fields)
    return AskStatus(asked)


def question(text: str, *choices: str) -> AskStatus:
    return AskStatus(
        e.QuestionAsked(at_ms=1, run_id="r", question_id="qst", tool_call_id="c", text=text, choices=choices)
    )


def choices_of(card: Card) -> list[str]:
    return [data.rpartition(":")[2] for _, data in card.buttons]
