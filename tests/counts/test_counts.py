"""The work that Holdfast does is counted, so that it can't grow unseen; counts.toml says how much it is."""

import json
import tomllib
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from counts.counting import Allowed, Counted, CountedServer, added, command_counts, counted_server
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait
from runner.program import configure

TABLE = Path(__file__).with_name("counts.toml")
TOKENS = 50
WORDS = [Say(f"word{n} ") for n in range(TOKENS)]
# How far a count may be below the table, since tasks share more or fewer wake-ups.
BELOW_SHARE, BELOW = 0.05, 2
START = ("modules", "processes")


class Scene:
    """A server with counters, and a model that answers with the scripts that the test hands it."""

    def __init__(self, server: CountedServer, chaos: ChaosServer, scripts: deque[Sequence[Any]]) -> None:
        self._server = server
        self._chaos = chaos
        self._scripts = scripts

    async def plain_run(self) -> Counted:
        gate = Gate()
        self._scripts.append([Wait(gate), *WORDS])
        before = await self._server.settled()
        run_id = await self._server.program.start("hi")
        await gate.reached()
        asked = await self._server.settled()
        gate.open()
        events = await self._server.program.events(run_id)
        return {
            "events": len(events),
            "event_bytes": sum(len(json.dumps(event.data)) for event in events),
            "thread_hops_before_model": asked["thread_hops"] - before["thread_hops"],
            "sql_reads_before_model": asked["sql_reads"] - before["sql_reads"],
            "bytes_to_model": self._chaos.seen.requests[-1].upload_bytes,
        }

    async def run_with_a_tool(self) -> Counted:
        # Otherwise what the tool did and the first words share a commit, or don't, as the machine has time.
        gate = Gate()
        self._scripts.extend([[CallTool("read_file", {"path": "a.txt"})], [Wait(gate), *WORDS]])
        run_id = await self._server.program.start("hi")
        await gate.reached()
        await self._server.settled()
        gate.open()
        return {"events": len(await self._server.program.events(run_id))}

    async def stop(self) -> Counted:
        self._scripts.append([Say("word"), Hang()])
        run_id = await self._server.program.start("hi")
        await self._server.program.until(run_id, "text.delta")
        before = await self._server.settled()
        status, _ = await self._server.program.call("POST", f"/v1/runs/{run_id}/stop")
        assert status == 200
        await self._server.program.events(run_id)
        return added(before, await self._server.settled())

    async def relayed_request(self) -> Counted:
        self._scripts.append(WORDS)
        body = {"model": "main", "messages": [{"role": "user", "content": "hi"}]}
        status, answer = await self._server.program.call("POST", "/v1/chat/completions", body)
        assert status == 200, answer
        return {}


@pytest.mark.timeout(300)  # on a busy machine, most rounds commit in more steps and are repeated
async def test_no_work_is_added_unseen(tmp_path: Path) -> None:
    """A count that rises needs a reason in its commit; one that falls is written down, so that it stays."""
    written: dict[str, Counted] = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    scripts: deque[Sequence[Any]] = deque()
    async with ChaosServer(choose=lambda _: scripts.popleft()) as chaos:
        configure(tmp_path, chaos.base_url)
        (tmp_path / "work" / "a.txt").write_text("a")
        async with counted_server(tmp_path) as server:
            scene = Scene(server, chaos, scripts)
            start: Counted = json.loads((tmp_path / "counts.start.json").read_text(encoding="utf-8"))
            found = {"server_start": {name: start[name] for name in START}}
            for work in (scene.plain_run, scene.run_with_a_tool, scene.stop, scene.relayed_request):
                name = work.__name__
                found[name] = await server.closest(work, partial(allowed, written.get(name, {})))
        scripts.extend([WORDS, WORDS])
        whole = await command_counts(tmp_path, "run", "--config", str(tmp_path / "holdfast.toml"), "hi")
        found["holdfast_run"] = {name: whole[name] for name in START}
    assert not differing(found, written), f"{TABLE.name} would be:\n\n{as_toml(found)}"


def differing(found: dict[str, Counted], written: dict[str, Counted]) -> list[str]:
    """The counts that aren't as in the table."""
    return [
        f"{work}.{name}"
        for work, counts in found.items()
        for name, count in counts.items()
        if allowed(written.get(work, {}), name).distance(count)
    ]


def allowed(written: Counted, name: str) -> Allowed:
    """What a count may be; one that isn't in the table has to be added."""
    most = written.get(name, -1)
    return Allowed(most * (1 - BELOW_SHARE) - BELOW, most)


def as_toml(found: dict[str, Counted]) -> str:
    """The counts as they are written."""
    tables = [
        "\n".join([f"[{work}]", *(f"{name} = {count}" for name, count in counts.items())])
        for work, counts in found.items()
    ]
    return "\n\n".join(tables) + "\n"
