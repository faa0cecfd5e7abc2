"""A log written line by line, for tests that tell a story: ids and times are made up as it goes."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from holdfast import events as e
from holdfast.codec import encode
from holdfast.folds.entries import (
    AskCard,
    Ending,
    Entry,
    Notice,
    Person,
    Text,
    Thinking,
    ToolCard,
)
from holdfast.folds.transcript import Transcript, fold
from holdfast.values import Failure, HistoryMessage, Mode, OutcomeKind
from strategies.legal_logs import Log

FAILURE = Failure(kind="stalled", text="no events for 60 s after first byte")


@dataclass(slots=True)
class Scene:
    """`run_id` is the run that the next events belong to."""

    log: Log = field(default_factory=Log)
    seq: int = 0
    ms: int = 1_000
    run_id: str = ""
    calls: int = 0
    attempts: int = 0

    def put(self, kind: Callable[..., e.Event], **fields: object) -> int:
        """Appends an event and says at which seq."""
        self.seq += 1
        self.ms += 100
        self.log.append((self.seq, kind(at_ms=self.ms, **fields)))
        return self.seq

    def of_run(self, kind: Callable[..., e.Event], **fields: object) -> int:
        return self.put(kind, run_id=self.run_id, **fields)

    def send(self, text: str, *, run_id: str, history: tuple[HistoryMessage, ...] | None = None) -> None:
        """A message that starts a run at once; its id is that of the run with an m for an r."""
        message_id = "m" + run_id[1:]
        self.put(e.MessageAccepted, message_id=message_id, text=text)
        self.put(e.RunQueued, run_id=run_id, message_id=message_id, history=history)
        self.begin(run_id)

    def begin(self, run_id: str) -> None:
        """The run takes up its message and starts."""
        self.run_id = run_id
        self.of_run(e.MessageDispatched, message_id="m" + run_id[1:])
        self.of_run(e.RunStarted, target="alpha")

    def say_while_busy(self, text: str, *, message_id: str, mode: Mode) -> None:
        self.put(e.MessageAccepted, message_id=message_id, text=text, mode=mode, run_id=self.run_id)

    def stops_while_it_waits(self, text: str, *, run_id: str) -> None:
        """A message whose run is stopped behind the one under way."""
        message_id = "m" + run_id[1:]
        self.put(e.MessageAccepted, message_id=message_id, text=text, mode="queue")
        self.put(e.RunQueued, run_id=run_id, message_id=message_id)
        self.put(e.StopRequested, run_id=run_id)
        self.put(e.RunEnded, run_id=run_id, outcome="cancelled", cause="user_stop")

    def call(self, *, purpose: str = "answer", target: str = "alpha") -> None:
        self.calls += 1
        self.of_run(e.CallStarted, call_id=f"c{self.calls}", turn=self.calls, purpose=purpose)
        self.attempt(target=target)

    def attempt(self, *, target: str = "alpha") -> str:
        self.attempts += 1
        attempt_id = f"a{self.attempts}"
        self.of_run(e.AttemptStarted, call_id=f"c{self.calls}", attempt_id=attempt_id, target=target)
        return attempt_id

    def stalls(self) -> None:
        """The attempt under way fails and its text is superseded."""
        attempt_id = f"a{self.attempts}"
        self.of_run(e.AttemptFailed, attempt_id=attempt_id, failure=FAILURE, close_reason="stream_idle_kill")
        self.of_run(e.AttemptSuperseded, attempt_id=attempt_id)

    def pieces(self, *pieces: str, segment: int = 0) -> None:
        for piece in pieces:
            self.of_run(e.TextDelta, segment=segment, text=piece)

    def text(self, text: str, *, segment: int = 0) -> None:
        """A whole stretch of the answer."""
        self.pieces(text, segment=segment)
        self.of_run(e.TextDone, segment=segment, text=text)

    def thinks(self, text: str, *, segment: int = 0, opaque: dict[str, str] | None = None) -> None:
        self.of_run(e.ReasoningDelta, segment=segment, text=text)
        self.of_run(e.ReasoningDone, segment=segment, text=text, opaque=opaque or {})

    def asks_tool(self, tool_call_id: str, name: str = "shell", **args: object) -> None:
        self.of_run(e.ToolAsked, tool_call_id=tool_call_id, name=name, args=args)

    def starts_tool(self, tool_call_id: str) -> None:
        self.of_run(e.ToolStarted, tool_call_id=tool_call_id, effect_key=f"key-{tool_call_id}")

    def ends_tool(self, tool_call_id: str, result: str, *, ok: bool = True, ending: str = "finished") -> None:
        self.of_run(e.ToolEnded, tool_call_id=tool_call_id, ok=ok, result=result, ending=ending, ms=12)

    def tool(self, tool_call_id: str, result: str) -> None:
        """A tool call from its asking to its ending."""
        self.asks_tool(tool_call_id)
        self.starts_tool(tool_call_id)
        self.ends_tool(tool_call_id, result)

    def ends(
        self,
        outcome: OutcomeKind = "completed",
        *,
        cause: str = "",
        failure: Failure | None = None,
        trace: tuple[str, ...] = (),
    ) -> None:
        self.of_run(e.RunEnded, outcome=outcome, cause=cause, failure=failure, trace=trace)

    def recovered(self, *late: tuple[Callable[..., e.Event], dict[str, object]]) -> None:
        """Output that became readable after the run's ending."""
        made = [kind(at_ms=self.ms, run_id=self.run_id, **fields) for kind, fields in late]
        self.of_run(e.OutputRecovered, events=tuple(msgspec.Raw(encode(event)) for event in made))


def begun() -> Scene:
    """A run in its first call."""
    scene = Scene()
    scene.send("hi", run_id="r1")
    scene.call()
    return scene


def lines(transcript: Transcript) -> list[str]:
    """Each entry as one short line."""
    return [_line(entry) for entry in transcript.entries]


def _line(entry: Entry) -> str:
    match entry:
        case Person():
            return f"> {entry.message.text}"
        case Text():
            return entry.text
        case Thinking():
            return f"({entry.text})"
        case ToolCard():
            return f"[{entry.tool_call_id} {entry.state} {entry.result}]"
        case AskCard():
            return f"? {entry.ask_id} {entry.state}"
        case Notice():
            return f"! {entry.notice}"
        case Ending():
            return f"= {entry.outcome}"


def told(scene: Scene) -> list[str]:
    """The lines of the scene's transcript."""
    return lines(fold(scene.log))
