"""A store's redactor and its hooks."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from holdfast.events import Event, Input, MessageAccepted
from holdfast.interfaces.journal import Declined, IfRunOpen, Store, StoreHooks
from holdfast.redaction import NO_SECRETS, Redactor
from journal.sample import begin, delta, ended, message

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_inputs_pass_a_hook_and_the_redactor_and_what_is_written_is_told(store: Store) -> None:
    """P11: also secrets that the hook adds are removed, and they are in no search result."""
    told: list[Event] = []

    def before(inputs: Sequence[Input]) -> Sequence[Input]:
        assert isinstance(inputs[0], MessageAccepted)
        return [message(f"{inputs[0].text} and hook-secret")]

    def after(events: Sequence[Event], seconds: float) -> None:
        assert seconds >= 0
        told.extend(events)

    fence = await begin(store, run_id="r1")
    try:
        store.redactor = Redactor(["own-secret", "hook-secret"])
        store.hooks = StoreHooks(before, after)
        await store.append("s1", [message("own-secret")])
        await store.append_run("s1", [delta("a")], fence=fence)
        await store.append_run("s1", [delta("b"), ended("r1")], fence=fence)
        refused = await store.append_run("s1", [delta("c")], fence=fence, when=[IfRunOpen("r1")])
        with pytest.raises(AssertionError):
            await store.append_run("s1", [], fence=fence)
        named = await store.put_blob(b"of own-secret")
    finally:
        store.redactor, store.hooks = NO_SECRETS, StoreHooks()
    assert isinstance(refused, Declined)
    clean = message("[redacted] and [redacted]")
    written = [record.event for record in await store.read("s1", after=2)]
    assert told == [clean, delta("a"), delta("b"), ended("r1")]
    assert [replace(one, at_ms=told[0].at_ms) for one in written] == told
    assert await store.blob(named) == b"of [redacted]"
    assert not await store.search("own-secret")
