"""Events of a run about the model's context, which hooks can add to: additions, summaries and pins."""

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from holdfast import events as e
from holdfast.features.hooks.events import HookEnded, HookStarted
from holdfast.features.speech.events import AudioTranscribed
from holdfast.features.vision.events import ImageDescribed
from holdfast.values import TrimmedResult

if TYPE_CHECKING:
    from strategies.legal_logs import Writer

CONTEXT: tuple[tuple[type[e.Event], dict[str, Any]], ...] = (
    (e.ContextRead, {"sources": ("the file AGENTS.md",)}),
    (e.ContextSet, {"reason": "first", "instructions": "Be brief.", "parts": {"memory": "b"}}),
    (e.ContextNoted, {"text": "a note", "parts": {"memory": ""}}),
    (HookStarted, {"hook_call_id": "h", "hook": "lint", "on": "before_tool"}),
    (HookEnded, {"hook_call_id": "h", "hook": "lint", "outcome": "finished"}),
    (ImageDescribed, {"blob": "b", "name": "a.png", "text": "a sign", "target": "eye"}),
    (ImageDescribed, {"blob": "b", "name": "a.png", "failure": "late"}),
    (AudioTranscribed, {"blob": "b", "name": "a.ogg", "text": "hello", "by": "whisper", "ms": 9}),
    (AudioTranscribed, {"blob": "b", "name": "a.ogg", "failure": "late"}),
)


def compact(writer: "Writer") -> None:
    """A summary takes the place of what came before, or there is none."""
    if (run := writer.running()) is None:
        return
    if writer.draw(st.integers(0, 4)) == 0:
        writer.put(e.ContextCompactionFailed, run_id=run.run_id, failure="no one wrote it", tokens=9)
        return
    ids = [run.message_id, *writer.runs]
    pinned = tuple(writer.draw(st.lists(st.sampled_from(ids), max_size=2, unique=True)))
    upto_seq = writer.draw(st.integers(0, writer.seq))
    fields = {"upto_seq": upto_seq, "summary": "so far", "pinned": pinned}
    writer.put(e.ContextCompacted, run_id=run.run_id, **fields)


def trim(writer: "Writer") -> None:
    """Results are removed, perhaps of calls that there are none of."""
    if (run := writer.running()) is not None:
        ended = [
            TrimmedResult(run_id=one.run_id, tool_call_id=tool_call_id)
            for one in writer.runs.values()
            for tool_call_id, state in one.tools.items()
            if state == "ended"
        ]
        unknown = TrimmedResult(run_id="gone", tool_call_id="t")
        results = writer.draw(st.lists(st.sampled_from([*ended, unknown]), min_size=1, max_size=3))
        writer.put(e.ContextTrimmed, run_id=run.run_id, results=tuple(results))


def revert(writer: "Writer") -> None:
    """Someone undoes a compaction or trimming, or one that there is none of."""
    changed = [seq for seq, event in writer.log if isinstance(event, e.ContextCompacted | e.ContextTrimmed)]
    writer.put(e.ContextReverted, reverted_seq=writer.draw(st.sampled_from([*changed, 1])))


def pin(writer: "Writer") -> None:
    """Someone pins a message or an answer, or unpins it."""
    kind = writer.draw(st.sampled_from((e.MessagePinned, e.MessageUnpinned)))
    if run_id := writer.pick(list(writer.runs)):
        message_id = writer.runs[run_id].message_id
        fields = writer.draw(st.sampled_from(({"message_id": message_id}, {"answer_of": run_id})))
        writer.put(kind, **fields)
