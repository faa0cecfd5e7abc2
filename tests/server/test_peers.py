"""Servers that share a store ask each other what only one of them knows, and believe only each other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace
from typing_extensions import override

from features.undo.world import Changes, model, write
from holdfast import events as e
from holdfast.api.live import BackgroundJobShown, BackgroundOutput
from holdfast.chaos import ChaosServer, Hang
from holdfast.features.postgres.peers.signatures import HEADER, WINDOW_MS, PeerSignatures, Question
from holdfast.features.undo.snapshots import Snapshots
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.shared_notes import cluster_secret
from holdfast.redaction import Redactor
from holdfast.server.options import ApiKey, Limits, ServerOptions
from holdfast.server.sessions.children import OUTPUT_CHARS_MAX
from models.calls.calling import TestClock
from runner.memory_nodes import Cluster, NodeStore
from serving import Served, Setting, served, target_of
from stream_server import stream_server
from tables import for_each_row

JOB = BackgroundJobShown(job_id="job-1", run_id="", command="make watch", running=True, started_at=1.0)
LIVE_AT_ONCE = ServerOptions(limits=Limits(live_after_s=0.01, live_every_s=0.01))


def one_job(server: str, session_id: str) -> list[BackgroundJobShown]:
    """The process that a server runs for whatever session."""
    del session_id
    return [structs.replace(JOB, job_id=f"job-{server}")]


@dataclass
class Pair:
    """Two servers; the second is often asked about what the first does."""

    chaos: ChaosServer
    stores: list[NodeStore] = field(default_factory=list[NodeStore])
    servers: list[Served] = field(default_factory=list[Served])


@asynccontextmanager
async def pair(
    chaos: ChaosServer, options: ServerOptions = LIVE_AT_ONCE, *, workspaces: tuple[Path, ...] = ()
) -> AsyncGenerator[Pair]:
    cluster, made = Cluster(), Pair(chaos)
    async with AsyncExitStack() as stack:
        for nth, name in enumerate("ab"):
            store = cluster.join(name, "shared")
            workspace = workspaces[nth] if workspaces else Path("/nowhere")
            here = replace(options, jobs=partial(one_job, name))
            setting = Setting(store=store, options=here, workspace=workspace)
            server = await stack.enter_async_context(served(target_of(chaos), setting=setting))
            store.url = server.url
            made.stores.append(store)
            made.servers.append(server)
        yield made


async def test_any_server_shows_the_live_line_and_the_processes_of_a_run_at_another_one() -> None:
    """P3: what is under way is visible, whichever server is asked."""
    async with ChaosServer([Hang()]) as chaos, pair(chaos) as both:
        a, b = both.servers
        run_id = await a.start(session_id="s")
        await chaos.seen.until_body(1)
        async for frame in b.frames(run_id):
            if frame.data.get("event") == "live" and frame.data["text"]:
                break
        _, live = await b.get("/api/sessions/s/live")
        assert (live["server"], live["known"]) == ("a", True)
        assert live["lines"][run_id]
        assert [(job["job_id"], job["command"]) for job in live["background"]] == [("job-a", "make watch")]
        _, shown = await b.get(f"/v1/runs/{run_id}")
        assert shown["live"]
        _, page = await b.get("/api/sessions/s/messages")
        assert page["live"][run_id]
        await homed(both.stores[0], "t", home="volume:shared")
        _, live = await b.get("/api/sessions/t/live")
        assert sorted(job["job_id"] for job in live["background"]) == ["job-a", "job-b"]


@for_each_row("home", ["node:a", "volume:shared"])
async def test_a_process_is_read_and_stopped_at_the_server_whose_child_it_is(home: str) -> None:
    """P11: with its secrets left out, also one that begins where the output is cut."""
    secret, cluster = "sk-proj-0123456789abcdef", Cluster()
    stopped: list[str] = []

    async def read(session_id: str, job_id: str) -> BackgroundOutput | None:
        output = f"key {secret}\n" + "x" * (OUTPUT_CHARS_MAX - 10) + f"\nkey {secret}\n"
        job = structs.replace(JOB, command=f"serve --key {secret}")
        return BackgroundOutput(job=job, output=output) if (session_id, job_id) == ("s", "job-1") else None

    async def stop(session_id: str, job_id: str) -> BackgroundOutput | None:
        stopped.append(job_id)
        return await read(session_id, job_id)

    async with ChaosServer() as chaos, AsyncExitStack() as stack:
        servers: list[Served] = []
        for name in "ab":
            store = cluster.join(name, "shared")
            options = replace(LIVE_AT_ONCE, read_job=read, stop_job=stop) if name == "a" else LIVE_AT_ONCE
            setting = Setting(store=store, options=options, secrets=Redactor([secret]))
            servers.append(await stack.enter_async_context(served(target_of(chaos), setting=setting)))
            store.url = servers[-1].url
        await homed(cluster.alive[0], "s", home=home)
        _, shown = await servers[1].get("/api/sessions/s/processes/job-1")
        assert (shown["job"]["server"], shown["job"]["command"]) == ("a", "serve --key [redacted]")
        assert (shown["output"], shown["is_cut"]) == ("key [redacted]\n", True)
        status, _ = await servers[1].post("/api/sessions/s/processes/job-1/stop")
        assert (status, stopped) == (200, ["job-1"])
        status, refused = await servers[1].get("/api/sessions/s/processes/job-2")
        assert (status, refused["error"]["code"]) == (404, "process_not_found")


async def test_a_server_that_does_not_answer_costs_a_bounded_wait_and_is_said_to_be_unknown() -> None:
    """P3: nobody waits for a server that hangs, and nobody is told a guess."""

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with stream_server(hang) as hanging, ChaosServer([Hang()]) as chaos, pair(chaos) as both:
        a, b = both.servers
        run_id = await a.start(session_id="s")
        await chaos.seen.until_body(1)
        both.stores[0].url = f"http://127.0.0.1:{hanging}"
        _, live = await b.get("/api/sessions/s/live")
        assert (live["server"], live["known"], live.get("lines", {})) == ("a", False, {})
        _, shown = await b.get(f"/v1/runs/{run_id}")
        assert (shown["status"], shown["mark"]) == (
            "running",
            "Server a isn't responding, so the run's status is unknown",
        )


async def test_files_are_read_and_written_at_the_server_that_has_them(tmp_path: Path) -> None:
    places = (tmp_path / "a", tmp_path / "b")
    for place in places:
        place.mkdir()
    (places[0] / "x y.txt").write_text("from a")
    async with ChaosServer() as chaos, pair(chaos, workspaces=places) as both:
        a, b = both.servers
        await homed(both.stores[0], "s", home="node:a")
        path = "/api/sessions/s/files/content?path=x%20y.txt"
        answer = await b.call("GET", path)
        assert (answer.status, answer.body) == (200, b"from a")
        assert answer.headers["ETag"] == (await a.call("GET", path)).headers["ETag"]
        _, listed = await b.get("/api/sessions/s/files")
        assert [one["name"] for one in listed["entries"]] == ["x y.txt"]
        answer = await b.call("PUT", "/api/sessions/s/files/content?path=new.txt", body=b"from b")
        assert (answer.status, (places[0] / "new.txt").read_text()) == (201, "from b")
        assert not (places[1] / "new.txt").exists()
        await homed(both.stores[0], "t", home="node:gone")
        status, refused = await b.get("/api/sessions/t/files")
        assert (status, refused["error"]["code"]) == (409, "files_elsewhere")
        assert "server gone, which isn't running" in refused["error"]["message"]


class Homed(NodeStore):
    """A node for which all sessions have one home."""

    where = "node:a"

    @override
    def home(self, session_id: str) -> str:
        del session_id
        return self.where


@pytest.mark.parametrize("where", ["node:a", "volume:shared"])
async def test_changes_are_undone_at_the_server_that_has_the_snapshots(tmp_path: Path, where: str) -> None:
    """P13: on a shared volume, too, where every server has the files."""
    workspace, cluster = tmp_path / "ws", Cluster()
    await asyncio.to_thread(workspace.mkdir)
    async with ChaosServer(choose=model) as chaos, AsyncExitStack() as stack:
        servers: list[Served] = []
        for name in "ab":
            store = Homed(cluster, name, (f"node:{name}", "volume:shared"))
            store.where = where
            cluster.alive.append(store)
            tool, snapshots = Changes([write("new.txt", "hello\n")]), Snapshots(tmp_path / name)
            setting = Setting(store=store, tools=(tool,), features={"undo": snapshots})
            servers.append(await stack.enter_async_context(served(target_of(chaos), setting=setting)))
            store.url = servers[-1].url
        run_id = await servers[0].start("go", session_id="s", workspace=str(workspace))
        await servers[0].ended(run_id)
        _, changes = await servers[1].get(f"/v1/runs/{run_id}/changes")
        assert [one["path"] for one in changes["files"]] == ["new.txt"]
        status, done = await servers[1].post(f"/v1/runs/{run_id}/undo", {"files": ["new.txt"]})
        assert (status, done["files"]) == (200, ["new.txt"])
        assert not await asyncio.to_thread((workspace / "new.txt").exists)


async def homed(store: NodeStore, session_id: str, *, home: str) -> None:
    """A session whose only run has touched a machine and ended."""
    run_id = "r1" if session_id == "s" else "r2"
    begun = [
        e.SessionCreated(at_ms=1, epoch="e"),
        e.MessageAccepted(at_ms=1, message_id=f"m{session_id}", text="hi"),
        e.RunQueued(at_ms=1, run_id=run_id, message_id=f"m{session_id}"),
    ]
    await store.append(session_id, begun)
    fence = await store.claim(session_id)
    worked = [
        e.MessageDispatched(at_ms=1, run_id=run_id, message_id=f"m{session_id}"),
        e.RunStarted(at_ms=1, run_id=run_id),
        e.CallStarted(at_ms=1, run_id=run_id, call_id="c1", turn=1),
        e.AttemptStarted(at_ms=1, run_id=run_id, call_id="c1", attempt_id="a1", target="main"),
        e.ToolAsked(at_ms=1, run_id=run_id, tool_call_id="t1", name="shell", args={}),
        e.CallEnded(at_ms=1, run_id=run_id, call_id="c1", finish="tools"),
        e.ToolStarted(at_ms=1, run_id=run_id, tool_call_id="t1", effect_key="k", home=home),
        e.ToolEnded(at_ms=1, run_id=run_id, tool_call_id="t1", ok=True, result=""),
        e.RunEnded(at_ms=1, run_id=run_id, outcome="completed"),
    ]
    await store.append_run(session_id, worked, fence=fence)
    await store.release(session_id, fence)


KEYED = replace(LIVE_AT_ONCE, keys=(ApiKey("team", "s3cret-of-the-team"),))
TARGET = "/api/sessions/s/live?x=%20"
QUESTION = Question("a", "GET", TARGET)


@dataclass(frozen=True)
class Sealed:
    """How a question is sealed; as it stands, it is right."""

    says: str = ""  # what the refusal says
    secret: bytes | None = None
    early_ms: int = 0
    question: Question = QUESTION
    key: str = "team"
    status: int = 401


SEALS = (
    Sealed(status=200),
    Sealed("isn't valid here", secret=b"another"),
    Sealed("isn't valid here", secret=b""),
    Sealed("off by more than 5 seconds", early_ms=2 * WINDOW_MS),
    Sealed("off by more than 5 seconds", early_ms=-2 * WINDOW_MS),
    Sealed("isn't valid here", question=structs.replace(QUESTION, target="/api/sessions/t/live")),
    Sealed("isn't valid here", question=structs.replace(QUESTION, method="POST")),
    Sealed("isn't valid here", question=structs.replace(QUESTION, to="b")),
    Sealed("its body doesn't match", question=structs.replace(QUESTION, body=b"another")),
    Sealed("a key that isn't valid here", key="revoked", status=403),
)


async def test_only_a_fresh_question_of_a_server_of_the_cluster_is_answered_and_only_once() -> None:
    """P11: the signature covers everything, and the key that it names must be valid here."""
    async with ChaosServer() as chaos, pair(chaos, KEYED) as both:
        server = both.servers[0]

        async def answered(signature: str) -> tuple[int, str]:
            answer = await server.call("GET", TARGET, headers={HEADER.decode(): signature})
            return answer.status, answer.json.get("error", {}).get("message", "")

        await both.stores[0].append("s", [e.SessionCreated(at_ms=1, epoch="e")])
        for one in SEALS:
            clock = TestClock()
            clock.jumped_ms = SystemClock().now_ms() - clock.now_ms() - one.early_ms
            signatures = PeerSignatures(clock, "b")
            signatures.key = await cluster_secret(both.stores[0]) if one.secret is None else one.secret
            signature = signatures.sign(one.question, key_name=one.key)
            status, said = await answered(signature)
            assert (status, one.says in said) == (one.status, True), (one, said)
            if status == 200:
                status, said = await answered(signature)
                assert (status, "already used" in said) == (401, True)
        assert (await answered("bm90aGluZw"))[0] == 401
        assert (await server.get(TARGET))[0] == 401
