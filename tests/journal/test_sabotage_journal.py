"""The proofs are honest: each check fails for a store that is wrong in just its way, and passes for ours."""

import asyncio
from pathlib import Path

import pytest

from journal.sabotage_journal import SABOTAGES, Sabotage
from stores import SqliteStore

# Only a broken check waits as long as this, and that is no proof.
PATIENCE_S = 90
# What `pytest.raises` in a check raises when nothing was refused is no AssertionError.
NOTICED = (AssertionError, pytest.fail.Exception)


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda one: f"{one.promise}-{one.wrong.__name__}")
async def test_a_wrong_store_is_found_out(sabotage: Sabotage, tmp_path: Path) -> None:
    with pytest.raises(NOTICED):
        async with asyncio.timeout(PATIENCE_S):
            await sabotage.run(tmp_path, kind=sabotage.wrong)


@pytest.mark.parametrize(
    "check", {one.check: one for one in SABOTAGES}.values(), ids=lambda one: one.check.__name__
)
async def test_the_right_store_passes_the_same_check(check: Sabotage, tmp_path: Path) -> None:
    await check.run(tmp_path, kind=SqliteStore)  # the check itself asserts
