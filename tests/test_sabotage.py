"""The proofs are honest: each check fails for what is wrong in just its way, and passes for what is right."""

import asyncio

import pytest

from features.automations.sabotages import SABOTAGES as OF_TRIGGERS
from features.mcp_server.sabotages import SABOTAGES as OF_MCP
from features.memory.sabotages import SABOTAGES as OF_MEMORY
from features.plans.sabotages import SABOTAGES as OF_PLANS
from features.skills.sabotages import SABOTAGES as OF_SKILLS
from features.undo.sabotages import SABOTAGES as OF_UNDO
from journal.sabotage_journal import SABOTAGES as OF_STORES
from promises import PROMISES
from sabotage import Sabotage
from sabotage.channels import SABOTAGES as OF_CHANNELS
from sabotage.chats import SABOTAGES as OF_CHATS
from sabotage.children import SABOTAGES as OF_CHILDREN
from sabotage.confinement import SABOTAGES as OF_CONFINEMENT
from sabotage.deliveries import SABOTAGES as OF_DELIVERIES
from sabotage.discord import SABOTAGES as OF_DISCORD
from sabotage.nodes import SABOTAGES as OF_NODES
from sabotage.parts import SABOTAGES as OF_PARTS
from sabotage.paths import SABOTAGES as OF_PATHS
from sabotage.programs import SABOTAGES as OF_PROGRAMS
from sabotage.recall import SABOTAGES as OF_RECALL
from sabotage.relay import SABOTAGES as OF_RELAY
from sabotage.run_logs import SABOTAGES as OF_RUN_LOGS
from sabotage.runs import SABOTAGES as OF_RUNS
from sabotage.servers import SABOTAGES as OF_SERVERS
from sabotage.slack import SABOTAGES as OF_SLACK

SABOTAGES = (
    *OF_CHANNELS,
    *OF_CHATS,
    *OF_CHILDREN,
    *OF_CONFINEMENT,
    *OF_DELIVERIES,
    *OF_DISCORD,
    *OF_MCP,
    *OF_NODES,
    *OF_PARTS,
    *OF_PATHS,
    *OF_MEMORY,
    *OF_PLANS,
    *OF_RECALL,
    *OF_SKILLS,
    *OF_PROGRAMS,
    *OF_RELAY,
    *OF_RUN_LOGS,
    *OF_RUNS,
    *OF_SERVERS,
    *OF_SLACK,
    *OF_TRIGGERS,
    *OF_UNDO,
)

# Only a broken check waits as long as this, and that is no proof.
PATIENCE_S = 90


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda one: one.name)
async def test_what_is_wrong_is_found_out(sabotage: Sabotage) -> None:
    with pytest.raises(AssertionError):
        async with asyncio.timeout(PATIENCE_S):
            await sabotage.check(sabotage.wrong)


@pytest.mark.parametrize(
    "sabotage", {one.check: one for one in SABOTAGES}.values(), ids=lambda one: one.check.__name__
)
async def test_what_is_right_passes_the_same_check(sabotage: Sabotage) -> None:
    await sabotage.check(sabotage.right)


def test_every_promise_has_a_sabotage() -> None:
    covered = {one.promise for one in SABOTAGES} | {one.promise for one in OF_STORES}
    assert covered == set(PROMISES)
