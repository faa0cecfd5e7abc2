"""Lists in a terminal and as data: what a run was about, what waits to be approved, whose key it is."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli.lab import command, configure, serving
from cli.tmux import HOLDFAST, terminal
from holdfast.api.runs import RunListed
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.cli.offline_reader import OfflineReader
from holdfast.cli.runs import status_words
from holdfast.client import Client, Refused
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Secret, Settings
from holdfast.host.server_keys import first_key, keys_of
from holdfast.server.options import ServerOptions
from serving import Setting, served, target_of
from stores import SqliteStore

COMMAND = "touch " + "a-rather-long-name-" * 7


async def test_a_list_in_a_terminal_says_what_each_run_was_about_and_cuts_no_approval(tmp_path: Path) -> None:
    """P8: whoever approves has read the whole action."""
    on = f"--config {tmp_path}/holdfast.toml"
    async with ChaosServer([Say("done")], [CallTool("shell", {"command": COMMAND})]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*HOLDFAST, "runs", "list", *on.split(), folder=tmp_path) as window:
            assert "Nothing to show." in await window.until("exit=0")
        assert (await command(tmp_path, "run", "tidy up the attic, and then write a long report")).code == 0
        refused = await command(tmp_path, "runs", "list", "--status", "nonsense")
        assert "must be one of queued, running" in refused.err
        async with terminal(*HOLDFAST, "runs", "list", *on.split(), folder=tmp_path) as window:
            shown = (await window.until("exit=0")).splitlines()
            about = next(at for at, line in enumerate(shown) if line.startswith("    tidy up the attic"))
            assert shown[about] == "    tidy up the attic, and then write a long report"
            assert shown[about - 1].split()[1] == "completed"
        async with serving(tmp_path) as server:
            run_id = (await server.call("POST", "/v1/runs", {"input": "make it"}))["run_id"]
            await server.until(run_id, "approval.asked")
            async with terminal(*HOLDFAST, "approvals", "list", *on.split(), folder=tmp_path) as other:
                screen = await other.until("exit=0")
                assert COMMAND.strip() in screen.replace("\n", "")


@pytest.mark.parametrize(
    ("given", "names"), [(None, [("first", "made")]), ((Secret("x" * 20),), [("key 1", "configured")])]
)
async def test_a_key_is_listed_with_where_it_comes_from_by_server_and_store_alike(
    tmp_path: Path, given: tuple[Secret, ...] | None, names: list[tuple[str, str]]
) -> None:
    settings = Settings(server=ServerSettings(data_dir=str(tmp_path), api_keys=given))
    keys = keys_of(settings, await asyncio.to_thread(first_key, settings))
    assert keys is not None
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), store=store, setting=Setting(options=ServerOptions(keys=keys))) as server,
        Client(server.url, keys[0].secret) as client,
        OfflineReader(settings) as stored,
    ):
        for reads in (client, stored):
            assert [(key.name, key.source) for key in await reads.keys()] == names
        where = "file api-key" if given is None else "is in the configuration"
        with pytest.raises(Refused, match=where):
            await client.revoke_key(names[0][0])
    await store.close()


def test_the_status_of_a_run_does_not_mislead() -> None:
    """P9: hermes clients know fewer words than there are outcomes."""
    head: dict[str, Any] = {
        "run_id": "r",
        "session_id": "s",
        "created_at": 1.0,
        "updated_at": 1.0,
        "model": "m",
        "preview": "",
    }
    asks = RunListed(**head, status="waiting_for_approval", waiting_for="answer")
    assert status_words(asks) == "waiting_for_answer"
    assert status_words(replace(asks, waiting_for="approval")) == "waiting_for_approval"
    refused = RunListed(**head, status="completed", outcome="refused")
    assert status_words(refused) == "completed (refused)"
    done = replace(refused, outcome="completed")
    assert status_words(done) == "completed"
    assert status_words(replace(done, refused_actions=1)) == "completed, 1 action refused"
    assert status_words(replace(done, refused_actions=2)) == "completed, 2 actions refused"


def test_what_only_reads_the_store_loads_neither_an_http_client_nor_the_agent() -> None:
    """Both take as long to import as all the rest of such a command."""
    code = (
        "import sys, holdfast.cli.offline_reader; "
        "print([name for name in ('aiohttp', 'uvicorn', 'holdfast.agent.deps') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
