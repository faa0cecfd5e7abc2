"""`holdfast approvals rules` and `revoke`: what was allowed for good is seen and taken back."""

import asyncio
from pathlib import Path

from cli.lab import configure
from cli.tmux import HOLDFAST, terminal
from holdfast.agent.policy import AlwaysGrants
from holdfast.chaos import ChaosServer
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.values import GrantRule


async def granted_in(folder: Path, *rules: tuple[str, GrantRule]) -> AlwaysGrants:
    store = await SqliteStore.open(folder / "holdfast.db")
    grants = AlwaysGrants(store)
    await grants.load()
    for grant_id, rule in rules:
        await grants.add(grant_id, rule)
    await store.close()
    return grants


async def test_a_rule_is_listed_in_words_and_holds_no_more_once_it_is_revoked(tmp_path: Path) -> None:
    """P8: what was allowed can be taken back."""
    name, on = " ".join(HOLDFAST), f"--config {tmp_path}/holdfast.toml"
    script = tmp_path / "script"
    commands = ("rules", "revoke gra_", "rules", "revoke gra_1")
    lines = [f"{name} approvals {command} {on}; echo exit=$?" for command in commands]
    await asyncio.to_thread(script.write_text, "\n".join([*lines, "echo over"]))
    async with ChaosServer() as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        data = tmp_path / "data"
        await asyncio.to_thread(data.mkdir, exist_ok=True)
        await granted_in(data, ("gra_1", GrantRule(tool="fetch_url", host="example.com")))
        async with terminal("bash", str(script), folder=tmp_path) as window:
            screen = await window.until("over")
    listed, revoked, empty, gone = screen.split("exit=")[:4]
    assert "gra_1" in listed
    assert "fetch_url from the host example.com." in listed
    assert "Revoked" in revoked
    assert "There are no standing rules" in empty
    assert "no rule has the id gra_1" in gone
    assert (await granted_in(data)).rules == {}
