"""A server answers before its tools are open and its sandbox is tested; runs begin afterwards."""

import asyncio
from pathlib import Path

from holdfast.chaos import ChaosServer, Say
from holdfast.interfaces.index import RunQuery
from holdfast.journal.memory import MemoryStore
from holdfast.racing import race
from holdfast.server.options import ServerOptions
from runner.program import configure, start_server
from serving import Setting, served, target_of


class Tools:
    """Tools that the test opens."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waited_for = asyncio.Queue[None]()

    async def opened(self) -> bool:
        self.waited_for.put_nowait(None)
        return await self.open.wait()


async def test_a_run_is_accepted_at_once_and_begins_when_the_tools_are_open() -> None:
    tools = Tools()
    async with (
        ChaosServer([Say("hello")]) as chaos,
        served(target_of(chaos), setting=Setting(opened=tools.opened)) as server,
    ):
        assert (await server.get("/health"))[0] == 200
        assert (await server.get("/health/ready"))[0] == 503
        run_id = await server.start()
        assert (await server.get(f"/v1/runs/{run_id}"))[1]["status"] == "queued"
        assert not chaos.seen.requests
        tools.open.set()
        assert (await server.ended(run_id))["status"] == "completed"
        assert (await server.get("/health/ready"))[0] == 200


async def test_a_required_sandbox_admits_no_run_before_it_holds() -> None:
    tools, store = Tools(), MemoryStore()
    setting = Setting(opened=tools.opened, options=ServerOptions(requires_sandbox=True), store=store)
    async with ChaosServer([Say("hello")]) as chaos, served(target_of(chaos), setting=setting) as server:
        await tools.waited_for.get()  # by what starts runs
        posting = asyncio.create_task(server.start())
        waiting = asyncio.create_task(tools.waited_for.get())
        await race(waiting, watched=[posting])
        assert not posting.done()
        assert not await store.runs(RunQuery(limit=1))
        assert (await server.get("/health"))[0] == 200
        tools.open.set()
        assert (await server.ended(await posting))["status"] == "completed"
    await store.close()


async def test_a_server_ends_if_the_sandbox_that_it_requires_does_not_hold(tmp_path: Path) -> None:
    configure(tmp_path, "http://127.0.0.1:9/v1", sandbox="require")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sandbox").write_text("in the way of the sandbox's files")
    process = await start_server(tmp_path)
    _, said = await process.communicate()
    assert await process.wait() == 1
    assert said.startswith(b'holdfast: sandbox.mode is "require", but no sandbox passes the self-test')
