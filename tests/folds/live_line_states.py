"""The live line's table for tests: for each state the events that lead to it, and what people then read."""

from dataclasses import dataclass

from holdfast import events as e
from holdfast.values import Action, Failure

RUN = "run_1"
MESSAGE = e.MessageAccepted(at_ms=0, message_id="m1", text="hello")
QUEUED = e.RunQueued(at_ms=0, run_id=RUN, message_id="m1")
STARTED = e.RunStarted(at_ms=1000, run_id=RUN)
CALL = e.CallStarted(at_ms=1000, run_id=RUN, call_id="c1", turn=1)
SUMMARY = e.CallStarted(at_ms=2000, run_id=RUN, call_id="c1", turn=1, purpose="compaction")
ATTEMPT = e.AttemptStarted(
    at_ms=1000, run_id=RUN, call_id="c1", attempt_id="a1", target="main", model="gpt-x"
)
OTHER = e.AttemptStarted(at_ms=2000, run_id=RUN, call_id="c1", attempt_id="a2", target="spare", model="")
FAILED = e.AttemptFailed(
    at_ms=2000,
    run_id=RUN,
    attempt_id="a1",
    failure=Failure(kind="overloaded", text="no"),
    close_reason="peer",
)
SUPERSEDED = e.AttemptSuperseded(at_ms=3000, run_id=RUN, attempt_id="a1")
GATED = e.CallGated(at_ms=2000, run_id=RUN, call_id="c1", until_ms=60_000, target="main")
THOUGHT = e.ReasoningDelta(at_ms=2000, run_id=RUN, segment=0, text="hm")
THOUGHT_DONE = e.ReasoningDone(at_ms=2000, run_id=RUN, segment=0, text="hm")
WORD = e.TextDelta(at_ms=2000, run_id=RUN, segment=1, text="a")
TEXT_DONE = e.TextDone(at_ms=2000, run_id=RUN, segment=1, text="a")
USED = e.Usage(at_ms=2000, run_id=RUN, call_id="c1")
COMPACTED = e.ContextCompacted(at_ms=3000, run_id=RUN, upto_seq=1, summary="s")
SHELL = e.ToolAsked(at_ms=2000, run_id=RUN, tool_call_id="t1", name="shell", args={"command": "make test"})
READ = e.ToolAsked(at_ms=2000, run_id=RUN, tool_call_id="t2", name="read_file", args={"path": "a.py"})
CALL_ENDED = e.CallEnded(at_ms=2000, run_id=RUN, call_id="c1", finish="tools")
RUNS = e.ToolStarted(at_ms=3000, run_id=RUN, tool_call_id="t1", effect_key="k1")
READS = e.ToolStarted(at_ms=4000, run_id=RUN, tool_call_id="t2", effect_key="k2")
SAYS = e.ToolOutput(at_ms=4000, run_id=RUN, tool_call_id="t1", text="ok\n")
RAN = e.ToolEnded(at_ms=5000, run_id=RUN, tool_call_id="t1", ok=True, result="ok")
HAS_READ = e.ToolEnded(at_ms=5000, run_id=RUN, tool_call_id="t2", ok=True, result="ok")
MAY_IT = e.ApprovalAsked(
    at_ms=2000, run_id=RUN, approval_id="apr_1", tool_call_id="t1", action=Action(tool="shell", summary="s")
)
MAY_IT_READ = e.ApprovalAsked(
    at_ms=2000, run_id=RUN, approval_id="apr_2", tool_call_id="t2", action=Action(tool="read", summary="s")
)
YES = e.ApprovalAnswered(at_ms=2500, run_id=RUN, approval_id="apr_1", choice="once")
NO = e.ApprovalAnswered(at_ms=2500, run_id=RUN, approval_id="apr_1", choice="deny")
NOBODY = e.ApprovalExpired(at_ms=2500, run_id=RUN, approval_id="apr_1")
WITHDRAWN = e.ApprovalWithdrawn(at_ms=2500, run_id=RUN, approval_id="apr_1", cause="user_stop")
WHICH = e.QuestionAsked(at_ms=2000, run_id=RUN, question_id="que_1", tool_call_id="t3", text="Which?")
WHICH_TOOL = e.QuestionAsked(at_ms=3500, run_id=RUN, question_id="que_1", tool_call_id="t1", text="Which?")
THIS = e.QuestionAnswered(at_ms=3600, run_id=RUN, question_id="que_1", answer="this")
TOO_LATE = e.QuestionExpired(at_ms=3600, run_id=RUN, question_id="que_1")
NO_MORE = e.QuestionWithdrawn(at_ms=3600, run_id=RUN, question_id="que_1", cause="user_stop")
YOURS = e.ClientToolsAsked(at_ms=2000, run_id=RUN, client_tools_id="cts_1", tool_call_ids=("t1",))
STOP = e.StopRequested(at_ms=4000, run_id=RUN)
RESUMED = e.RunResumed(at_ms=9000, run_id=RUN, after="crash")
ENDED = e.RunEnded(at_ms=9000, run_id=RUN, outcome="completed")

BEGUN = (MESSAGE, QUEUED, STARTED, CALL, ATTEMPT)
ASKS = (*BEGUN, SHELL)
BOTH = (*ASKS, READ, CALL_ENDED)


@dataclass(frozen=True, slots=True)
class Row:
    """What people read after these events, and when that began."""

    about: str
    state: str
    events: tuple[e.Event, ...]
    words: str
    since_ms: int


ROWS = (
    Row("queued", "queued", (MESSAGE, QUEUED), "queued", 0),
    Row("started", "starting", (MESSAGE, QUEUED, STARTED), "starting", 1000),
    Row("a call begins", "between", (MESSAGE, QUEUED, STARTED, CALL), "working", 1000),
    Row("asked", "waiting", BEGUN, "waiting for gpt-x", 1000),
    Row("the model thinks", "thinking", (*BEGUN, THOUGHT), "gpt-x is thinking", 2000),
    Row("a thought is over", "pausing", (*BEGUN, THOUGHT, THOUGHT_DONE), "gpt-x is working", 2000),
    Row("the model writes", "answering", (*BEGUN, THOUGHT_DONE, WORD), "gpt-x is answering", 2000),
    Row("a text is over", "pausing", (*BEGUN, WORD, TEXT_DONE, USED), "gpt-x is working", 2000),
    Row("an attempt failed", "retrying", (*BEGUN, FAILED), "retrying", 2000),
    Row("the next one is made", "waiting", (*BEGUN, FAILED, SUPERSEDED, ATTEMPT), "waiting for gpt-x", 1000),
    Row("another target is asked", "waiting", (*BEGUN, FAILED, OTHER), "waiting for spare", 2000),
    Row("gated", "gated", (*BEGUN, FAILED, GATED), "waiting for the provider", 2000),
    Row("compacting", "compacting", (*BEGUN, SUMMARY), "summarizing the conversation", 2000),
    Row(
        "the summary comes",
        "compacting",
        (*BEGUN, SUMMARY, ATTEMPT, WORD, TEXT_DONE),
        "summarizing the conversation",
        2000,
    ),
    Row("compacted", "between", (*BEGUN, SUMMARY, ATTEMPT, WORD, COMPACTED), "working", 3000),
    Row("no summary came", "waiting", (*BEGUN, SUMMARY, FAILED, CALL, ATTEMPT), "waiting for gpt-x", 1000),
    Row("a tool is asked for", "asking", ASKS, "gpt-x wants to run shell make test", 2000),
    Row("a second tool", "asking", (*ASKS, READ), "gpt-x wants to run read_file a.py", 2000),
    Row("a tool is next", "next", (*ASKS, CALL_ENDED), "about to run shell make test", 2000),
    Row(
        "an attempt asked for a tool in vain",
        "waiting",
        (*ASKS, FAILED, SUPERSEDED, ATTEMPT),
        "waiting for gpt-x",
        1000,
    ),
    Row(
        "calls for the client",
        "client",
        (*ASKS, CALL_ENDED, YOURS),
        "waiting for the client to run its tools",
        2000,
    ),
    Row("approval", "approval", (*ASKS, CALL_ENDED, MAY_IT), "waiting for your approval", 2000),
    Row("approved", "next", (*ASKS, CALL_ENDED, MAY_IT, YES), "about to run shell make test", 2500),
    Row("nobody approved", "between", (*ASKS, CALL_ENDED, MAY_IT, NOBODY), "working", 2500),
    Row("denied", "between", (*ASKS, CALL_ENDED, MAY_IT, NO), "working", 2500),
    Row(
        "denied, and another is next",
        "next",
        (*ASKS, READ, CALL_ENDED, MAY_IT, NO),
        "about to run read_file a.py",
        2500,
    ),
    Row("approval withdrawn", "between", (*ASKS, CALL_ENDED, MAY_IT, RAN, WITHDRAWN), "working", 2500),
    Row(
        "approved and at work",
        "tool",
        (*ASKS, CALL_ENDED, MAY_IT, YES, RUNS, SAYS),
        "running shell make test",
        3000,
    ),
    Row("two approvals", "approval", (*BOTH, MAY_IT, MAY_IT_READ, YES), "waiting for your approval", 2000),
    Row(
        "one approved and at work, one not",
        "tool",
        (*BOTH, MAY_IT, MAY_IT_READ, YES, RUNS),
        "running shell make test",
        3000,
    ),
    Row("a file tool", "tool", (*BEGUN, READ, CALL_ENDED, READS), "running read_file a.py", 4000),
    Row("two tools", "tools", (*BOTH, RUNS, READS), "running 2 tools", 4000),
    Row("one of two is done", "tool", (*BOTH, RUNS, READS, HAS_READ), "running shell make test", 3000),
    Row("the next of two", "next", (*BOTH, RUNS, RAN), "about to run read_file a.py", 5000),
    Row("all tools are done", "between", (*ASKS, CALL_ENDED, RUNS, RAN), "working", 5000),
    Row("a question", "question", (*BEGUN, CALL_ENDED, WHICH), "waiting for your answer", 2000),
    Row("a question is answered", "between", (*BEGUN, CALL_ENDED, WHICH, THIS), "working", 3600),
    Row("a question expired", "between", (*BEGUN, CALL_ENDED, WHICH, TOO_LATE), "working", 3600),
    Row("a question is withdrawn", "between", (*BEGUN, CALL_ENDED, WHICH, NO_MORE), "working", 3600),
    Row(
        "a tool at work asks",
        "question",
        (*ASKS, CALL_ENDED, RUNS, WHICH_TOOL),
        "waiting for your answer",
        3500,
    ),
    Row("stopping", "stopping", (*ASKS, CALL_ENDED, RUNS, STOP), "stopping", 4000),
    Row("still stopping", "stopping", (*ASKS, CALL_ENDED, RUNS, STOP, RAN), "stopping", 4000),
    Row(
        "resumed in mid-tool",
        "resumed",
        (*ASKS, CALL_ENDED, RUNS, RESUMED),
        "resuming after a crash",
        9000,
    ),
    Row(
        "resumed, and the tool again",
        "tool",
        (*BOTH, RUNS, READS, RESUMED, READS),
        "running read_file a.py",
        4000,
    ),
    Row(
        "resumed in an answer", "resumed", (*BEGUN, WORD, RESUMED, SUPERSEDED), "resuming after a crash", 9000
    ),
    Row("resumed in a summary", "resumed", (*BEGUN, SUMMARY, RESUMED), "resuming after a crash", 9000),
    Row("ended", "ended", (*BEGUN, WORD, TEXT_DONE, ENDED), "", 9000),
    Row("ended with open ends", "ended", (*BOTH, MAY_IT, RUNS, STOP, ENDED), "", 9000),
)
