"""`holdfast approvals rules` and `revoke`: what was allowed for good is seen and taken back."""

import asyncio
from pathlib import Path

from cli.lab import command, configure, executed
from holdfast.agent.policy import AlwaysGrants
from holdfast.chaos import ChaosServer
from holdfast.values import GrantRule
from stores import SqliteStore


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
    async with ChaosServer() as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        data = tmp_path / "data"
        await asyncio.to_thread(data.mkdir, exist_ok=True)
        await granted_in(data, ("gra_1", GrantRule(tool="fetch_url", host="example.com")))
        listed = await command(tmp_path, "approvals", "rules", start=executed)
        assert "gra_1" in listed.out
        assert "fetch_url from the host example.com." in listed.out
        assert "Revoked" in (await command(tmp_path, "approvals", "revoke", "gra_")).out
        assert "No standing rules" in (await command(tmp_path, "approvals", "rules")).out
        assert "no rule has the id gra_1" in (await command(tmp_path, "approvals", "revoke", "gra_1")).err
    assert (await granted_in(data)).rules == {}
