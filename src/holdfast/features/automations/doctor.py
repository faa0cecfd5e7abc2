"""The doctor's check for triggers that are held because the clock was ahead."""

from collections.abc import Sequence

from holdfast.cli.doctor.findings import DoctorFinding, note
from holdfast.cli.doctor.store import store_reader
from holdfast.codec import UnreadableEvent
from holdfast.features.automations.owner import catch_up
from holdfast.features.automations.schedules import length
from holdfast.features.automations.state import Trigger
from holdfast.features.automations.values import TRIGGER
from holdfast.interfaces.feature import DoctorContext
from holdfast.interfaces.journal import JournalError


async def held(context: DoctorContext) -> Sequence[DoctorFinding]:
    """A finding for each trigger that won't fire for a while because the clock was ahead."""
    findings: list[DoctorFinding] = []
    try:
        async with store_reader(context.settings) as store:
            if store is None:
                return ()
            for row in await store.logs(TRIGGER):
                trigger = Trigger()
                await catch_up(store, row.session_id, trigger)
                findings += _held(row.session_id, trigger, now_ms=context.clock.now_ms())
    except (JournalError, UnreadableEvent):
        return ()  # the check of the store reports it
    return findings


def _held(trigger_id: str, trigger: Trigger, *, now_ms: int) -> Sequence[DoctorFinding]:
    if not (until_ms := trigger.held_until_ms(now_ms)):
        return ()
    assert trigger.settings is not None, "only a trigger with times is held"
    left = length((until_ms - now_ms) // 1000)
    text = f"won't fire for {left}, because the clock was ahead when it last fired"
    return (note(f"trigger {trigger.settings.name}", text, f"run `holdfast triggers resume {trigger_id}`"),)
