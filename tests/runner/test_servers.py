"""Real servers that share a database and a volume: what happens when one is frozen, or comes twice."""

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest

from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.tools.shell.scope import find_marked
from runner.cluster_nodes import ClusterNode, cluster
from runner.program import start_server
from serving import Frame, frames_in
from tools.calls import until

BUILD = "touch begun; until [ -e ready ]; do sleep 0.05; done; echo built"
# Writes down the time, as the servers' clocks show it, for as long as it lives.
WITNESS = "echo begun; while :; do date +%s%3N >> beats; sleep 0.02; done"


async def events_until(node: ClusterNode, run_id: str, kind: str) -> list[Frame]:
    """The run's native events up to the first of the kind."""
    seen: list[Frame] = []
    async with node.http.get(f"{node.url}/v1/runs/{run_id}/events?view=native") as answer:
        async for frame in frames_in(answer.content):
            seen.append(frame)
            if frame.data.get("type") == kind:
                return seen
    raise AssertionError(f"{kind} never came: {[one.data.get('type') for one in seen]}")


def twin_of(node: ClusterNode, folder: Path) -> None:
    """Configure another server with a node's name and database; its data directory is another."""
    folder.mkdir()
    text = (node.folder / "holdfast.toml").read_text("utf-8")
    text = text.replace(f"port = {node.port}\n", "port = 0\n").replace(str(node.folder), str(folder))
    (folder / "holdfast.toml").write_text(text, "utf-8")
    (folder / "holdfast.toml").chmod(0o600)


async def served_until_end(folder: Path) -> tuple[int | None, str]:
    """Start a server that isn't expected to stay, and return how it ended and what it said."""
    process = await start_server(folder)
    output, errors = await process.communicate()
    return process.returncode, (output + errors).decode()


@pytest.mark.long
async def test_a_command_of_a_frozen_server_is_dead_before_another_one_continues_its_session(
    tmp_path: Path,
) -> None:
    """P6: both reach the same files, so the two must not work on them at once.

    On one machine the other server would find the command itself, but only after it has taken over.
    """
    timeout = aiohttp.ClientTimeout(total=60, sock_connect=3)
    async with (
        ChaosServer([CallTool("shell", {"command": WITNESS})], [Say("done")]) as chaos,
        aiohttp.ClientSession(timeout=timeout) as http,
        cluster(tmp_path, chaos.base_url, http, nodes=2, seed=1) as servers,
    ):
        async with http.post(f"{servers.nodes[0].url}/v1/runs", json={"input": "hi"}) as answer:
            run_id = (await answer.json())["run_id"]
        beats = tmp_path / "work" / "beats"
        await until(beats.exists)
        # Any node can be the first to claim the session.
        owns = "SELECT name FROM nodes JOIN sessions ON owner = incarnation"
        name = await asyncio.to_thread(servers.postgres.sql, owns, dsn=servers.dsn)
        owner, other = sorted(servers.nodes, key=lambda node: node.name != name)
        owner.signal(signal.SIGSTOP)
        seen = await events_until(other, run_id, "run.ended")
        assert [frame.data.get("type") for frame in seen].count("run.resumed") == 1
        last_ms = int((await asyncio.to_thread(beats.read_text)).split()[-1])
        taken_over = "SELECT (extract(epoch FROM ended_at) * 1000)::bigint FROM lives WHERE ended = 'expired'"
        assert last_ms < int(await asyncio.to_thread(servers.postgres.sql, taken_over, dsn=servers.dsn))
        owner.signal(signal.SIGCONT)
        await owner.until_up()
        await asyncio.to_thread(twin_of, other, tmp_path / "twin")
        code, said = await served_until_end(tmp_path / "twin")
        assert code == 1
        assert f"another server with the name '{other.name}' is running at {other.url}" in said


def living(run_id: str) -> int:
    """How many processes of the run are alive."""
    return len(find_marked(lambda marker: marker.run_id == run_id))


@pytest.mark.long
async def test_a_build_on_one_machine_survives_a_database_that_is_away_and_a_command_on_a_volume_does_not(
    tmp_path: Path,
) -> None:
    """P6: nobody else may continue a session with local files, so there is no reason to kill its command."""
    local = tmp_path / "local"
    local.mkdir()
    scripts = [[CallTool("shell", {"command": one})] for one in (WITNESS, BUILD)]
    async with (
        ChaosServer(*scripts, [Say("done")], [Say("done")]) as chaos,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as http,
        cluster(tmp_path, chaos.base_url, http, nodes=1, seed=1) as servers,
    ):
        (server,) = servers.nodes
        run_ids: list[str] = []
        for folder, begun in ((tmp_path / "work", "beats"), (local, "begun")):
            body = {"input": "hi", "workspace": str(folder)}
            async with http.post(f"{server.url}/v1/runs", json=body) as answer:
                run_ids.append((await answer.json())["run_id"])
            await until((folder / begun).exists)
        on_volume, here = run_ids
        await asyncio.to_thread(servers.postgres.stop)
        await until(lambda: not living(on_volume))
        assert await asyncio.to_thread(living, here)
        await asyncio.to_thread(servers.postgres.start)
        (local / "ready").touch()
        for run_id, ending in ((here, "finished"), (on_volume, "killed")):
            seen = await events_until(server, run_id, "run.ended")
            ended = [frame.data for frame in seen if frame.data.get("type") == "tool.ended"]
            assert [one.get("ending", "finished") for one in ended] == [ending], ended
