"""`holdfast triggers`: manages schedules and webhooks.

The client's calls for triggers.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

from holdfast.cli.attach import OK, Attached, with_server
from holdfast.cli.doctor.findings import counted
from holdfast.cli.terminal.columns import print_columns, print_json
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.client.client import Client, in_path
from holdfast.client.exchange import ClientRequest
from holdfast.features.automations.bodies import (
    FireShown,
    HookSecret,
    NextInstants,
    TriggerDeleted,
    TriggerHistory,
    TriggerList,
    TriggerMade,
    TriggerShown,
)
from holdfast.safe_text import safe


class TriggerCalls:
    """Triggers of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self) -> Sequence[TriggerShown]:
        """All triggers, oldest first."""
        return (await self._client.get("/api/triggers", TriggerList)).data

    async def add(self, fields: Mapping[str, Any]) -> TriggerMade:
        """Create a trigger. Only this response contains the webhook's secret."""
        return await self._client.post("/api/triggers", dict(fields), TriggerMade)

    async def next_instants(self, fields: Mapping[str, Any]) -> NextInstants:
        """The next five instants of a trigger that isn't saved."""
        return await self._client.post("/api/triggers/preview", dict(fields), NextInstants)

    async def edit(self, trigger_id: str, fields: Mapping[str, Any]) -> TriggerShown:
        """Change a trigger, from its next instant on."""
        path = f"/api/triggers/{in_path(trigger_id)}"
        return await self._client.send(ClientRequest("PATCH", path, dict(fields)), TriggerShown)

    async def change(
        self, trigger_id: str, change: Literal["pause", "resume", "run"], *, once: str = ""
    ) -> TriggerShown:
        """Pause, resume or run a trigger."""
        return await self._client.post(
            f"/api/triggers/{in_path(trigger_id)}/{change}", None, TriggerShown, once=once
        )

    async def answer_missed(self, trigger_id: str, *, run: bool) -> TriggerShown:
        """Say whether to make up for missed instants."""
        return await self._client.post(
            f"/api/triggers/{in_path(trigger_id)}/missed", {"run": run}, TriggerShown
        )

    async def new_hook_secret(self, trigger_id: str) -> HookSecret:
        """Replace the secret of a webhook."""
        return await self._client.post(f"/api/triggers/{in_path(trigger_id)}/secret", {}, HookSecret)

    async def history(self, trigger_id: str) -> TriggerHistory:
        """List a trigger's history, newest first."""
        return await self._client.get(f"/api/triggers/{in_path(trigger_id)}/history", TriggerHistory)

    async def remove(self, trigger_id: str) -> None:
        """Delete a trigger."""
        await self._client.send(
            ClientRequest("DELETE", f"/api/triggers/{in_path(trigger_id)}"), TriggerDeleted
        )


FAILED = 1
NO_SERVER = "No server is running, so this waits until you start `holdfast serve`. "


def when(at: float, zone: str = "") -> str:
    """A time in this zone, or else on this machine's clock, with its offset."""
    try:
        local = ZoneInfo(zone) if zone else None
    except (ValueError, OSError, KeyError):  # a server can know zones that this machine doesn't
        local = None
    return datetime.fromtimestamp(at, UTC).astimezone(local).isoformat(" ", "seconds")


class NoSuchTrigger(Exception):
    """No trigger, or several, have this id or name."""


def _with(flags: Mapping[str, object], work: Callable[[Attached], Awaitable[int]]) -> int:
    async def told(attached: Attached) -> int:
        try:
            return await work(attached)
        except NoSuchTrigger as error:
            echo_error(f"holdfast: {error}")
            return FAILED

    return with_server(flags, told, works="nothing")


def list_triggers(flags: Mapping[str, object], *, form: str) -> int:
    """Print all triggers."""

    async def work(attached: Attached) -> int:
        found = await TriggerCalls(attached.client).list()
        if form == "json":
            print_json(found)
        else:
            rows = [(one.id, _state(one), _next(one), one.when, one.name) for one in found]
            print_columns(("ID", "STATE", "NEXT", "WHEN", "NAME"), rows)
        return OK

    return _with(flags, work)


def show_trigger(flags: Mapping[str, object], name: str, *, form: str) -> int:
    """Print one trigger."""

    async def work(attached: Attached) -> int:
        found = await _named(attached, name)
        print_json(found) if form == "json" else _print(found)
        return OK

    return _with(flags, work)


def add_trigger(flags: Mapping[str, object], fields: Mapping[str, Any], *, form: str) -> int:
    """Create a trigger, and print its next times and, this once, its webhook secret."""

    async def work(attached: Attached) -> int:
        made = await TriggerCalls(attached.client).add(_in_folder(attached, fields))
        if form == "json":
            print_json(made)
            return OK
        _print(made)
        if made.secret:
            echo(f"Secret: {made.secret}")
            echo_error("Save this secret now. You can't see it again.")
        return OK

    return _with(flags, work)


def _in_folder(attached: Attached, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request, with the command's workspace for new sessions, like `holdfast run`."""
    if fields.get("session_id"):
        return fields  # a session has its own folder
    return {"workspace": str(attached.directory.settings.workspace), **fields}


def edit_trigger(flags: Mapping[str, object], name: str, fields: Mapping[str, Any]) -> int:
    """Change a trigger."""

    async def work(attached: Attached) -> int:
        found = await _named(attached, name)
        _print(await TriggerCalls(attached.client).edit(found.id, fields))
        return OK

    return _with(flags, work)


def change_trigger(flags: Mapping[str, object], name: str, change: Literal["pause", "resume", "run"]) -> int:
    """Pause, resume or run a trigger."""

    async def work(attached: Attached) -> int:
        found = await _named(attached, name)
        changed = await TriggerCalls(attached.client).change(found.id, change)
        later = NO_SERVER if attached.is_own else ""
        said = {
            "pause": "Paused.",
            "resume": f"Resumed. Next: {_next(changed)}",
            "run": f"Started. {later}`holdfast triggers history {found.id}` shows the result.",
        }
        echo(said[change])
        return OK

    return _with(flags, work)


def answer_missed(flags: Mapping[str, object], name: str, *, answer: Literal["run", "skip"]) -> int:
    """Run or skip the missed times of a trigger."""

    async def work(attached: Attached) -> int:
        found = await _named(attached, name)
        await TriggerCalls(attached.client).answer_missed(found.id, run=answer == "run")
        echo("Running once for all missed runs." if answer == "run" else "Skipped all missed runs.")
        return OK

    return _with(flags, work)


def new_secret(flags: Mapping[str, object], name: str) -> int:
    """Replace the secret of a hook and print the new one, this once."""

    async def work(attached: Attached) -> int:
        found = await _named(attached, name)
        echo((await TriggerCalls(attached.client).new_hook_secret(found.id)).secret)
        return OK

    return _with(flags, work)


def remove_trigger(flags: Mapping[str, object], name: str) -> int:
    """Delete a trigger."""

    async def work(attached: Attached) -> int:
        found = await _named(attached, name)
        await TriggerCalls(attached.client).remove(found.id)
        echo("Removed.")
        return OK

    return _with(flags, work)


def show_history(flags: Mapping[str, object], name: str, *, form: str) -> int:
    """Print what a trigger did."""

    async def work(attached: Attached) -> int:
        found = await _named(attached, name)
        history = await TriggerCalls(attached.client).history(found.id)
        if form == "json":
            print_json(history)
            return OK
        print_columns(("DUE", "STATE", "RUN"), [_fire(fire, found.zone) for fire in history.fires])
        for missed in history.missed:
            more = "more than " if missed.is_more else ""
            first, last = when(missed.first_at, found.zone), when(missed.last_at, found.zone)
            echo(f"Missed: {more}{counted(missed.count, 'time')} from {first} to {last}")
        return OK

    return _with(flags, work)


def show_next(flags: Mapping[str, object], fields: Mapping[str, Any], *, form: str) -> int:
    """Print the next five instants of times that aren't saved."""

    async def work(attached: Attached) -> int:
        found = await TriggerCalls(attached.client).next_instants(fields)
        if form == "json":
            print_json(found)
        else:
            echo("\n".join(found.local) or f"{found.when} has no schedule.")
        return OK

    return _with(flags, work)


async def _named(attached: Attached, name: str) -> TriggerShown:
    """The trigger with this id, the only one whose id begins so, or the only one with this name."""
    found = await TriggerCalls(attached.client).list()
    for fits in (
        [one for one in found if one.id == name],
        [one for one in found if one.name == name],
        [one for one in found if one.id.startswith(name)],
    ):
        if len(fits) == 1:
            return fits[0]
        if fits:
            raise NoSuchTrigger(f"{len(fits)} triggers match {name!r}; use the id")
    raise NoSuchTrigger(f"no trigger matches {name!r}; run `holdfast triggers list`")


def _next(trigger: TriggerShown) -> str:
    return when(trigger.next[0], trigger.zone) if trigger.next else "-"


def _state(trigger: TriggerShown) -> str:
    return trigger.state if trigger.held_until is None else "held"


def _fire(fire: FireShown, zone: str) -> Sequence[str]:
    state = fire.outcome or (f"{fire.state} ({fire.why})" if fire.why else fire.state)
    script = f", script {fire.script}: {fire.script_why}" if fire.script_why else ""
    return (when(fire.due_at, zone), safe(state + script), fire.run_id or "-")


def _print(trigger: TriggerShown) -> None:
    echo(f"{trigger.id}  {trigger.name}  ({_state(trigger)})")
    echo(f"Prompt: {safe(trigger.prompt)}")
    echo(f"When: {trigger.when}")
    if trigger.hook:
        echo(f"Post to: {trigger.hook}")
        echo(f"Duplicate deliveries are detected {trigger.repeats}.")
    if trigger.workspace:
        echo(f"Folder: {safe(trigger.workspace)}")
    if trigger.held_until is not None:
        until = when(trigger.held_until, trigger.zone)
        echo(f"Held until {until}, because the clock was ahead when it last fired.")
        echo(f"To start now, run `holdfast triggers resume {trigger.id}`.")
    for at in trigger.next:
        echo(f"  next {when(at, trigger.zone)}")
    if trigger.unanswered is not None:
        count = trigger.unanswered.count
        echo(f"Missed {counted(count, 'run')}: run or skip them with `holdfast triggers missed {trigger.id}`")
    tools = f", tools {', '.join(trigger.tools)}" if trigger.tools else ""
    echo(f"Permissions: approvals {trigger.approvals}, network {'on' if trigger.network else 'off'}{tools}")
    for name, value in _extras(trigger):
        echo(f"{name}: {safe(value)}")
    if trigger.deliver:
        echo(f"Delivers to: {', '.join(trigger.deliver)}")
    if trigger.last is not None:
        echo(f"Last: {'  '.join(_fire(trigger.last, trigger.zone))}")


def _extras(trigger: TriggerShown) -> Sequence[tuple[str, str]]:
    """Return the settings that most triggers don't have."""
    cost = trigger.budget.cost_usd if trigger.budget else 0
    found = (
        ("Model", trigger.model),
        ("Budget", f"${cost:g}" if cost else ""),
        ("Skills", ", ".join(trigger.skills)),
        ("Script", trigger.script),
        ("Runs left", f"{trigger.times_left} of {trigger.times}" if trigger.times else ""),
    )
    return [(name, value) for name, value in found if value]
