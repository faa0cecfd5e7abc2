"""The hermes view as a pure function: every event that hermes has a word for."""

from holdfast import events as e
from holdfast.codec import encode
from holdfast.folds.session_fold import RESTARTED, RunReplay, SessionFold
from holdfast.model_events import LONG_CHARS
from holdfast.server.runs.run_report import preview
from holdfast.server.streams.hermes import OUTPUT_BYTES_MAX, frame_of, milestone_of, shortened, sse
from holdfast.values import Action, ChildUsage, Failure, OutcomeKind
from scene import Scene, begun


def frames_of(scene: Scene) -> list[dict[str, object]]:
    replay, shared = RunReplay("r1"), SessionFold()
    found: list[dict[str, object]] = []
    for seq, event in scene.log:
        shared.apply(seq, event)
        run = replay.apply(seq, event)
        if run is None:
            continue
        frame = frame_of(event, run)
        assert frame == frame_of(event, shared.runs["r1"]), "a replay shows what the shared fold showed"
        assert milestone_of(run) == milestone_of(shared.runs["r1"])
        found += [frame] if frame is not None else []
    return found


def names(scene: Scene) -> list[object]:
    return [frame["event"] for frame in frames_of(scene)]


def test_a_plain_answer() -> None:
    scene = begun()
    scene.thinks("hm")
    scene.text("hello")
    scene.of_run(e.Usage, call_id="c1", input_tokens=3, output_tokens=2, cost_usd=0.5)
    scene.ends()
    assert names(scene) == [
        "run.queued",
        "run.started",
        "reasoning.delta",
        "reasoning.available",
        "message.delta",
        "run.completed",
    ]
    last = frames_of(scene)[-1]
    assert last["output"] == "hello"
    assert last["usage"] == {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, "cost_usd": 0.5}


def test_tools_carry_their_name_arguments_and_result() -> None:
    scene = begun()
    scene.asks_tool("t1", "shell", command="ls -l")
    scene.starts_tool("t1")
    scene.ends_tool("t1", "files", ok=False)
    started, completed = frames_of(scene)[2:]
    assert (started["tool"], started["preview"], started["args"]) == ("shell", "ls -l", {"command": "ls -l"})
    assert (completed["tool"], completed["error"], completed["duration"]) == ("shell", True, 0.012)
    assert completed["result"] == "files"


def test_asks_and_their_ends() -> None:
    scene = begun()
    scene.asks_tool("t1")
    action = Action(tool="shell", summary="rm -r build")
    scene.of_run(e.ApprovalAsked, approval_id="a1", tool_call_id="t1", action=action, expires_at_ms=9_000)
    scene.put(e.ApprovalAnswered, run_id="r1", approval_id="a1", choice="once")
    scene.of_run(e.ApprovalAsked, approval_id="a2", tool_call_id="t1", action=action)
    scene.of_run(e.ApprovalExpired, approval_id="a2")
    scene.of_run(e.QuestionAsked, question_id="q1", tool_call_id="t1", text="Which?")
    scene.put(e.QuestionAnswered, run_id="r1", question_id="q1", answer="this")
    assert names(scene)[2:] == [
        "approval.request",
        "approval.responded",
        "approval.request",
        "approval.expired",
        "question.request",
        "question.responded",
    ]
    asked = frames_of(scene)[2]
    assert (asked["command"], asked["expires_at"]) == ("rm -r build", 9.0)


def test_every_outcome_has_its_terminal_frame() -> None:
    failure = Failure(kind="dropped", text="cut off")
    expected: tuple[tuple[OutcomeKind, str, str | None], ...] = (
        ("completed", "run.completed", None),
        ("refused", "run.completed", None),
        ("truncated", "run.failed", "truncated"),
        ("budget", "run.failed", "budget"),
        ("failed", "run.failed", "dropped"),
        ("interrupted", "run.failed", "interrupted"),
        ("cancelled", "run.cancelled", None),
    )
    for outcome, name, code in expected:
        scene = begun()
        scene.text("half")
        scene.ends(outcome, cause=code or "", failure=failure if outcome == "failed" else None)
        last = frames_of(scene)[-1]
        assert (last["event"], last.get("code"), last["output"]) == (name, code, "half"), outcome
        assert (last.get("finish_reason") == "refusal") == (outcome == "refused")


def test_a_steer_and_a_resumption_are_told() -> None:
    scene = begun()
    scene.say_while_busy("also this", message_id="m9", mode="steer")
    scene.of_run(e.RunResumed, after="restart")
    scene.of_run(e.MessageDispatched, message_id="m9")
    assert names(scene)[2:] == ["run.resumed", "run.steered"]


def test_a_sub_agent_begins_and_ends_with_its_task_and_its_answer() -> None:
    scene = begun()
    scene.asks_tool("t1", "delegate", task="Look at the logs")
    scene.starts_tool("t1")
    ids = {"child_id": "c", "child_run_id": "cr", "message_id": "cm"}
    scene.of_run(e.ChildStarted, tool_call_id="t1", name="agent-1", **ids)
    used = ChildUsage(input_tokens=10, output_tokens=5)
    scene.put(e.ChildEnded, run_id="r1", child_id="c", outcome="budget", result="Half of it.", used=used)
    started, ended = frames_of(scene)[-2:]
    assert started["event"] == "subagent.start"
    assert (started["goal"], started["subagent_id"]) == ("Look at the logs", "agent-1")
    assert ended["event"] == "subagent.complete"
    assert (ended["status"], ended["summary"], ended["input_tokens"]) == ("failed", "Half of it.", 10)
    assert ended["child_session_id"] == started["child_session_id"] == "c"


def said(*steps: object) -> str:
    """What a reader has in the end; text is a delta, None supersedes the attempt under way."""
    replay, seen, attempt, segment = RunReplay("r"), "", 0, 0
    events: list[e.Event] = [
        e.RunQueued(at_ms=1, run_id="r", message_id="m"),
        e.RunStarted(at_ms=1, run_id="r"),
    ]
    call_id = "c"
    for step in (e.CallStarted(at_ms=1, run_id="r", call_id="c", turn=1), *steps):
        match step:
            case None:
                events.append(e.AttemptSuperseded(at_ms=1, run_id="r", attempt_id=f"a{attempt}"))
            case e.Event():
                events.append(step)
            case _:
                events.append(e.TextDelta(at_ms=1, run_id="r", segment=segment, text=str(step)))
        if isinstance(step, e.CallStarted):
            call_id = step.call_id
        if step is None or isinstance(step, e.CallStarted):
            attempt, segment = attempt + 1, segment + 1
            events.append(
                e.AttemptStarted(
                    at_ms=1,
                    run_id="r",
                    call_id=call_id,
                    attempt_id=f"a{attempt}",
                    target="t",
                    model="m",
                    nth=1,
                )
            )
    for seq, event in enumerate(events, 1):
        run = replay.apply(seq, event)
        seen += run.added_text if run else ""
    return seen


DONE = e.CallEnded(at_ms=1, run_id="r", call_id="c", finish="stop")
AGAIN = e.CallStarted(at_ms=1, run_id="r", call_id="d", turn=1)


def test_text_is_only_ever_added_to() -> None:
    assert said("hel", None, "hel", "lo", DONE) == "hello"
    assert said("hel", None, "h", "e", "l", "l", "o", DONE) == "hello"
    assert said("hel", None, "hello", DONE) == "hello"
    assert said("hel", None, "hex", DONE) == f"hel{RESTARTED}hex"
    assert said("hello", None, "hel", DONE) == f"hello{RESTARTED}hel"
    assert said("hel", None, "he", None, "hello", DONE) == "hello"
    assert said("hel", None, "hax", None, "hax!", DONE) == f"hel{RESTARTED}hax!"
    assert said("hel", None, AGAIN, "hello", DONE) == "hello"
    assert said("one", DONE, AGAIN, "two", DONE) == "onetwo"
    assert said(e.CallStarted(at_ms=1, run_id="r", call_id="t", turn=1, purpose="title"), "T") == ""


def test_after_a_text_too_long_to_compare_the_answer_restarts_in_any_case() -> None:
    half = "x" * (LONG_CHARS // 2 + 1)
    long = half + half
    assert said(half, half, None, half, half, DONE) == f"{long}{RESTARTED}{long}"
    assert said(half, half, None, AGAIN, "short", DONE) == f"{long}{RESTARTED}short"
    assert said(half, half, None, None, "a", "b", DONE) == f"{long}{RESTARTED}ab"
    assert said(half, half, None, DONE) == f"{long}{RESTARTED}"
    assert said(long, DONE, AGAIN, "two", DONE) == f"{long}two"


def test_a_line_is_never_too_long() -> None:
    frame = {"event": "tool.completed", "result": "\x00" * 60_000, "args": {"a": "x" * 200_000}}
    line = sse(7, "r1", at_ms=5, frame=frame)
    assert len(line) < 128 * 1024
    assert line.startswith(b'id: 7\ndata: {"event":"tool.completed","run_id":"r1","timestamp":0.005,"seq":7,')
    short = shortened(frame)
    assert short["result_truncated"]
    assert short["args_truncated"]
    small = {"event": "tool.completed", "result": "ok"}
    assert shortened(small) == small
    assert len(encode(e.TextDelta(at_ms=1, run_id="r", segment=1, text="x" * 16_384))) < OUTPUT_BYTES_MAX


def test_a_preview_is_one_line() -> None:
    assert preview({"path": "a\n b"}) == "a b"
    assert preview({"n": 1}) == '{"n":1}'
    assert preview({}) == ""
