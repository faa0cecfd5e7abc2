"""Small wrong servers, seen over HTTP: each breaks one promise, and the check of that promise must notice."""

from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeAlias

from msgspec.structs import replace
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

from holdfast import events as e
from holdfast.agent.shared_fold import SharedFold
from holdfast.chaos import CallTool, ChaosServer, Drop, Gate, Say
from holdfast.events import Event, Input
from holdfast.features.openai.chats import FrontEndChat, Turn
from holdfast.interfaces.index import ListedSession, StoredResponse
from holdfast.interfaces.journal import Fence, Pace, Record, Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.follow import Follower
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.redaction import NO_SECRETS, Redactor
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.access.auth import KeyRing
from holdfast.server.access.caller import begin_call
from holdfast.server.access.keys import AddedKeys
from holdfast.server.access.modes import ModeAccess
from holdfast.server.options import ApiKey, ServerOptions
from holdfast.server.problems import Problem
from holdfast.server.streams.hermes import TERMINAL_NAMES
from holdfast.server.streams.shared_frames import FrameGone, FrameReader, RunFrame, SharedFrames
from holdfast.values import MODES, ApprovalMode
from journal.sample import delta, ended, started
from sabotage import Sabotage
from server.toolbox import Counted, Held
from serving import AsksAbout, Setting, served, target_of
from stores import MemoryStore

Make: TypeAlias = Callable[[MemoryDisk], MemoryStore]
Around: TypeAlias = Callable[[ASGIApp, Store], ASGIApp]

# P2: what was accepted is kept


class Forgets(MemoryStore):
    """Says that an input is on disk, and keeps it in memory."""

    def __init__(self, disk: MemoryDisk) -> None:
        del disk
        super().__init__(MemoryDisk())


class TakesTwice(MemoryStore):
    """Forgets what it answered under a key."""

    async def append(self, session_id: str, inputs: Sequence[Input], **rest: Any) -> Any:
        rest["idempotency_key"] = None
        return await super().append(session_id, inputs, **rest)

    async def stored_response(self, key: str, *, now_ms: int) -> StoredResponse | None:
        del key, now_ms
        return None


async def check_what_was_accepted_is_there_after_a_restart(make: Make) -> None:
    """P2: 202 means on disk."""
    disk = MemoryDisk()
    async with ChaosServer([Say("x")]) as chaos:
        async with served(target_of(chaos), store=make(disk)) as server:
            run_id = await server.start(session_id="s")
            await server.ended(run_id)
        async with served(target_of(chaos), store=make(disk)) as server:
            answer = await server.call("GET", f"/v1/runs/{run_id}")
            assert answer.status == 200, "what was accepted is gone"
            assert answer.json["output"] == "x"


async def check_the_same_request_has_one_effect(make: Make) -> None:
    """P2: sent twice under one key, and once more after a restart."""
    disk, once = MemoryDisk(), {"Idempotency-Key": "k"}
    body = {"input": "hi", "session_id": "s"}
    async with ChaosServer([Say("x")], after_last="repeat") as chaos:
        async with served(target_of(chaos), store=make(disk)) as server:
            _, first = await server.post("/v1/runs", body, **once)
            await server.ended(first["run_id"])
            assert (await server.post("/v1/runs", body, **once))[1] == first
        async with served(target_of(chaos), store=make(disk)) as server:
            assert (await server.post("/v1/runs", body, **once))[1] == first
            assert len((await server.get("/v1/runs"))[1]["data"]) == 1


# P4: one true ending


class EndsTwice(MemoryStore):
    """Writes a second ending behind the first."""

    async def append_run(self, session_id: str, events: Sequence[Event], *, fence: Fence, **rest: Any) -> Any:
        endings = [event for event in events if isinstance(event, e.RunEnded)]
        return await super().append_run(session_id, [*events, *endings], fence=fence, **rest)


class SaysCompleted(MemoryStore):
    """Calls every ending a completed one."""

    async def append_run(self, session_id: str, events: Sequence[Event], *, fence: Fence, **rest: Any) -> Any:
        kind = e.RunEnded
        told = [
            kind(at_ms=one.at_ms, run_id=one.run_id, outcome="completed") if isinstance(one, kind) else one
            for one in events
        ]
        return await super().append_run(session_id, told, fence=fence, **rest)


async def check_a_run_ends_once(make: Make) -> None:
    """P4: one terminal event in the run's views and in the log."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos), store=make(MemoryDisk())) as server:
        run_id = await server.start(session_id="s")
        names = [frame.data["event"] for frame in await server.all_frames(run_id)]
        assert [name for name in names if name in set(TERMINAL_NAMES.values())] == names[-1:]
        exported = await server.call("GET", "/api/sessions/s/export")
        assert exported.status == 200, "the log cannot be read any more"
        types = [event["type"] for event in exported.json["events"]]
        assert types.count("run.ended") == 1


async def check_completed_means_that_the_model_said_so(make: Make) -> None:
    """P4: an answer that was cut off each time is a failure, with what there is of it."""
    async with (
        ChaosServer([Say("hal"), Drop()], after_last="repeat") as chaos,
        served(target_of(chaos), store=make(MemoryDisk())) as server,
    ):
        run_id = await server.start(session_id="s")
        frames = await server.all_frames(run_id)
        assert frames[-1].data["event"] == "run.failed"
        shown = (await server.get(f"/v1/runs/{run_id}"))[1]
        assert (shown["status"], shown["code"]) == ("failed", "dropped")


# P7: any cursor


class SkipsOne(MemoryStore):
    """Goes on one event too late."""

    def follow(self, session_id: str, *, after: int = 0, pace: Pace = "every") -> Follower:
        return super().follow(session_id, after=after + 1 if after else 0, pace=pace)


async def check_every_cursor_goes_on_where_it_stood(make: Make) -> None:
    """P7: after each event of a run and of its session, the rest comes, and nothing else."""
    disk = MemoryDisk()
    async with ChaosServer([Say("a"), Say("b"), Say("c")]) as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk)) as server:
            run_id = await server.start(session_id="s")
            whole = [frame.data for frame in await server.all_frames(run_id, view="native")]
        async with served(target_of(chaos), store=make(disk)) as server:
            for at, data in enumerate(whole[:-1], 1):
                rest = await server.all_frames(run_id, view="native", after=data["seq"])
                assert [frame.data for frame in rest] == whole[at:]
                path = f"/v1/runs/{run_id}/events?view=native&cursor={data['seq']}"
                assert (await server.get(path))[1]["events"] == whole[at:]


def without_epochs() -> Setting:
    """A server that takes the number of a cursor and forgets which log it is of."""

    def around(app: ASGIApp, _: Store) -> ASGIApp:
        async def forgetting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                scope["headers"] = [
                    (name, value.partition(b"@")[0] if name == b"last-event-id" else value)
                    for name, value in scope["headers"]
                ]
            await app(scope, receive, send)

        return forgetting

    return Setting(around=around)


async def check_a_cursor_of_an_earlier_log_skips_nothing(make: Callable[[], Setting]) -> None:
    """P7: a session that was purged and made again is shown whole to whoever read the one before it."""
    async with served(setting=make()) as server:
        epochs: list[str] = []
        for _ in range(2):
            await server.post("/api/sessions", {"id": "s", "title": "a"})
            await server.call("PATCH", "/api/sessions/s", body={"title": "b"})
            await server.call("PATCH", "/api/sessions/s", body={"title": "c"})
            epochs.append((await server.get("/api/sessions/s"))[1]["epoch"])
            if len(epochs) == 1:
                await server.call("DELETE", "/api/sessions/s?now=true")
        frames = server.follow("/api/sessions/s/events", headers={"Last-Event-ID": f"2@{epochs[0]}"})
        async with aclosing(frames) as found:
            async for frame in found:
                if frame.id:
                    assert frame.id == 1, "the beginning of the new log was skipped"
                    break


# P10: no cross-talk


async def check_a_stuck_tool_holds_up_nobody_else(limits: RunnerLimits) -> None:
    """P10: while a tool of one run hangs, another run answers."""
    gate = Gate()
    setting = Setting(tools=(Held(gate=gate),), runner=limits)
    async with (
        ChaosServer([CallTool("held", {})], [Say("done")], after_last="repeat") as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        await server.start(session_id="stuck")
        await gate.reached()
        other = await server.start(session_id="other")
        assert (await server.get("/health/detailed"))[1]["waiting_sessions"] == 0, (
            "it waits for the stuck one"
        )
        assert (await server.ended(other))["output"] == "done"
        gate.open()


# P11: nobody gets in, and no secret gets out


def looks_first(app: ASGIApp, store: Store) -> ASGIApp:
    """Looks for the run before it asks for the key."""

    async def looking(scope: Scope, receive: Receive, send: Send) -> None:
        is_known = scope.get("method") != "GET" or await store.run(scope["path"].rpartition("/")[2])
        await (app if is_known else Response(status_code=404))(scope, receive, send)

    return looking


def locked() -> Setting:
    """A server with a key."""
    return Setting(options=ServerOptions(keys=(ApiKey("only", "the-only-key-there-is"),)))


def locked_behind_the_lookup() -> Setting:
    """One that asks for its key too late."""
    return replace(locked(), around=looks_first)


async def check_a_stranger_learns_nothing(make: Callable[[], Setting]) -> None:
    """P11: without the key the answer is the same 401, whether or not the run exists."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos), setting=make()) as server:
        key = {"Authorization": "Bearer the-only-key-there-is"}
        status, started = await server.post("/v1/runs", {"input": "hi"}, **key)
        assert status == 202
        for headers in ({}, {"Authorization": "Bearer wrong-key-of-a-stranger"}):
            known = await server.call("GET", f"/v1/runs/{started['run_id']}", headers=headers)
            unknown = await server.call("GET", "/v1/runs/run_unknown", headers=headers)
            assert (known.status, unknown.status) == (401, 401)
            assert known.body == unknown.body


def lets_in(is_welcome: Callable[[Scope], bool]) -> Setting:
    """One that takes these requests for the owner's."""

    def around(app: ASGIApp, store: Store) -> ASGIApp:
        del store

        async def promoting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and is_welcome(scope):
                scope["headers"] = [*scope["headers"], (b"authorization", b"Bearer the-only-key-there-is")]
            await app(scope, receive, send)

        return promoting

    return replace(locked(), around=around)


def has(name: bytes) -> Callable[[Scope], bool]:
    return lambda scope: any(given == name for given, _ in scope["headers"])


def takes_the_cookie_alone() -> Setting:
    """One that lets in whoever has the cookie."""
    return lets_in(has(b"cookie"))


async def check_a_cookie_alone_opens_nothing(make: Callable[[], Setting]) -> None:
    """P11: a browser sends it to every port of the host."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=make()) as server:
        page = await server.signed_in(key="the-only-key-there-is")
        for path in ("/api/sessions", "/v1/runs", "/v1/approvals", "/api/events"):
            async with server.http.get(server.url + path, headers={"Cookie": page["Cookie"]}) as answer:
                assert answer.status == 401, path


def takes_a_ticket_for_any_path() -> Setting:
    """One that looks whether there is a ticket, and not what it is for."""
    return lets_in(lambda scope: b"ticket=" in scope["query_string"])


async def check_a_ticket_is_for_one_path(make: Callable[[], Setting]) -> None:
    """P11: the download that it was made for, and no other."""
    key = {"Authorization": "Bearer the-only-key-there-is"}
    async with ChaosServer() as chaos, served(target_of(chaos), setting=make()) as server:
        paths: list[str] = []
        for data in (b"one", b"two"):
            made = await server.call("POST", "/api/blobs", body=data, headers=key)
            paths.append(f"/api/blobs/{made.json['blob']}")
        page = await server.signed_in(key="the-only-key-there-is")
        _, made = await server.post("/api/tickets", {"path": paths[0]}, **page)
        cookie = {"Cookie": page["Cookie"]}
        for path, status in ((paths[0], 200), (paths[1], 401), ("/v1/runs", 401)):
            answer = await server.call("GET", f"{path}?ticket={made['ticket']}", headers=cookie)
            assert answer.status == status, path


def minds_no_scope() -> Setting:
    """One that treats every key as the owner's."""
    return lets_in(has(b"authorization"))


async def check_a_key_does_only_what_its_scopes_say(make: Callable[[], Setting]) -> None:
    """P11: one that may chat answers no approval and makes no key."""
    owner = {"Authorization": "Bearer the-only-key-there-is"}
    async with ChaosServer() as chaos, served(target_of(chaos), setting=make()) as server:
        _, made = await server.post("/api/keys", {"name": "guest", "scopes": ["chat"]}, **owner)
        guest = {"Authorization": f"Bearer {made['key']}"}
        assert (await server.call("GET", "/v1/runs", headers=guest)).status == 200
        for method, path in (
            ("POST", "/v1/runs/run_x/approval"),
            ("GET", "/api/approvals/rules"),
            ("POST", "/api/keys"),
            ("DELETE", "/api/sessions/s"),
        ):
            answer = await server.call(method, path, body={}, headers=guest)
            assert (answer.status, answer.code) == (403, "missing_scope"), path


async def check_a_key_that_the_model_says_is_not_shown(secrets: Redactor) -> None:
    """P11: in no view of the run, though it came in two pieces."""
    setting = Setting(secrets=secrets)
    script = [Say("it is sk-test-"), Say("of-a-key, keep it")]
    async with ChaosServer(script) as chaos, served(target_of(chaos), setting=setting) as server:
        run_id = await server.start("say it", session_id="s")
        await server.ended(run_id)
        for path in (
            f"/v1/runs/{run_id}",
            f"/v1/runs/{run_id}/events",
            f"/v1/runs/{run_id}/events?view=native",
            "/api/sessions/s/messages",
            "/api/sessions/s/export",
            "/api/sessions?q=keep",
        ):
            answer = await server.call("GET", path)
            assert b"sk-test-of-a-key" not in answer.body, path


class LeavesInputsAlone(Redactor):
    """Redacts what a run says, but no input: a store without its redactor."""

    def redact(self, event: Event) -> Event:
        return event if isinstance(event, Input) else super().redact(event)


async def check_a_key_that_a_client_sends_is_not_kept(make: Callable[[list[str]], Redactor]) -> None:
    """P11: no input brings a secret to the disk, and from there to every other client."""
    disk, secret = MemoryDisk(), "sk-test-of-a-key"
    setting = Setting(secrets=make([secret]))
    async with (
        ChaosServer([Say("noted")]) as chaos,
        served(target_of(chaos), store=MemoryStore(disk), setting=setting) as server,
    ):
        run_id = await server.start(f"keep {secret} safe", session_id="s")
        await server.ended(run_id)
        await server.call("PATCH", "/api/sessions/s", body={"title": f"about {secret}"})
        for path in (
            f"/v1/runs/{run_id}",
            f"/v1/runs/{run_id}/events?view=native",
            "/api/sessions",
            "/api/sessions/s/messages",
            "/api/sessions/s/export",
            "/api/sessions?q=keep",
        ):
            answer = await server.call("GET", path)
            assert answer.status == 200, path
            assert secret.encode() not in answer.body, path
        assert secret not in str(chaos.seen.requests[0].body), "the model was told"
    assert secret not in repr(disk), "it is on the disk"
    assert "keep [redacted] safe" in repr(disk), "the message itself is kept"


# P12: bad input leaves nothing behind


class CreatesWhatIsAskedFor(MemoryStore):
    """Makes a session of every id that someone looks up."""

    async def listed(self, session_id: str) -> ListedSession | None:
        found = await super().listed(session_id)
        if found is None:
            await self.append(session_id, [e.SessionCreated(at_ms=1, epoch="made up")])
        return found


async def check_bad_requests_leave_nothing_behind(make: Make) -> None:
    """P12: each is refused by name, and no session or run is there afterwards."""
    disk = MemoryDisk()
    async with ChaosServer() as chaos, served(target_of(chaos), store=make(disk)) as server:
        for method, path, body in (
            ("POST", "/v1/runs", {"session_id": "s"}),
            ("POST", "/v1/runs", {"input": "x", "session_id": "a/b"}),
            ("POST", "/v1/runs", {"input": "x", "session_id": "s", "previous_response_id": "resp_no"}),
            ("POST", "/v1/runs", {"input": "x", "when_busy": "steer", "parts": [{"kind": "none"}]}),
            ("POST", "/v1/chat/completions", {"messages": [{"role": "nobody", "content": "x"}]}),
            ("POST", "/api/sessions/s/chat", {"message": " "}),
            ("POST", "/api/sessions/s/fork", {}),
            ("POST", "/api/sessions/s/rewind", {"to_seq": 1}),
            ("GET", "/api/sessions/s/events", None),
        ):
            answer = await server.call(method, path, body=body)
            assert 400 <= answer.status < 500, (path, answer.body)
            assert answer.json["error"]["message"]
        # A session that nobody made is not made by a request that is refused for its state, either.
        body = {"input": "x", "session_id": "t", "when_busy": "reject", "conversation_history": "none"}
        assert (await server.call("POST", "/v1/runs", body=body)).status == 400
        assert (await server.call("POST", "/v1/runs/run_no/steer", body={"message": "x"})).status == 404
        assert (await server.get("/api/sessions"))[1]["data"] == []
    assert not disk.logs


async def check_who_joins_late_gets_every_frame(frames_of: type[SharedFrames]) -> None:
    """P7: a reader that joins those at the head of a run still gets the frames from before it came."""
    store = MemoryStore()
    inputs = [
        e.SessionCreated(at_ms=1, epoch="e"),
        e.MessageAccepted(at_ms=1, message_id="m1", text="hi", mode="send"),
        e.RunQueued(at_ms=1, run_id="r1", message_id="m1"),
    ]
    await store.append("s1", inputs)
    fence = await store.claim("s1")
    said = [started("r1"), delta("one "), delta("two "), ended("r1")]
    await store.append_run("s1", said[:2], fence=fence)
    row = await store.run("r1")
    assert row is not None
    view = SharedFold()
    await view.catch_up(store, "s1")
    late = FrameReader(row, frames_of(view, "r1"), after=0)
    await store.append_run("s1", said[2:], fence=fence)
    records = await store.read("s1", after=late.at)
    alone = FrameReader(row, None, after=0).read(await store.read("s1", after=0))
    assert [made.sse for _, made in late.read(records) if made] == [made.sse for _, made in alone if made]


class CoversEveryCursor(SharedFrames):
    """Takes the frames that it never made for events without one."""

    def covers(self, after: int) -> bool:
        del after
        return True

    def frame(self, record: Record) -> RunFrame | None:
        try:
            return super().frame(record)
        except FrameGone:
            return None


class ForgetsTheUser(FrontEndChat, frozen=True):
    """Names a chat's session without its user."""

    @property
    @override
    def prefix(self) -> str:
        return FrontEndChat(self.key, "", self.chat_id, self.model).prefix


async def check_nobody_else_is_in_a_chat(chat: type[FrontEndChat]) -> None:
    """P11: the same words under another key, user, chat or model are in another session."""
    mine = ("key", "user", "chat", "model")
    others = [(*mine[:at], "other", *mine[at + 1 :]) for at in range(len(mine))]
    names = {name for one in (mine, *others) for name in chat(*one).starts([Turn("hi")])}
    assert len(names) == 1 + len(others)


def as_it_is(app: ASGIApp, store: Store) -> ASGIApp:
    """The server."""
    del store
    return app


def without_request_ids(app: ASGIApp, store: Store) -> ASGIApp:
    """A server that ignores which approval a hermes client names."""
    del store

    async def ignoring(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        async def renamed() -> Any:
            message = await receive()
            return {**message, "body": message.get("body", b"").replace(b"request_id", b"ignored_id")}

        await app(scope, renamed, send)

    return ignoring  # pyright: ignore[reportReturnType]  # a scope is any mapping


async def check_a_request_id_names_one_approval(around: Around) -> None:
    """P8: a hermes client that answers an older approval approves nothing that is open now."""
    counted = Counted()
    setting = Setting(tools=(counted,), judge=AsksAbout(frozenset({"touch"})), around=around)
    async with (
        ChaosServer([CallTool("touch", {"n": 1})], [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        run_id = await server.start()
        await server.until(run_id, "approval.request")
        late = {"choice": "once", "request_id": "apr_older"}
        answer = await server.call("POST", f"/v1/runs/{run_id}/approval", body=late)
        assert (answer.status, counted.done) == (409, []), "it approved what is open now"


class IgnoresTheMaximum(ModeAccess):
    """Lets any key that may approve set any mode."""

    @override
    def allowed(self) -> Sequence[ApprovalMode]:
        return MODES


async def check_an_added_key_stays_within_mode_max(access: type[ModeAccess]) -> None:
    """P13: only the configuration's own keys make a session ask less than approvals.mode_max."""
    added = AddedKeys(MemoryStore(MemoryDisk()), SystemClock())
    await added.add("bot", ["chat", "approve"])
    modes = access(KeyRing([ApiKey("owner", "secret")], added), "ask")
    begin_call("bot")
    for mode in ("edits", "workspace"):
        with suppress(Problem):
            modes.check(mode)
            raise AssertionError(f"an added key set {mode}")


SABOTAGES: tuple[Sabotage, ...] = (
    Sabotage("P13", check_an_added_key_stays_within_mode_max, ModeAccess, IgnoresTheMaximum),
    Sabotage("P8", check_a_request_id_names_one_approval, as_it_is, without_request_ids),
    Sabotage("P11", check_nobody_else_is_in_a_chat, FrontEndChat, ForgetsTheUser),
    Sabotage("P2", check_what_was_accepted_is_there_after_a_restart, MemoryStore, Forgets),
    Sabotage("P2", check_the_same_request_has_one_effect, MemoryStore, TakesTwice),
    Sabotage("P4", check_a_run_ends_once, MemoryStore, EndsTwice),
    Sabotage("P4", check_completed_means_that_the_model_said_so, MemoryStore, SaysCompleted),
    Sabotage("P7", check_every_cursor_goes_on_where_it_stood, MemoryStore, SkipsOne),
    Sabotage("P7", check_a_cursor_of_an_earlier_log_skips_nothing, Setting, without_epochs),
    Sabotage("P7", check_who_joins_late_gets_every_frame, SharedFrames, CoversEveryCursor),
    Sabotage("P10", check_a_stuck_tool_holds_up_nobody_else, RunnerLimits(), RunnerLimits(runs_max=1)),
    Sabotage("P11", check_a_stranger_learns_nothing, locked, Setting),
    Sabotage("P11", check_a_stranger_learns_nothing, locked, locked_behind_the_lookup),
    Sabotage("P11", check_a_cookie_alone_opens_nothing, locked, takes_the_cookie_alone),
    Sabotage("P11", check_a_ticket_is_for_one_path, locked, takes_a_ticket_for_any_path),
    Sabotage("P11", check_a_key_does_only_what_its_scopes_say, locked, minds_no_scope),
    Sabotage("P11", check_a_key_that_the_model_says_is_not_shown, Redactor(["sk-test-of-a-key"]), NO_SECRETS),
    Sabotage("P11", check_a_key_that_a_client_sends_is_not_kept, Redactor, LeavesInputsAlone),
    Sabotage("P12", check_bad_requests_leave_nothing_behind, MemoryStore, CreatesWhatIsAskedFor),
)
