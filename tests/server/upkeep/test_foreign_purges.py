"""What a server keeps of a session goes when another server purges it."""

import asyncio
from pathlib import Path

from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.features.undo.packs import object_name
from holdfast.features.undo.snapshots import Snapshots
from runner.memory_nodes import Cluster
from serving import Setting, served, target_of
from tools.calls import until

EMPTY = object_name("tree", b"")


def keep(snapshots: Snapshots, session_id: str) -> None:
    with snapshots.store.batch() as batch:
        batch.add("tree", b"", name=EMPTY)
    snapshots.store.keep(session_id, f"run-{session_id}", label="1", name=EMPTY)


async def test_snapshots_of_a_session_that_another_server_purged_are_forgotten(tmp_path: Path) -> None:
    """P11: deleted means deleted, on every server, also on one that was away meanwhile."""
    cluster, snapshots = Cluster(), Snapshots(tmp_path / "snapshots")
    a, b = cluster.join("a"), cluster.join("b")
    for name in ("kept", "purged"):
        begun = [
            e.SessionCreated(at_ms=1, epoch="e"),
            e.MessageAccepted(at_ms=1, message_id=name, text="hi"),
            e.RunQueued(at_ms=1, run_id=f"run-{name}", message_id=name),
            e.QueuePaused(at_ms=1),
        ]
        await a.append(name, begun)
    for name in ("kept", "purged", "purged before"):
        await asyncio.to_thread(keep, snapshots, name)
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), setting=Setting(store=b, features={"undo": snapshots})),
    ):
        await until(lambda: not snapshots.store.has_session("purged before"))
        assert await a.purge("purged")
        await until(lambda: not snapshots.store.has_session("purged"))
        assert await asyncio.to_thread(snapshots.store.has_session, "kept")
    await asyncio.to_thread(snapshots.store.close)
