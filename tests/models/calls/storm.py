"""A seeded storm: many calls against a server that does everything wrong, and what must hold all the same."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from holdfast import events as e
from holdfast.chaos import (
    Begin,
    CallTool,
    ChaosOptions,
    ChaosServer,
    ClosedBy,
    CloseOnReuse,
    CutCall,
    Drip,
    Drop,
    EndOfBody,
    ErrorEvent,
    Finish,
    Hang,
    HangUp,
    Headers,
    KeepAlive,
    Lifecycle,
    Malformed,
    RecordLimits,
    Say,
    SayWords,
    SeenRequest,
    SeenTraffic,
    Step,
    Think,
    bad_key,
    context_overflow,
    insufficient_quota,
    overloaded,
    rate_limited,
    rate_limited_ms,
    rate_limited_s,
    server_error,
    too_large,
)
from holdfast.folds.entries import Text
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.targets import Patience, RetryLimits

from .calling import WIRES, Line, Told, line_to, target_of

PATIENCE = Patience(connect_s=5, upload_s=5, first_event_s=0.25, first_progress_s=0.25, gap_s=0.25)
LIMITS = RetryLimits(backoff_base_s=0.01, backoff_max_s=0.05)
AT_ONCE = 40
STOPPED = 0.08  # of all calls

REFUSALS = (
    bad_key(),
    context_overflow(),
    insufficient_quota(),
    overloaded(),
    overloaded(529),
    rate_limited(),
    rate_limited_ms(20),
    rate_limited_s(2),
    server_error(),
    server_error(502),
    too_large(),
)
BREAKS: tuple[Sequence[Step], ...] = (
    (Drop(),),
    (HangUp(),),
    (EndOfBody(),),
    (Hang(),),
    (KeepAlive(pace_s=0.02),),
    (Lifecycle(1000, pace_s=0.02),),
    (Malformed(),),
    (ErrorEvent("sorry", type="server_error", code="server_error"),),
    (CutCall("look", {"at": "it"}), Drop()),
    (CallTool("look", {"at": "it"}), EndOfBody()),
)


@dataclass(slots=True)
class Storm:
    """What came of it; `wrong` is empty if everything held."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    attempts: dict[int, int] = field(default_factory=dict[int, int])
    requests: int = 0
    wrong: list[str] = field(default_factory=list[str])


class Weather:
    """Chooses what happens to each request; the answer to a request is always the same text."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def script(self, request: SeenRequest) -> Sequence[Step]:
        dice, answer = self._dice, answer_to(request.model)
        if dice.random() < 0.45:
            return self._good(answer)
        if dice.random() < 0.35:
            return [dice.choice(REFUSALS)]
        opening: list[Step] = dice.choice(
            [[], [Headers()], [Begin()], [Think("hm")], [SayWords(answer[: dice.randrange(len(answer))])]]
        )
        return [*opening, *dice.choice(BREAKS)]

    def _good(self, answer: str) -> Sequence[Step]:
        dice = self._dice
        before: list[Step] = dice.choice([[], [], [Think("hm")], [Drip(dice.randrange(1, 40))]])
        said: Step = dice.choice([Say(answer), Say(answer, chunk_chars=7), SayWords(answer)])
        after: list[Step] = dice.choice([[], [], [CloseOnReuse()], [Finish(times=2)], [CallTool("look", {})]])
        return [*before, said, *after]


def answer_to(model: str) -> str:
    """What the model says if it is let: long enough to be cut, and never the same twice."""
    return " ".join(f"{model}/{n}" for n in range(12))


async def storm(calls: int, *, seed: int) -> Storm:
    """So many calls, forty at a time, some of them stopped by their user."""
    found = Storm()
    weather = Weather(seed)
    dice = random.Random(seed + 1)
    options = ChaosOptions(limits=RecordLimits(bodies_max=20_000))
    async with ChaosServer(choose=weather.script, options=options) as server:
        targets = tuple(
            target_of(server, wire, wire, api_key=f"sk-{wire}", patience=PATIENCE, retry=LIMITS)
            for wire in WIRES
        )
        async with line_to(*targets) as line:
            for start in range(0, calls, AT_ONCE):
                numbers = range(start, min(start + AT_ONCE, calls))
                stops = {number for number in numbers if dice.random() < STOPPED}
                await asyncio.gather(*(_one(line, number, found=found, stops=stops) for number in numbers))
        _check(found, server.seen, calls)
    return found


async def _one(line: Line, number: int, *, found: Storm, stops: set[int]) -> None:
    first = number % len(line.targets)
    own = line.targets[first:] + line.targets[:first]
    # The model's name tells whose request it is.
    targets = tuple(replace(target, model=f"{target.name}-{number}") for target in own)
    told = Told(line.clock, f"run_{number}")
    mine = Line(line.http, line.shared, line.clock, line.store, targets, told)
    task = asyncio.create_task(mine.ask())
    if number in stops:
        asyncio.get_running_loop().call_later(0.01 * (number % 20), task.cancel, "user_stop")
    await asyncio.wait([task])
    found.attempts[number] = len(told.of(e.AttemptStarted))
    found.outcomes[_outcome(task, told, found=found)] += 1
    if told.live is not None:
        found.wrong.append(f"call {number} left its live line")


def _outcome(task: "asyncio.Task[Answer | NoAnswer]", told: Told, *, found: Storm) -> str:
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    if error is not None:
        found.wrong.append(f"{told.run_id}: {error!r}")
        return "raised"
    ended = task.result()
    if isinstance(ended, NoAnswer):
        return f"failed: {ended.failure.kind}"
    answered_by = told.of(e.AttemptStarted)[-1].model
    entries = told.seen.runs[told.run_id].entries
    shown = "".join(entry.text for entry in entries if isinstance(entry, Text))
    if shown != answer_to(answered_by):
        found.wrong.append(f"{told.run_id}: {shown!r} is not what {answered_by} said")
    return f"answered: {ended.finish}"


def _check(found: Storm, seen: SeenTraffic, calls: int) -> None:
    """Count at the server: who was asked, and how often."""
    by_call = Counter(
        int(request.model.partition("-")[2]) for request in seen.requests if not _stale(request)
    )
    found.requests = by_call.total()
    for number, requests in by_call.items():
        if requests > found.attempts[number] or found.attempts[number] > LIMITS.attempts_max:
            found.wrong.append(f"call {number}: {requests} requests, {found.attempts[number]} attempts")
    if found.outcomes.total() != calls:
        found.wrong.append(f"{found.outcomes.total()} outcomes for {calls} calls")


def _stale(request: SeenRequest) -> bool:
    """A used connection that the server closed without a byte of an answer costs no attempt."""
    closed_by = request.connection.closed_by
    return request.is_on_used_connection and request.first_byte_s is None and closed_by is ClosedBy.SERVER
