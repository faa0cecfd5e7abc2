"""The built-in demo model: a scripted model on loopback, so that a newcomer can watch every promise hold.

It streams an answer word by word and, asked with one word, behaves badly (`stall`, `drop`, `refuse`, `flood`,
`overload`, `slow`), works with tools and people (`think`, `tool`, `tools`, `danger`, `ask`), gives work to
sub-agents (`delegate`, `background`) or shows how answers look (`markdown`). In plan mode it
proposes a plan, and it says at once that it can't reach a goal.

Longer answers of the demo model, written the way that models like to write.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

from holdfast.agent.compaction import ASK
from holdfast.chaos import (
    CallTool,
    ChaosServer,
    Drop,
    Hang,
    Refuse,
    Say,
    SayWords,
    Script,
    SeenRequest,
    Step,
    Think,
    overloaded,
)
from holdfast.policy.tool_names import FINISH_GOAL, UPDATE_PLAN, WRITE_FILE
from holdfast.targets import Patience, RetryLimits, Target

MARKDOWN = """\
## What a run is made of

A run goes from **one input** to *one true ending*. Everything in between is an event in a log, and the log \
is what you are looking at: there is ~~a second store~~ no second store to reconcile.

### In three steps

1. The message is on disk before anyone acts on it.
2. The model is called; every piece of its answer is **saved, then shown**:
   - a stalled connection is closed and opened again,
   - a half answer is replaced, never doubled.
3. Tools run, and their effects are written down *before* they happen.

- [x] survive a reload
- [x] survive `kill -9`
- [ ] make coffee

```python
from holdfast import events


def fold(pairs: Iterable[tuple[int, Event]]) -> Transcript:
    \"\"\"The transcript of a whole log, or of the first part of one.\"\"\"
    transcript = Transcript()
    for seq, event in pairs:  # the same order for everyone
        apply(transcript, seq, event)
    return transcript
```

| outcome | what it means | retry |
|:--------|:--------------|------:|
| `completed` | the model said so | no |
| `cancelled` | a person stopped it, and everything stopped | yes |
| `interrupted` | the server was away; what was saved is here | yes |

> A crash is a pause. After a restart the run continues by itself, and no effect happens twice.

```diff
- state = load_from_somewhere()
+ state = fold(journal.read(session_id))
```

Links are [links](https://example.com/docs), and an image from elsewhere waits for a click: \
![a diagram of the log](https://example.com/log.png). HTML is text: <b onclick="alert(1)">not bold</b>.

---

That is all. Ask for `tool` to see one at work.
"""


PACE_S = 0.03
_NOTE = re.compile(r"\[Note from Holdfast.*?\](?:\n\n|\Z)", re.DOTALL)
FLOOD_WORDS = 20_000

GREETING = (
    "Hello. I'm the demo model that comes with Holdfast: no key, no network, every word scripted. "
    "You said: {said} Every piece of this answer was on disk before you saw it, so you can reload, "
    "open a second reader or kill the server in the middle, and nothing is lost.\n\n"
    "Say one of these words and I misbehave: **stall**, **drop**, **overload**, **refuse**, **flood**, "
    "**slow**. Or one of these and I get to work: **think**, **tool**, **tools**, **danger** (which needs "
    "your approval), **ask**, **delegate** (which gives work to sub-agents). **markdown** shows how answers "
    "look."
)
NO_GOAL = (
    "I'm the demo model: every word of mine is scripted, so I can't work towards a goal. Set up a model "
    "of your own, and try again."
)
DEMO_PLAN = [{"text": "Look at the files"}, {"text": "Pretend to do what you asked for"}, {"text": "Say so"}]


def demo_server() -> ChaosServer:
    """The demo model; an async context manager that listens on a free port."""
    return ChaosServer(choose=DemoScripts())


def demo_target(base_url: str) -> Target:
    """The demo model as a target, with little patience so that its faults are quick to watch."""
    return Target(
        name="demo",
        wire="chat",
        base_url=base_url,
        model="demo",
        patience=Patience(first_event_s=5, gap_s=4),
        retry=RetryLimits(backoff_base_s=0.5),
    )


class DemoScripts:
    """Chooses what the demo model does from the last thing that a person said."""

    def __init__(self) -> None:
        self._faults: dict[str, int] = {}  # how often a fault was shown to the same request

    def __call__(self, request: SeenRequest) -> Script:
        """The script for one request; a fault happens once, so that the retry succeeds."""
        messages = _messages(request)
        said = last_said(request)
        if _offers(request, FINISH_GOAL):
            return _goal(messages)
        if messages[-1].role == "user" and _is_planning(request):
            return [SayWords("I propose this.", PACE_S), CallTool(UPDATE_PLAN, {"steps": DEMO_PLAN})]
        if (part := DEMO_TASKS.get(said.strip())) is not None:
            return part(messages[-1].role == "tool")
        if said.startswith(ASK):
            return [SayWords("## Task\nTo see what the demo model says.\n\n## Open\nNone", PACE_S)]
        if said.startswith("[Sub-agent "):
            return [SayWords(f"I have heard from my sub-agent:\n\n> {said.splitlines()[-1][:200]}", PACE_S)]
        if messages and messages[-1].role == "tool":
            if said.strip().lower() == "delegate":
                return [SayWords(_summary(messages), PACE_S)]
            return [SayWords(f"The tool answered:\n\n```\n{str(messages[-1].content)[:600]}\n```", PACE_S)]
        word = said.strip().lower().strip(".!?")
        make = SCRIPTS.get(word)
        if make is None:
            return [SayWords(GREETING.format(said=_quoted(said[:200])), PACE_S)]
        key = f"{word} {len(messages)}"
        shown = self._faults.get(key, 0)
        self._faults[key] = shown + 1
        return make(shown % 2 == 0)


def _quoted(said: str) -> str:
    """The words in quotation marks, with one full stop, whether they bring one or not."""
    return f"“{said}”" if said.rstrip().endswith((".", "!", "?", "…")) else f"“{said}”."


def last_said(request: SeenRequest) -> str:
    """Return the last text of a user in a Chat Completions request, without notes from Holdfast."""
    texts = [_text(message.content) for message in _messages(request) if message.role == "user"]
    without_notes = [_NOTE.sub("", text).strip() for text in texts if not _NOTE.fullmatch(text)]
    return without_notes[-1] if without_notes else ""


def _text(content: object) -> str:
    """The words of a message, whether it has attachments or not."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in msgspec.convert(content, list[_Part]) if part.type == "text")


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Message(msgspec.Struct):
    role: str = ""
    content: object = None


class _Function(msgspec.Struct):
    name: str = ""


class _Offered(msgspec.Struct):
    function: _Function


def _offers(request: SeenRequest, tool: str) -> bool:
    offered = msgspec.convert((request.body or {}).get("tools", []), list[_Offered])
    return any(one.function.name == tool for one in offered)


def _goal(messages: list[_Message]) -> Script:
    """Without this, Holdfast would ask for evidence again and again."""
    if messages[-1].role == "tool":
        return [SayWords(NO_GOAL, PACE_S)]
    return [CallTool(FINISH_GOAL, {"outcome": "blocked", "summary": "The demo model only says its lines."})]


def _is_planning(request: SeenRequest) -> bool:
    """Whether a plan is wanted: until it's accepted, no tool is offered that changes anything."""
    return _offers(request, UPDATE_PLAN) and not _offers(request, WRITE_FILE)


def _summary(messages: list[_Message]) -> str:
    """What the sub-agents of the newest answer said."""
    asked = max(n for n, one in enumerate(messages) if one.role == "user")
    results = [str(one.content) for one in messages[asked:] if one.role == "tool"]
    lines = "\n".join(f"- {text.splitlines()[0][:200] if text else ''}" for text in results)
    return f"All of them are done:\n\n{lines}"


def _task(*steps: Step, done: str) -> Callable[[bool], Script]:
    """What a sub-agent does: its steps, and once they have results, its answer."""
    return lambda has_results: [SayWords(done, PACE_S)] if has_results else list(steps)


def _messages(request: SeenRequest) -> list[_Message]:
    return msgspec.convert((request.body or {}).get("messages", []), list[_Message])


def _faulty(first: Script, then: str) -> Callable[[bool], Script]:
    return lambda is_first: first if is_first else [SayWords(then, PACE_S)]


_COUNT = "for i in 1 2 3 4 5; do echo step $i; sleep 1; done"
_FILES, _LINES = "Find out which files are here.", "Count to five, slowly."
_TEAM, _DANGER = "Lead a team of two, and sum up what they say.", "Remove a folder that isn't there."
_WORD, _SLOW = "Say one word.", "Tell a long story."
DEMO_TASKS: Mapping[str, Callable[[bool], Script]] = {
    _FILES: _task(CallTool("list_files", {"path": "."}), done="There are files here, and I have seen them."),
    _LINES: _task(CallTool("shell", {"command": _COUNT}), done="Five."),
    _TEAM: _task(
        CallTool("delegate", {"task": _WORD}),
        CallTool("delegate", {"task": _SLOW}),
        done="My team has said a word, and told a story.",
    ),
    _DANGER: _task(
        CallTool("shell", {"command": "rm -r ./a-folder-that-is-not-there"}), done="I tried to remove it."
    ),
    _WORD: lambda _: [SayWords("Word.", PACE_S)],
    _SLOW: lambda _: [SayWords("Once upon a time there was a log. " * 12, 0.1)],
}

SCRIPTS: Mapping[str, Callable[[bool], Script]] = {
    "hi": lambda _: [Say("Hi. Say **hello** and I'll tell you what I can do.")],
    "stall": _faulty(
        [SayWords("I was about to say something and", PACE_S), Hang()],
        "The first connection fell silent after a few words. Holdfast noticed, closed it, asked again, and "
        "this answer replaced the broken one.",
    ),
    "drop": _faulty(
        [SayWords("This connection breaks in the middle of", PACE_S), Drop()],
        "The first connection was reset in mid-sentence. Holdfast asked again; nothing was doubled or lost.",
    ),
    "overload": _faulty(
        [overloaded()],
        "The first try was answered with 529 overloaded. You are reading the second try.",
    ),
    "refuse": lambda _: [Refuse("I would rather not.")],
    "tool": lambda _: [SayWords("Let me look around.", PACE_S), CallTool("shell", {"command": "ls"})],
    "tools": lambda _: [
        Think("First the files, then what they hold, then a few steps.", chunk_chars=6, pace_s=PACE_S),
        CallTool("list_files", {"path": "."}),
        CallTool("shell", {"command": "for i in 1 2 3; do echo step $i; sleep 1; done"}),
        CallTool("shell", {"command": "cat no-such-file"}),
    ],
    "markdown": lambda _: [SayWords(MARKDOWN, PACE_S)],
    "danger": lambda _: [
        SayWords("I would like to remove something. That needs your approval.", PACE_S),
        CallTool("shell", {"command": "rm -r ./a-folder-that-is-not-there"}),
    ],
    "ask": lambda _: [CallTool("ask_user", {"text": "Which colour?", "choices": ["red", "blue"]})],
    "delegate": lambda _: [
        SayWords("I give this to a few sub-agents.", PACE_S),
        *(CallTool("delegate", {"task": task}) for task in (_FILES, _LINES, _TEAM, _DANGER)),
    ],
    "background": lambda _: [CallTool("delegate", {"task": _LINES, "background": True})],
    "flood": lambda _: [Say("word " * FLOOD_WORDS, chunk_chars=5)],
    "think": lambda _: [
        Think("A question like this deserves a moment. " * 4, chunk_chars=6, pace_s=PACE_S),
        SayWords("I have thought about it, and the answer is 42.", PACE_S),
    ],
    "slow": lambda _: [SayWords(" ".join(f"{number}…" for number in range(1, 121)), 0.5)],
}
