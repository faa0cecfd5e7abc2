"""Wrong parts of the relay's accounts: each breaks a promise in one small way."""

from collections.abc import Callable, Iterable, Sequence

from starlette.requests import Request
from typing_extensions import override
from yarl import URL

from holdfast import events as e
from holdfast.config.server import KeySettings
from holdfast.features.relay.calls import names_to_join, names_to_keep
from holdfast.features.relay.headers import SENT_UP, HeadersUp
from holdfast.features.relay.records import CallRecords
from holdfast.features.relay.response_buffer import ResponseBuffer, WhenSaved
from holdfast.features.relay.surfaces import COMMENT, SURFACES
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.ids import client_call_id
from holdfast.interfaces.index import Index
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.model_events import TokensUsed
from holdfast.models.exchange import AttemptMeter
from holdfast.redaction import NO_SECRETS
from holdfast.server.access.budgets import KeyBudgets, SettingsByKey
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.access.middleware import keys_sent
from holdfast.server.access.request_secrets import begin_request, without_secrets
from holdfast.server.image_fetcher import ACCEPT, HttpsOnly, ImageFetcher
from holdfast.server.image_urls import ImageUrls
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.client_tools import matched_results
from holdfast.tools.web.fetch import Fetcher
from holdfast.values import ClientToolResult
from sabotage import Sabotage
from stores import MemoryStore

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

    def __init__(self, limits: SettingsByKey, index: Index, clock: Clock) -> None:
        del index
        super().__init__(limits, MemoryStore(), clock)


async def check_a_budget_survives_a_restart(kind: type[KeyBudgets]) -> None:
    disk, clock = MemoryDisk(), SystemClock()
    await CallRecords(MemoryStore(disk)).add(called(at_ms=clock.now_ms()))
    budgets = kind({"laptop": KeySettings(name="laptop", budget_tokens_per_day=5)}, MemoryStore(disk), clock)
    refused = False
    try:
        await budgets.check("laptop")
    except Problem:
        refused = True
    assert refused, "a key over its budget was let through"


class ChargesReports(AttemptMeter):
    """Charges only what a provider has reported."""

    @override
    def total(self) -> TokensUsed | None:
        return self.reported


async def check_an_aborted_attempt_is_charged(kind: type[AttemptMeter]) -> None:
    """P12: aborting every call doesn't make calls free."""
    meter = kind(1000, is_sent=True)
    meter.chars = 400
    assert meter.total() == TokensUsed(input_tokens=1000, output_tokens=100, is_estimate=True)


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


class SendsFirst(ResponseBuffer):
    """Sends what its log doesn't have yet."""

    @override
    def hold_until(self, when_saved: WhenSaved) -> None:
        del when_saved


async def check_a_kept_answer_is_on_disk_before_it_is_sent(kind: type[ResponseBuffer]) -> None:
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


class HeadersAsConfigured(HeadersUp):
    """Sends up whatever the configuration names."""

    def __init__(self, also: Iterable[str] = ()) -> None:
        self._wanted = SENT_UP | {name.lower() for name in also}


async def check_no_key_of_a_client_goes_up(kind: type[HeadersUp]) -> None:
    """P11: not even if the configuration names its header."""
    keys = {"X-Api-Key": "k", "api-key": "k", "Authorization": "Bearer k", "Cookie": "k"}
    sent = [(name.lower().encode(), value.encode()) for name, value in keys.items()]
    assert kind(keys).of([*sent, (b"anthropic-beta", b"b")]) == {"anthropic-beta": "b"}


def bearer_alone(authorization: str, api_keys: Iterable[str]) -> Iterable[str]:
    """Knows one header."""
    del api_keys
    return (authorization.removeprefix("Bearer "),)


async def check_a_key_is_a_secret_in_whatever_header_it_comes(
    keys: Callable[[str, Iterable[str]], Iterable[str]],
) -> None:
    """P11: a key in x-api-key gets into no log and no error."""
    begin_request(NO_SECRETS, *keys("Bearer first-key-0123456789", ["other-key-0123456789"]))
    told = without_secrets(bad_request("not first-key-0123456789, not other-key-0123456789"))
    assert "0123456789" not in told.message


class AnyAddress(HttpsOnly):
    """Fetches what it's told."""

    @override
    def insist_on_url(self, url: URL) -> None:
        del url

    @override
    def allows(self, address: object) -> bool:
        del address
        return True


PRIVATE = (
    "https://127.0.0.1/a.png",
    "https://127.1/a.png",
    "https://0x7f000001/a.png",
    "https://[::1]/a.png",
    "https://[::ffff:127.0.0.1]/a.png",
    "https://localhost/a.png",
    "https://a.localhost/a.png",
    "https://127.0.0.1:8642/a.png",
    "http://127.0.0.1/a.png",
    "https://me:pw@127.0.0.1/a.png",
)


async def check_an_image_is_fetched_from_nowhere_inside(policy: type[HttpsOnly]) -> None:
    """P11: whoever names an image can't make the server look into its own network."""
    images = ImageUrls(ImageFetcher(Fetcher(policy(), accept=ACCEPT, follows_to_any_host=True)))
    for url in PRIVATE:
        part = {"type": "image_url", "image_url": {"url": url}}
        problem: Problem | None = None
        try:
            await images.put_inline([{"role": "user", "content": [part]}], param="messages", bytes_max=1000)
        except Problem as refused:
            problem = refused
        assert problem is not None
        assert "the connection failed" not in problem.message, f"a connection to {url} was tried"
        assert "took longer" not in problem.message, f"a connection to {url} was tried"


def takes_the_last(
    asked: e.ClientToolsAsked, results: Sequence[ClientToolResult], *, param: str
) -> tuple[ClientToolResult, ...]:
    """Of two results of one call, keeps the second."""
    last = {result.tool_call_id: result for result in results}
    return matched_results(asked, list(last.values()), param=param)


async def check_a_call_has_one_result(
    match: Callable[..., tuple[ClientToolResult, ...]],
) -> None:
    """P2: of two results of one call, neither is dropped in silence."""
    asked = e.ClientToolsAsked(at_ms=AT_MS, run_id="run_1", client_tools_id="ct_1", tool_call_ids=("call_1",))
    name = client_call_id("ct_1", 0)
    one, two = (ClientToolResult(tool_call_id=name, text=text) for text in ("21", "22"))
    assert [result.text for result in match(asked, [one], param="input")] == ["21"]
    code = ""
    try:
        match(asked, [one, two], param="input")
    except Problem as refused:
        code = refused.code
    assert code == "tool_result_duplicate"


SABOTAGES = (
    Sabotage("P11", check_no_key_of_a_client_goes_up, HeadersUp, HeadersAsConfigured),
    Sabotage("P11", check_a_key_is_a_secret_in_whatever_header_it_comes, keys_sent, bearer_alone),
    Sabotage("P11", check_an_image_is_fetched_from_nowhere_inside, HttpsOnly, AnyAddress),
    Sabotage("P2", check_a_call_has_one_result, matched_results, takes_the_last),
    Sabotage("P1", check_a_kept_answer_is_on_disk_before_it_is_sent, ResponseBuffer, SendsFirst),
    Sabotage("P2", check_a_record_is_on_disk_when_the_response_may_end, CallRecords, RecordsLater),
    Sabotage("P12", check_an_aborted_attempt_is_charged, AttemptMeter, ChargesReports),
    Sabotage("P6", check_a_budget_survives_a_restart, KeyBudgets, CountsSinceItsStart),
    Sabotage("P11", check_only_a_repeat_of_the_same_key_joins, names_to_join, names_without_the_key),
    Sabotage("P10", check_only_a_repeat_of_the_same_key_joins, names_to_join, names_of_any_request),
)
