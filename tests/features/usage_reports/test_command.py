"""`holdfast usage`: the same sums from a server and from the store."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.cli.offline_reader import OfflineReader
from holdfast.client import Client, Refused
from holdfast.config.server import KeySettings, ServerSettings
from holdfast.config.settings import Settings
from holdfast.features.usage_reports.tables import read_usage, show_usage
from holdfast.host.server_keys import first_key, keys_of
from holdfast.server.options import ServerOptions
from serving import Setting, served, target_of
from stores import SqliteStore


async def test_a_server_and_its_store_name_the_same_sums_and_budgets(tmp_path: Path) -> None:
    budget = KeySettings(name="*", budget_tokens_per_day=1_000_000)
    settings = Settings(server=ServerSettings(data_dir=str(tmp_path)), keys=(budget,))
    keys = keys_of(settings, await asyncio.to_thread(first_key, settings))
    assert keys is not None
    options = ServerOptions(keys=keys, key_settings={key.name: key for key in settings.keys})
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    async with (
        ChaosServer([Say("hello")]) as chaos,
        served(target_of(chaos), store=store, setting=Setting(options=options)) as server,
        Client(server.url, keys[0].secret) as client,
        OfflineReader(settings) as stored,
    ):
        started = await client.start("count me")
        await client.ended(started.run_id)
        for by in ("day", "target", "session", "key"):
            told, read = [await read_usage(one, by=by, days=("", "")) for one in (client, stored)]
            assert told == read
            assert [row.runs for row in told.rows] == [1]
            assert [one.limit_tokens for one in told.budgets] == [1_000_000]
            assert told.budgets[0].used_tokens == told.totals.input_tokens + told.totals.output_tokens > 0
        for reads in (client, stored):
            with pytest.raises(Refused, match="'from' must not be after 'to'"):
                await read_usage(reads, by="day", days=("2026-02-01", "2026-01-01"))
    await store.close()


USED: list[tuple[str, float | None, dict[str, Any]]] = [
    ("main", 0.004, {"input_tokens": 1200, "output_tokens": 30}),
    ("local", None, {"input_tokens": 10, "output_tokens": 5}),
]


async def keep_usage(folder: Path) -> None:
    """A store in which one run has used a model with a price and one without."""
    store = await SqliteStore.open(folder / "holdfast.db")
    at_ms = 1_767_225_600_000
    queued = e.RunQueued(at_ms=at_ms, run_id="r", message_id="m")
    await store.append("s", [e.SessionCreated(at_ms=at_ms, epoch="e", title="Tidy up"), queued])
    events = [
        e.RunStarted(at_ms=at_ms, run_id="r"),
        *(
            e.Usage(
                at_ms=at_ms, run_id="r", call_id="c", target=target, model="m", cost_usd=cost_usd, **tokens
            )
            for target, cost_usd, tokens in USED
        ),
    ]
    await store.append_run("s", events, fence=await store.claim("s"))
    await store.close()


def test_the_terminal_shows_sums_and_says_which_cost_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(keep_usage(tmp_path))
    flags = {"data_dir": str(tmp_path), "config": None}
    days = ("2026-01-01", "2026-01-02")
    assert show_usage(flags, by="target", days=days, form="text") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["COST", "INPUT", "CACHED", "OUTPUT", "RUNS", "RELAYED", "TARGET"]
    assert lines[1].split() == ["$0.0040", "1,200", "0", "30", "1", "0", "main"]
    assert lines[2].split()[0] == "unknown"
    assert lines[3].startswith(">= $0.0040  1,210")
    assert lines[3].endswith("total, 2026-01-01 to 2026-01-02 (UTC)")
    assert lines[4] == "The cost excludes 1 call to models without a known price."
    assert show_usage(flags, by="session", days=days, form="json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["from"], found["rows"][0]["label"], found["rows"][0]["key"]) == (
        "2026-01-01",
        "Tidy up",
        "s",
    )
    assert show_usage(flags, by="day", days=("soon", ""), form="text") == 1
    assert "'from' must be a day such as 2026-01-31" in capsys.readouterr().err
