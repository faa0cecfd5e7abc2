"""The acts of the tour: what goes wrong in each, as scripts of the misbehaving model."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from holdfast.chaos import CallTool, Drop, Hang, SayWords, Script, SeenRequest, rate_limited_s
from holdfast.host.demo_model import last_said

CHILD_S = 4242  # a number that no other sleeping process has
WHOLE = "The capital of Portugal is Lisbon, and you are reading the whole of this answer."
HALF = "The capital of Portugal is"
LONG = (
    "This is a long answer, and in the middle of it the server is killed with signal 9. It gets no chance "
    "to finish anything first. Every word you have seen was on disk before you saw it, so the next process "
    "reads the log, finds a run that hasn't ended, and continues it. The half answer stays in the log, "
    "this one replaces it, and the client that was cut off resumes at its cursor and misses nothing."
)


class Pace(Struct, frozen=True, kw_only=True):
    """How fast the tour goes: the watchdogs' patience, and how quickly the model answers."""

    first_event_s: float
    word_s: float
    limit_s: int
    words_before_kill: int


CALM = Pace(first_event_s=4, word_s=0.06, limit_s=3, words_before_kill=25)
FAST = Pace(first_event_s=1, word_s=0.005, limit_s=1, words_before_kill=10)


class Act(Struct, frozen=True, kw_only=True):
    """One thing that goes wrong."""

    said: str
    title: str
    happens: str


STALL = Act(
    said="What is the capital of Portugal?",
    title="A stalled first byte",
    happens="The provider accepts the connection and then sends nothing.",
)
DROP = Act(
    said="Once more: the capital of Portugal?",
    title="A dropped stream",
    happens="The connection is reset in the middle of the answer.",
)
LIMIT = Act(
    said="And again, please.",
    title="429: too many requests",
    happens="The provider rejects the request and says when to retry.",
)
STOP = Act(
    said="Please wait for an hour.",
    title="A stop, with a child process running",
    happens="The model starts a program that would run for an hour. A person presses stop.",
)
CRASH = Act(
    said="Tell me something long.",
    title="kill -9 in the middle of an answer",
    happens="The whole server is killed without warning and started again.",
)
ACTS = (STALL, DROP, LIMIT, STOP, CRASH)


class TourScripts:
    """The misbehaving model: what it does depends on the client, the question, and how often it was asked."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._times: dict[tuple[str, str], int] = {}

    def __call__(self, request: SeenRequest) -> Script:
        """The script for one request."""
        said = last_said(request)
        key = (request.model, said)
        nth = self._times[key] = self._times.get(key, 0) + 1
        return SCRIPTS[said](self._pace, nth) if said in SCRIPTS else [SayWords(WHOLE, self._pace.word_s)]


def _first_then(first: Callable[[Pace], Script], then: str) -> Callable[[Pace, int], Script]:
    return lambda pace, nth: first(pace) if nth == 1 else [SayWords(then, pace.word_s)]


SCRIPTS: Mapping[str, Callable[[Pace, int], Script]] = MappingProxyType(
    {
        STALL.said: _first_then(lambda _: [Hang()], WHOLE),
        DROP.said: _first_then(lambda pace: [SayWords(HALF, pace.word_s), Drop()], WHOLE),
        LIMIT.said: _first_then(lambda pace: [rate_limited_s(pace.limit_s)], WHOLE),
        STOP.said: lambda pace, _: [
            SayWords("I'll start a program that takes an hour.", pace.word_s),
            CallTool("shell", {"command": f"sleep {CHILD_S}"}),
        ],
        # Slowly at first, so that the kill comes in the middle of the answer.
        CRASH.said: lambda pace, nth: [SayWords(LONG, 0.1 if nth == 1 else pace.word_s)],
    }
)
