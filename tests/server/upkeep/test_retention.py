"""Which old sessions stay because something still uses them, and what goes with those that are purged."""

from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from agent.world import Effect, asks_about, messages, roles
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.codec import UnreadableEvent
from holdfast.features.automations.events import TriggerCreated
from holdfast.features.automations.values import TRIGGER, AfterRun, AtTime, EveryTimes, TriggerSettings
from holdfast.features.channels.events import ChannelChatBound
from holdfast.features.delegation.tools import child_tools
from holdfast.host.tools import SessionProcesses
from holdfast.interfaces.ids import channel_log_id
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.supervisor import RunnerLimits
from holdfast.tools.shell.background import Background
from holdfast.values import CHANNEL
from server.upkeep.purged_stores import Counting, OneIsBad
from serving import Served, Setting, limited, served, target_of
from tools.calls import QUICK, shell

Kind = TypeVar("Kind", bound=e.Event)
DAY_MS = 86_400_000
WEEK_S = 7 * 86_400.0


async def look(server: Served, store: Counting) -> None:
    """Let the server look for old sessions, and wait for the end of that look."""
    for _ in range(2):  # the second look begins when the first is over
        seen = store.looks.count("sessions")
        await store.append("x", [e.SessionCreated(at_ms=1, epoch="e", source="page")])
        await server.call("DELETE", "/api/sessions/x?now=true")
        await store.until("sessions", seen + 1)


async def until(store: Counting, session_id: str, kind: type[Kind], times: int = 1) -> Kind:
    """The nth event of this kind, as soon as the log has it."""
    found: list[Kind] = []
    async for records in store.follow(session_id):
        found += [one.event for one in records if isinstance(one.event, kind)]
        if len(found) >= times:
            break
    return found[times - 1]


def delegate(request: SeenRequest) -> Script:
    """The parent delegates to a sub-agent in the background, which acts."""
    body = next(str(one["content"]) for one in reversed(messages(request)) if one["role"] == "user")
    has_result = "tool" in roles(request)
    if "inner task" in body:
        return [Say("acted")] if has_result else [CallTool("act")]
    if body.startswith("go") and not has_result:
        return [CallTool("delegate", {"task": "inner task", "background": True})]
    return [Say("fine")]


async def test_a_session_stays_while_its_sub_agent_works_and_later_goes_with_it(tmp_path: Path) -> None:
    """P2, P8: what waits for an answer is there for it; what is deleted leaves nothing behind."""
    disk = MemoryDisk()
    store = Counting(disk)
    tools = (Effect("act", list[str]()), *child_tools())
    setting = replace(limited(sessions_max={"api": 3}), tools=tools, judge=asks_about("act"))
    setting = replace(setting, workspace=tmp_path)
    async with (
        ChaosServer(choose=delegate) as chaos,
        served(target_of(chaos), store=store, setting=setting) as server,
    ):

        async def put_newer(name: str) -> None:
            for nth in (1, 2, 3):
                await server.ended(await server.start("hi", session_id=f"{name} {nth}"))

        await server.ended(await server.start("hi", session_id="idle"))
        await server.ended(await server.start("go", session_id="parent"))
        (child_id,) = (await store.session_ids("ses_")) or [""]
        asked = await until(store, child_id, e.ApprovalAsked)
        await put_newer("newer")
        await look(server, store)
        assert sorted(disk.logs) == sorted(["parent", child_id, "newer 1", "newer 2", "newer 3"])
        answer = {"choice": "once", "approval_id": asked.approval_id}
        assert (await server.post(f"/v1/runs/{asked.run_id}/approval", answer))[0] == 200
        await until(store, "parent", e.RunEnded, times=2)
        await until(store, child_id, e.ParentTold)
        followed = aiter(store.follow(child_id))
        await put_newer("newest")
        await look(server, store)
        async for _ in followed:
            pass  # its end is the purge
        assert sorted(disk.logs) == ["newest 1", "newest 2", "newest 3"]
    await store.close()


def used_by(session_id: str = "", *, when: EveryTimes | AfterRun | AtTime | None = None) -> TriggerSettings:
    when = when or EveryTimes(seconds=DAY_MS // 1000)
    return TriggerSettings(name="t", prompt="p", when=when, session_id=session_id)


async def test_sessions_that_triggers_and_chats_use_stay_however_old_they_are() -> None:
    """P14: a schedule continues its conversation; that of a trigger that is done is old like others."""
    disk = MemoryDisk()
    store, now_ms = Counting(disk), SystemClock().now_ms()
    then_ms = now_ms - 9 * DAY_MS
    old = ("daily", "watched", "paused", "done", "unused")
    for session_id in old:
        await store.append(session_id, [e.SessionCreated(at_ms=then_ms, epoch="e", source="api")])
    for session_id in ("chat before", "chat now"):
        await store.append(session_id, [e.SessionCreated(at_ms=then_ms, epoch="e", source="telegram")])
    for number, (settings, is_paused) in enumerate(
        (
            (used_by("daily"), False),
            (used_by(when=AfterRun(session_id="watched")), False),
            (used_by("paused"), True),
            (used_by("done", when=AtTime(at_ms=then_ms)), False),
        )
    ):
        begun = e.SessionCreated(at_ms=now_ms, epoch="e", source=TRIGGER)
        created = TriggerCreated(at_ms=now_ms, settings=settings, paused=is_paused)
        await store.append(f"trg_{number}", [begun, created])
    bound = [ChannelChatBound(at_ms=1, chat="1", session_id=f"chat {which}") for which in ("before", "now")]
    log_id = channel_log_id("tg")
    await store.append(log_id, [e.SessionCreated(at_ms=1, epoch="e", source=CHANNEL, title="tg")])
    await store.append_run(log_id, bound, fence=await store.claim(log_id))
    setting = limited(sessions_kept_s={"api": WEEK_S, "telegram": WEEK_S})
    setting = replace(setting, runner=RunnerLimits(resume_runs="asked"))
    async with ChaosServer() as chaos, served(target_of(chaos), store=store, setting=setting) as server:
        await look(server, store)
    assert sorted(one for one in disk.logs if not one.startswith(("trg_", log_id))) == [
        "chat now",
        "daily",
        "paused",
        "watched",
    ]
    await store.close()


async def test_old_sessions_stay_while_a_log_that_may_name_them_cannot_be_read() -> None:
    """P3: what somebody deleted goes all the same."""
    store = OneIsBad(unread=UnreadableEvent("no event", where="session bad seq 2", body=b"{"))
    await store.append("bad", [e.SessionCreated(at_ms=1, epoch="e", source=TRIGGER)])
    await store.append("old", [e.SessionCreated(at_ms=1, epoch="e", source="openai")])
    deleted = e.SessionDeleted(at_ms=1, purge_at_ms=1)
    await store.append("deleted", [e.SessionCreated(at_ms=1, epoch="e"), deleted])
    followed = aiter(store.follow("deleted", after=2))
    setting = Setting(runner=RunnerLimits(resume_runs="asked"))
    async with ChaosServer() as chaos, served(target_of(chaos), store=store, setting=setting):
        assert [records async for records in followed] == []
    assert sorted(store.disk.logs) == ["bad", "old"]
    await store.close()


async def test_background_processes_end_when_their_session_is_purged(tmp_path: Path) -> None:
    """P5, P11: also at the next start, if the session went without them; those of others continue."""
    store, folder = Counting(), tmp_path / "jobs"

    def on(background: Background) -> Setting:
        setting = Setting(store=store, tools=(shell(background),), workspace=tmp_path)
        upkeep = SessionProcesses(background).upkeep(store)
        return replace(setting, options=replace(setting.options, upkeep=upkeep))

    call = CallTool("shell", {"command": "sleep 271", "background": True})
    background = Background(folder, now_ms=lambda: 1, kill_patience=QUICK)
    async with (
        ChaosServer(*([[call], [Say("started")]] * 3)) as chaos,
        served(target_of(chaos), setting=on(background)) as server,
    ):
        for session_id in ("now", "left", "kept"):
            await server.ended(await server.start(session_id=session_id))
        (gone,) = background.jobs("now")
        (left,) = background.jobs("left")
        assert (await server.call("DELETE", "/api/sessions/now?now=true")).status == 200
        assert (gone.running, background.jobs("now")) == (False, [])
        assert not list(folder.glob(f"{gone.state.job_id}.*"))
        assert left.running
    await background.close()
    assert await store.purge("left")  # as by another server, while this one is away
    await store.append("left", [e.SessionCreated(at_ms=1, epoch="new", source="page")])  # the same id again
    background = Background(folder, now_ms=lambda: 1, kill_patience=QUICK)
    adopted = {job.state.session_id: job for job in await background.adopt()}
    assert [job.running for job in adopted.values()] == [True, True]
    async with ChaosServer() as chaos, served(target_of(chaos), setting=on(background)):
        await adopted["left"].ended
        assert not adopted["left"].running
        assert adopted["kept"].running
    await background.kill(adopted["kept"])
    await background.close()
    await store.close()
