"""Triggers at work: one owner for each, which does what its log and the clock ask for."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.features.automations import state as fold
from holdfast.features.automations.events import (
    TriggerDue,
    TriggerFired,
    TriggerGaveUp,
    TriggerRunEnded,
    TriggerScriptEnded,
    TriggerScriptStarted,
    TriggerSkipped,
)
from holdfast.features.automations.prompts import Delivered, delivered, prompt_for
from holdfast.features.automations.schedules import BadSchedule, CronSchedule, Schedule, zone_named
from holdfast.features.automations.state import AFTER, PendingFire, Trigger, TriggerFire
from holdfast.features.automations.steps import (
    AppendEvents,
    Fire,
    StartScript,
    Step,
    StopRuns,
    TriggerMoment,
    WaitForInstant,
    decided,
    next_step,
    schedule_of,
)
from holdfast.features.automations.values import (
    TRIGGER,
    AfterRun,
    OnWebhook,
    TriggerSettings,
    When,
)
from holdfast.features.channels.events import (
    ChannelResultRequested,
)
from holdfast.features.channels.http.folds import ChannelFolds
from holdfast.features.channels.http.places import resolved_place
from holdfast.interfaces.journal import (
    Declined,
    Fence,
    IdempotencyKey,
    IfSessionKnown,
    Notes,
    Reading,
    Replayed,
    Store,
)
from holdfast.policy.tool_names import SKILL
from holdfast.racing import race, wait_through_cancel
from holdfast.runner.inbox import Inbox, IncomingMessage, NotSent, Sent
from holdfast.server.deps import RouteDeps
from holdfast.values import AUTOMATION, RunSettings

_log = logging.getLogger(__name__)

LOOK_S = 30.0  # how often to look at the clock, which may have been set, or gone on while the computer slept
READ_MAX = 1_000
LONG_MS = 600_000
CHECKPOINT_EVENTS = 500  # after so many events the state is noted, so that the next start needn't fold them
NEVER_MS = 253_370_764_800_000
_Checkpoint = msgspec.json.Decoder(Trigger)


async def schedule_for(when: When, *, anchor_ms: int) -> Schedule | None:
    """Return the schedule of a trigger; None if it has none. Raises BadSchedule."""
    return await asyncio.to_thread(schedule_of, when, anchor_ms=anchor_ms, zones=zone_named)


async def trigger_state(store: Store, trigger_id: str) -> Trigger:
    """The trigger at the end of its log; without settings if there is no such trigger."""
    trigger = await _noted(store, trigger_id)
    await catch_up(store, trigger_id, trigger)
    return trigger


async def catch_up(journal: Reading, trigger_id: str, trigger: Trigger) -> None:
    """Apply what the log has by now."""
    while records := await journal.read(trigger_id, after=trigger.last_seq, limit=READ_MAX):
        for record in records:
            fold.apply(trigger, record.seq, record.event)


async def sessions_in_use(deps: RouteDeps) -> set[str]:
    """The sessions that triggers write to, or whose runs they wait for."""
    found = set[str]()
    for row in await deps.store.logs(TRIGGER):
        trigger = await trigger_state(deps.store, row.session_id)
        if trigger.can_fire and trigger.settings is not None:
            when = trigger.settings.when
            found |= {trigger.settings.session_id, when.session_id if isinstance(when, AfterRun) else ""}
    return found - {""}


def _note_key(trigger_id: str) -> str:
    return f"session/{trigger_id}/state"


async def _noted(notes: Notes, trigger_id: str) -> Trigger:
    raw = await notes.note(_note_key(trigger_id))
    with suppress(msgspec.MsgspecError):  # of another version: the log has it all
        return _Checkpoint.decode(raw) if raw else Trigger()
    return Trigger()


async def own(trigger_id: str, fence: Fence, deps: RouteDeps) -> None:
    """Fire the trigger until it's deleted or this node loses its log."""
    folds = deps.singleton(ChannelFolds)
    await TriggerOwner(trigger_id, fence, agent=deps.agent, inbox=deps.inbox, channels=folds).work()


class TriggerOwner:
    """Fires one trigger for as long as this node owns its log."""

    def __init__(
        self, trigger_id: str, fence: Fence, *, agent: AgentDeps, inbox: Inbox, channels: ChannelFolds
    ) -> None:
        self._trigger_id = trigger_id
        self._fence = fence
        self._agent = agent
        self._store = agent.store
        self._inbox = inbox
        self._channels = channels
        self._clock = agent.clock
        self._trigger = Trigger()
        self._changed = asyncio.Event()
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._scripts: set[str] = set()  # keys of the scripts that this owner has started
        # Endings of runs and scripts that aren't on the log yet.
        self._ended: dict[str, TriggerRunEnded | TriggerScriptEnded] = {}
        self._after: list[PendingFire] = []  # runs of another session that ended
        self._schedule: tuple[When, int, Schedule | None] | None = None
        self._noted_seq = 0

    async def work(self) -> None:
        """Run the trigger until it's deleted."""
        self._trigger = await trigger_state(self._store, self._trigger_id)
        self._noted_seq = self._trigger.last_seq
        following = asyncio.create_task(self._follow_log(), name=f"follow {self._trigger_id}")
        try:
            while not self._trigger.is_deleted:
                self._changed.clear()
                await self._step()
                await catch_up(self._store, self._trigger_id, self._trigger)
                await self._checkpoint()
        finally:
            tasks = [following, *self._watching.values()]
            for task in tasks:
                task.cancel()
            await wait_through_cancel(*tasks)

    async def _follow_log(self) -> None:
        async for _ in self._store.follow(self._trigger_id, after=self._trigger.last_seq):
            self._changed.set()

    async def _checkpoint(self) -> None:
        if self._trigger.last_seq - self._noted_seq >= CHECKPOINT_EVENTS:
            self._noted_seq = self._trigger.last_seq
            await self._store.put_note(_note_key(self._trigger_id), msgspec.json.encode(self._trigger))

    async def _step(self) -> None:
        """Take one step, or wait for the next."""
        self._watch()
        for ended in list(self._ended.values()):
            await self._append([ended])
            del self._ended[ended.key]
            return
        step = await self._next_step()
        match step:
            case AppendEvents():
                await self._record(step)
            case Fire():
                await self._fire(step.fire)
            case StartScript():
                await self._append([TriggerScriptStarted(at_ms=self._clock.now_ms(), key=step.fire.key)])
                self._scripts.add(step.fire.key)
            case StopRuns():
                for fire in step.fires:
                    await self._stop(fire)
                await self._record(step.then)
            case WaitForInstant():
                await self._wait(step)

    async def _next_step(self) -> Step:
        trigger, moment = self._trigger, TriggerMoment(self._trigger_id, self._clock.now_ms())
        if self._after and trigger.settings is not None:
            return decided(trigger, self._after.pop(0), moment)
        schedule = await self._schedule_now()
        if isinstance(schedule, CronSchedule) and moment.now_ms - trigger.cursor_ms > LONG_MS:
            # Counting what was missed for a year takes a while.
            return await asyncio.to_thread(next_step, trigger, schedule, moment)
        return next_step(trigger, schedule, moment)

    async def _schedule_now(self) -> Schedule | None:
        settings, anchor_ms = self._trigger.settings, self._trigger.anchor_ms
        if settings is None:
            return None
        known = self._schedule
        if known is None or known[:2] != (settings.when, anchor_ms):
            try:
                schedule = await schedule_for(settings.when, anchor_ms=anchor_ms)
            except BadSchedule as error:
                _log.error("trigger %s never fires: %s", self._trigger_id, error)
                schedule = None
            self._schedule = known = (settings.when, anchor_ms, schedule)
        return known[2]

    async def _wait(self, step: WaitForInstant) -> None:
        """WaitForInstant until something is appended or the time has come, by whatever the clock is then."""
        left_s = (step.until_ms - self._clock.now_ms()) / 1000 if step.until_ms else LOOK_S
        if step.until_ms and left_s <= 0:
            return
        sleeping = asyncio.create_task(self._clock.sleep_s(min(max(left_s, 0.001), LOOK_S)))
        await race(asyncio.create_task(self._changed.wait()), sleeping)

    async def _tell_that_it_gave_up(self, settings: TriggerSettings, gave_up: TriggerGaveUp) -> None:
        """Tell the chats that it is paused; the key of a delivery is the same after a crash."""
        text = (
            f"{settings.name} is paused: its last {gave_up.failures} runs failed. "
            f"`holdfast triggers resume {self._trigger_id}` starts it again."
        )
        _log.warning("%s", text)
        for place, log_id, chat in await self._places(settings):
            # The place in the log tells this time from the next one, and the chat this one from others.
            message = f"gave_up.{self._trigger_id}.{self._trigger.last_seq}:{chat}"
            intended = e.DeliveryIntended(at_ms=self._clock.now_ms(), chat=chat, message=message, body=text)
            once = self._once(f"{place}/{intended.key}", log_id)
            await self._store.append(log_id, [intended], when=[IfSessionKnown()], idempotency_key=once)

    async def _record(self, step: AppendEvents) -> None:
        gave_up = next((one for one in step.events if isinstance(one, TriggerGaveUp)), None)
        if gave_up is not None and self._trigger.settings is not None:
            await self._tell_that_it_gave_up(self._trigger.settings, gave_up)
        result = await self._append(step.events, key=step.key)
        if isinstance(result, Replayed):
            # It was due before, and the clock or an edit led here again.
            due = next(one for one in step.events if isinstance(one, TriggerDue))
            skipped = TriggerSkipped(
                at_ms=due.at_ms, key=due.key, due_at_ms=due.due_at_ms, why="duplicate", seen_seq=due.seen_seq
            )
            await self._append([*(one for one in step.events if one is not due), skipped])

    async def _append(self, events: Sequence[e.Event], *, key: str = "") -> object:
        once = self._once(key, self._trigger_id) if key else None
        return await self._store.append_run(self._trigger_id, events, fence=self._fence, idempotency_key=once)

    def _once(self, key: str, log_id: str) -> IdempotencyKey:
        # The same for a message in its session's log and for what is due in the trigger's, but for the log.
        return IdempotencyKey(f"\ntrigger/{self._trigger_id}/{log_id}/{key}", "", b"", NEVER_MS)

    async def _fire(self, fire: TriggerFire) -> None:
        """Put the message and its run into the session's log; if they are there already, nothing happens."""
        settings = self._trigger.settings
        assert settings is not None, "next_step has looked"
        message = IncomingMessage(
            text=prompt_for(
                settings, fire, await self._delivered(fire.blob), await self._delivered(fire.script_blob)
            ),
            settings=_run_settings(settings, self._trigger_id, fire),
            source=AUTOMATION,
            client_id=self._trigger_id,
            message_id=fire.message_id,
            run_id=fire.run_id,
            key=self._trigger.api_key,
        )

        def once(_: Sent) -> IdempotencyKey:
            return self._once(fire.key, "session")

        if not settings.workspace and (session := await self._store.session(fire.session_id)) is not None:
            message = message.in_workspace(session.workspace)
        sent = await self._inbox.send(fire.session_id, message, once=once)
        now_ms = self._clock.now_ms()
        if isinstance(sent, NotSent):
            why = "queue_full" if sent.why == "queue_full" else "session_deleted"
            skipped = TriggerSkipped(at_ms=now_ms, key=fire.key, due_at_ms=fire.due_at_ms, why=why)
            await self._append([skipped])
        else:
            # Before the fire is over, so that a crash repeats it.
            await self._deliver(settings, fire)
            await self._append([TriggerFired(at_ms=now_ms, key=fire.key)])

    async def _deliver(self, settings: TriggerSettings, fire: TriggerFire) -> None:
        """Subscribe the chats to the run's results and requests."""
        for place, log_id, chat in await self._places(settings):
            wanted = ChannelResultRequested(
                at_ms=self._clock.now_ms(),
                chat=chat,
                session_id=fire.session_id,
                message_id=fire.message_id,
                by=self._trigger_id,
                title=settings.name,
            )
            once = self._once(f"{place}/{fire.key}", log_id)
            when = [IfSessionKnown()]
            result = await self._store.append(log_id, [wanted], when=when, idempotency_key=once)
            if isinstance(result, Declined):
                _log.warning("trigger %s: there is no channel for %s any more", self._trigger_id, place)

    async def _places(self, settings: TriggerSettings) -> list[tuple[str, str, str]]:
        """Return where results go: each place with its channel's log and its chat."""
        found: list[tuple[str, str, str]] = []
        for place in settings.deliver:
            log_id, chat = await resolved_place(self._store, self._channels, place)
            if chat:
                found.append((place, log_id, chat))
            else:
                _log.warning("trigger %s: the channel %s has no home chat", self._trigger_id, place)
        return found

    async def _delivered(self, blob: str) -> Delivered | None:
        if not blob:
            return None
        body = await self._store.blob(blob)
        return await asyncio.to_thread(delivered, body or b"")

    async def _stop(self, fire: TriggerFire) -> None:
        row = await self._store.run(fire.run_id)
        if row is None or row.status in {"stopping", "ended"}:
            return
        stop = e.StopRequested(
            at_ms=self._clock.now_ms(), run_id=fire.run_id, cause="replaced", by=self._trigger_id
        )
        await self._inbox.request_stop(fire.session_id, stop)

    def _watch(self) -> None:
        """Watch the runs that have no ending yet, and the session whose runs this waits for."""
        trigger = self._trigger
        wanted: dict[str, Any] = {
            fire.key: (self._until_ended, fire) for fire in trigger.open_fires if fire.key not in self._ended
        }
        for fire in trigger.due_fires:
            if fire.script == "started" and fire.key not in self._ended:
                wanted[fire.key] = (self._until_script_ended, fire)
        when = trigger.settings.when if trigger.settings else None
        if isinstance(when, AfterRun):
            wanted[when.session_id] = (self._until_others_end, when.session_id)
        for key in [key for key, task in self._watching.items() if task.done() or key not in wanted]:
            task = self._watching.pop(key)
            if task.done() and not task.cancelled():
                task.result()  # raises what went wrong
            task.cancel()
        for key, (watch, what) in wanted.items():
            if key not in self._watching:
                self._watching[key] = asyncio.create_task(watch(what), name=f"watch {key}")

    async def _until_ended(self, fire: TriggerFire) -> None:
        row = await self._store.run(fire.run_id)
        outcome = row.outcome if row is not None else None
        if row is not None and row.status != "ended":
            async for records in self._store.follow(fire.session_id, after=row.last_seq, pace="seldom"):
                endings = [one.event for one in records if isinstance(one.event, e.RunEnded)]
                ended = next((one for one in endings if one.run_id == fire.run_id), None)
                if ended is not None:
                    outcome = ended.outcome
                    break
        now_ms = self._clock.now_ms()
        self._ended[fire.key] = TriggerRunEnded(at_ms=now_ms, key=fire.key, outcome=outcome)
        self._changed.set()

    async def _until_script_ended(self, fire: TriggerFire) -> None:
        from holdfast.features.automations.scripts import run_script, script_lost  # only scripts need them

        settings, began_s = self._trigger.settings, self._clock.monotonic_s()
        assert settings is not None, "a trigger begins with its settings"
        if fire.key in self._scripts:
            result = await run_script(self._agent, settings, fire)
        else:  # of a server that crashed
            result = await script_lost(fire)
        self._ended[fire.key] = TriggerScriptEnded(
            at_ms=self._clock.now_ms(),
            key=fire.key,
            outcome=result.outcome,
            why=result.why,
            blob=await self._store.put_blob(result.output.encode()) if result.output else "",
            ms=int(1000 * (self._clock.monotonic_s() - began_s)),
        )
        self._changed.set()

    async def _until_others_end(self, session_id: str) -> None:
        after = self._trigger.seen_seq
        async for records in self._store.follow(session_id, after=after, pace="seldom"):
            own = {fire.run_id for fire in self._trigger.fires.values()}
            for record in records:
                event = record.event
                if isinstance(event, e.RunEnded) and event.run_id not in own:
                    pending = PendingFire(key=AFTER + event.run_id, at_ms=event.at_ms, seen_seq=record.seq)
                    self._after.append(pending)
            self._changed.set()


def _run_settings(settings: TriggerSettings, trigger_id: str, fire: TriggerFire) -> RunSettings:
    """The rights of a run: those of the trigger, which are fewer for one that a webhook starts."""
    approvals = settings.approvals or ("unattended" if isinstance(settings.when, OnWebhook) else "ask")
    return RunSettings(
        model=settings.model,
        workspace=settings.workspace,
        budget=settings.budget,
        tools=(*settings.tools, SKILL) if settings.tools and settings.skills else settings.tools,
        unattended=approvals == "unattended",
        offline=not settings.has_network,
        metadata={"trigger": trigger_id, "key": fire.key},
    )
