"""Wrong parts of the relay's accounts: each breaks a promise in one small way."""

from collections.abc import Callable, Sequence

from starlette.requests import Request
from typing_extensions import override

from holdfast import events as e
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Index
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory import MemoryDisk, MemoryStore
from holdfast.redaction import NO_SECRETS
from holdfast.server.access.budgets import KeyBudgets, KeyLimits, LimitsByKey
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.problems import Problem
from holdfast.server.relay.calls import names_to_join, names_to_keep
from holdfast.server.relay.output import RelayOutput, WhenSaved
from holdfast.server.relay.records import CallRecords
from holdfast.server.relay.surfaces import COMMENT, SURFACES
from sabotage import Sabotage

AT_MS = 1_700_000_000_000


def called(key: str = "laptop", *, at_ms: int = AT_MS) -> e.RelayCalled:
    return e.RelayCalled(at_ms=at_ms, call_id="c", key=key, wire="chat", target="main", input_tokens=10)


class RecordsLater(CallRecords):
    """Returns before the record is on disk."""

    @override
    async def add(self, record: e.RelayCalled) -> None:
        self.later = record


async def check_a_record_is_on_disk_when_the_response_may_end(kind: type[CallRecords]) -> None:
    disk = MemoryDisk()
    await kind(MemoryStore(disk)).add(called())
    stored = [record.event for log in disk.logs.values() for record in log]
    assert called() in stored


class CountsSinceItsStart(KeyBudgets):
    """Forgets at a restart what a key has used."""

    def __init__(self, limits: LimitsByKey, index: Index, clock: Clock) -> None:
        del index
        super().__init__(limits, MemoryStore(), clock)


async def check_a_budget_survives_a_restart(kind: type[KeyBudgets]) -> None:
    disk, clock = MemoryDisk(), SystemClock()
    await CallRecords(MemoryStore(disk)).add(called(at_ms=clock.now_ms()))
    budgets = kind({"laptop": KeyLimits(tokens_per_day=5)}, MemoryStore(disk), clock)
    refused = False
    try:
        await budgets.check("laptop")
    except Problem:
        refused = True
    assert refused, "a key over its budget was let through"


def names_without_the_key(request: Request, body: bytes) -> Sequence[str]:
    """Two keys that send the same get the same answer."""
    return names_to_join(_request("one", dict(request.scope["headers"])), body)


def names_of_any_request(request: Request, body: bytes) -> Sequence[str]:
    """Whoever sends the same joins, although nobody says that it is a repeat."""
    del request
    return names_to_keep(_request("one", {b"x-stainless-retry-count": b"0"}), body)


async def check_only_a_repeat_of_the_same_key_joins(
    names: Callable[[Request, bytes], Sequence[str]],
) -> None:
    first = set(names_to_keep(_request("one", {b"x-stainless-retry-count": b"0"}), b"{}"))
    again = {b"x-stainless-retry-count": b"1"}
    assert first & set(names_to_join(_request("one", again), b"{}"))
    assert not first & set(names(_request("two", again), b"{}"))
    assert not first & set(names(_request("one", {}), b"{}"))
    assert not first & set(names(_request("one", again), b"{ }"))


def _request(key: str, headers: dict[bytes, bytes]) -> Request:
    scope = {"type": "http", "path": "/v1/messages", "headers": list(headers.items()), KEY_NAME: key}
    return Request(scope)


class SendsFirst(RelayOutput):
    """Sends what its log doesn't have yet."""

    @override
    def hold_until(self, when_saved: WhenSaved) -> None:
        del when_saved


async def check_a_kept_answer_is_on_disk_before_it_is_sent(kind: type[RelayOutput]) -> None:
    output, saved = kind(SURFACES["chat"], NO_SECRETS), list[Callable[[], None]]()
    output.hold_until(saved.append)
    output.begin(200, {})
    output.pass_on(b"data: one\n\n")
    output.keep_alive()
    assert await output.more() == [COMMENT], "it was sent before it was saved"
    output.pass_on(b"data: two\n\n")
    saved[0]()
    assert await output.more() == [b"data: one\n\n"]
    output.fail(Problem(503, "gone", code="store_unavailable"))
    assert b"two" not in b"".join(await output.more())


SABOTAGES = (
    Sabotage("P1", check_a_kept_answer_is_on_disk_before_it_is_sent, RelayOutput, SendsFirst),
    Sabotage("P2", check_a_record_is_on_disk_when_the_response_may_end, CallRecords, RecordsLater),
    Sabotage("P6", check_a_budget_survives_a_restart, KeyBudgets, CountsSinceItsStart),
    Sabotage("P11", check_only_a_repeat_of_the_same_key_joins, names_to_join, names_without_the_key),
    Sabotage("P10", check_only_a_repeat_of_the_same_key_joins, names_to_join, names_of_any_request),
)
