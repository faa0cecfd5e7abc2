"""Servers with triggers are killed at seeded moments; then each instant and delivery has one record.

One server with SQLite, or several that share a Postgres. A sender delivers to a hook meanwhile, each delivery
twice and at any of them.

    python bench/faults_triggers.py --kills 100 --seed 1 [--nodes 3]
"""

import argparse
import asyncio
import hmac
import json
import random
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from features.automations.checks import (
    Rhythm,
    TriggerFindings,
    check_deliveries,
    check_instants,
    check_nobody_else,
    check_runs,
    check_times,
)
from holdfast import events as e
from holdfast.chaos import ChaosServer, Finish, Say
from holdfast.features.automations.events import (
    TriggerDue,
)
from holdfast.features.automations.state import DELIVERED
from holdfast.journal.sqlite.reader import SqliteReader
from ports import reserved_port
from runner.campaign_users import GONE
from runner.cluster_nodes import ServerNode, cluster, end
from runner.program import configure
from stores import PostgresStore

LEAVE_S = 120.0  # how long the runs may take to end once nobody kills the servers any more
LOOK_S = 0.2
READ_MAX = 100_000
HOOK = "hook"
TRIGGERS: Mapping[str, tuple[Mapping[str, Any], Rhythm | None]] = {
    "every": ({"every": "1s", "session_id": "s-every"}, Rhythm(1_000)),
    "cron": ({"cron": "*/2 * * * * *"}, Rhythm(2_000, is_cron=True)),
    "strict": ({"every": "1s", "session_id": "s-strict", "grace_s": 1.0}, Rhythm(1_000)),
    "skipping": ({"every": "1s", "session_id": "s-skip", "overlap": "skip"}, Rhythm(1_000)),
    HOOK: ({"webhook": "github", "session_id": "s-hook"}, None),
}


@dataclass(slots=True)
class TriggerCampaign:
    """The servers of one store, their triggers, and a sender."""

    folder: Path
    seed: int
    kills: int = 0
    ids: dict[str, str] = field(default_factory=dict[str, str])
    secret: str = ""
    accepted: dict[str, str] = field(default_factory=dict[str, str])  # what was sent -> the id it got

    async def run(self, kills: int, *, nodes: int = 1) -> TriggerFindings:
        """Kill so often, let everything come to its end, and look at the logs."""
        chance = random.Random(self.seed)  # a seed repeats the same choices
        async with (
            ChaosServer(choose=lambda _: [Say("ok"), Finish()]) as chaos,
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30, sock_connect=5)) as http,
            self._servers(chaos.base_url, http, nodes=nodes) as (servers, dsn),
        ):
            await self._make(servers[0])
            sending = asyncio.create_task(self._send(servers, random.Random(f"{self.seed} sender")))
            for _ in range(kills):
                await self._kill(chance.choice(servers), chance)
            for server in servers:
                if not server.is_alive:
                    await server.start()
                await server.until_up()
            sending.cancel()
            await asyncio.wait([sending])
            async with asyncio.timeout(LEAVE_S):
                await self._leave(servers[-1])
            return await self._checked(dsn)

    @asynccontextmanager
    async def _servers(
        self, model_url: str, http: aiohttp.ClientSession, *, nodes: int
    ) -> AsyncGenerator[tuple[Sequence[ServerNode], str]]:
        if nodes > 1:
            async with cluster(self.folder, model_url, http, nodes=nodes, seed=self.seed) as several:
                yield several.nodes, several.dsn
            return
        port = reserved_port()
        await asyncio.to_thread(configure, self.folder, model_url, sandbox="off", server=f"port = {port}")
        alone = ServerNode("alone", self.folder, port, http)
        try:
            await alone.start()
            await alone.until_up()
            yield [alone], ""
        finally:
            await end(alone)

    async def _make(self, server: ServerNode) -> None:
        for name, (fields, _) in TRIGGERS.items():
            wanted = {"name": name, "prompt": "go", "failures_max": 0, **fields}
            made = await _call(server, "POST", "/api/triggers", wanted)
            self.ids[name] = made["id"]
            self.secret = made.get("secret") or self.secret

    async def _kill(self, server: ServerNode, chance: random.Random) -> None:
        """One life less; every tenth ends while it begins."""
        if not server.is_alive:
            await server.start()
        if chance.random() < 0.9:  # nine of ten
            await server.until_up()
        await asyncio.sleep(1.2 * chance.random())
        await server.kill()
        self.kills += 1
        if chance.random() < 0.8:  # the others stay away for a while
            await server.start()

    async def _send(self, servers: Sequence[ServerNode], chance: random.Random) -> None:
        """Send one delivery after the other, each until it was accepted twice."""
        nth = 0
        while True:
            nth += 1
            name = f"delivery-{self.seed}-{nth}"
            body = json.dumps({"action": "opened", "name": name}).encode()
            signature = hmac.new(self.secret.encode(), body, "sha256").hexdigest()
            headers = {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Delivery": name}
            for _ in range(2):
                await self._deliver(servers, chance, body=body, headers=headers)
            await asyncio.sleep(0.4 * chance.random())

    async def _deliver(
        self, servers: Sequence[ServerNode], chance: random.Random, *, body: bytes, headers: Mapping[str, str]
    ) -> None:
        while True:
            server = chance.choice(servers)
            with suppress(*GONE):
                url = f"{server.url}/hooks/{self.ids[HOOK]}"
                async with server.http.post(url, data=body, headers=headers) as answer:
                    if answer.status == 202:
                        told = json.loads(await answer.read())
                        self.accepted[headers["X-GitHub-Delivery"]] = told["id"]
                        return
            await asyncio.sleep(LOOK_S)

    async def _leave(self, server: ServerNode) -> None:
        """Wait until every delivery is due, pause everything, and wait until what was due is over."""
        # A server accepts deliveries before it fires triggers. They are due in order, so the last ones tell.
        last = {DELIVERED + id_ for id_ in list(self.accepted.values())[-10:]}
        while True:
            if last <= {fire["key"] for fire in await self._fires(server, self.ids[HOOK])}:
                break
            await asyncio.sleep(LOOK_S)
        for trigger_id in self.ids.values():
            await _call(server, "POST", f"/api/triggers/{trigger_id}/pause")
        for trigger_id in self.ids.values():
            while True:
                fires = await self._fires(server, trigger_id)
                if all(fire["state"] in {"ended", "skipped"} for fire in fires):
                    break
                await asyncio.sleep(LOOK_S)

    @staticmethod
    async def _fires(server: ServerNode, trigger_id: str) -> list[dict[str, Any]]:
        return (await _call(server, "GET", f"/api/triggers/{trigger_id}/history"))["fires"]

    async def _checked(self, dsn: str) -> TriggerFindings:
        store = (
            await PostgresStore.open(dsn, name="witness")
            if dsn
            else SqliteReader(await asyncio.to_thread(lambda: next(self.folder.rglob("holdfast.db"))))
        )
        try:
            logs = {name: await _log(store, id_) for name, id_ in self.ids.items()}
            dues = [event for log in logs.values() for event in log if isinstance(event, TriggerDue)]
            talks = {id_: await _log(store, id_) for id_ in {due.session_id for due in dues}}
        finally:
            await store.close()
        findings = TriggerFindings()
        for name, (_, rhythm) in TRIGGERS.items():
            if rhythm is not None:
                check_instants(findings, name, logs[name], rhythm)
            check_runs(findings, name, logs[name], talks)
        check_deliveries(findings, logs[HOOK], list(self.accepted.values()))
        check_nobody_else(findings, logs, talks)
        check_times(findings, logs | talks)
        return findings


async def _call(server: ServerNode, method: str, path: str, body: Any = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    async with server.http.request(method, server.url + path, data=data) as answer:
        said = await answer.read()
        assert answer.ok, (path, said)
        return json.loads(said)


async def _log(store: PostgresStore | SqliteReader, log_id: str) -> list[e.Event]:
    return [record.event for record in await store.read(log_id, limit=READ_MAX)]


def told(campaign: TriggerCampaign, findings: TriggerFindings) -> str:
    """The campaign in a few lines."""
    lines = [
        f"seed {campaign.seed}: {campaign.kills} kills",
        f"{findings.instants} instants, of which {findings.missed} were missed; {findings.skipped} skipped",
        f"{findings.deliveries} deliveries, each sent twice; {findings.runs} runs",
        *findings.broken[:20],
        f"{len(findings.broken)} things broken" if findings.broken else "each has one record",
    ]
    return "\n".join(lines)


def main() -> None:
    """One campaign."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=1, help="Several share a Postgres.")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="holdfast-triggers-")
    campaign = TriggerCampaign(Path(folder), options.seed)
    try:
        findings = asyncio.run(campaign.run(options.kills, nodes=options.nodes))
    except BaseException:
        sys.stdout.write(f"seed {campaign.seed} failed after {campaign.kills} kills; see {folder}\n")
        raise
    sys.stdout.write(told(campaign, findings) + "\n")
    if findings.broken:
        sys.stdout.write(f"its data is in {folder}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
