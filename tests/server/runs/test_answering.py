"""Every interface answers approvals through one function: the same choice has the same effect on each."""

import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace
from typing_extensions import override

from agent.world import messages
from features.channels.lab import last_user_text, served_channels
from holdfast import Agent, ApprovalNeeded, PendingApproval, tool
from holdfast.agent.policy import AlwaysGrants, ConfiguredJudge
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.client import Client
from holdfast.features.channels.cards import CHOICES
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.policy.verdicts import NeedsApproval, Verdict
from holdfast.testing import Call, ScriptedModel
from holdfast.testing import Say as Said
from holdfast.values import Action, ApprovalMode, Choice, GrantRule, Width
from server.runs.answering import FACES, Face, Row, Scene
from server.toolbox import CountedShell
from serving import PATIENT, served, target_of
from stores import MemoryStore
from tables import for_each_row

RULELESS = "ruleless"  # a command that no rule can describe, although lasting choices are offered
LASTING: tuple[Choice, ...] = ("session", "always")
WIDE = {name: face for name, face in FACES.items() if "similar" in face.widths}


def fetch(request: SeenRequest) -> Script:
    """Ask for a commit, or for a command with two parts, one of which "workspace" allows."""
    text = last_user_text(request)
    if messages(request)[-1]["role"] == "tool":
        return [Say(f"done {text}")]
    if text.startswith("commit"):
        return [CallTool("shell", {"command": f"git commit -m {text}"})]
    first = "touch a && " if text.startswith("workspace") else ""
    return [CallTool("shell", {"command": f"{first}curl https://example.com/{text}"})]


class OfferingJudge(ConfiguredJudge):
    """Offers lasting choices for a ruleless command, too, as logs of older versions do."""

    @override
    def verdict(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> Verdict:
        found = ConfiguredJudge.verdict(self, action, grants, workspace=workspace)
        is_ruleless = isinstance(found, NeedsApproval) and RULELESS in action.summary
        return dataclasses.replace(found, offers=()) if is_ruleless else found

    @override
    def rule(
        self, action: Action, grants: Sequence[GrantRule], *, workspace: Path, width: Width = "exact"
    ) -> GrantRule | None:
        if RULELESS in action.summary:
            return None
        return ConfiguredJudge.rule(self, action, grants, workspace=workspace, width=width)


@dataclass(frozen=True, slots=True)
class Talk(Scene):
    """The same, and how its runs work."""

    tool: CountedShell

    async def asked(self, text: str) -> Row:
        """The approval that a message leads to, once its card is in the chat."""
        self.chat.say(text)
        await self.chat.changed.until(lambda: CHOICES["deny"] in self.chat.buttons())
        _, shown = await self.server.get("/v1/approvals")
        (row,) = shown["data"]
        return row

    async def until_answered(self, row: Row) -> None:
        await self.server.ended(row["run_id"])
        await self.chat.changed.until(lambda: not self.chat.buttons())

    async def rules(self) -> set[tuple[str, str]]:
        """The scope of each stored rule, and the address that it allows."""
        _, found = await self.server.get("/api/approvals/rules?sessions=all")
        return {(one["scope"], one["rule"]["argv"][-1]) for one in found["data"]}


@asynccontextmanager
async def talking(face: Face, folder: Path, *, mode: ApprovalMode) -> AsyncGenerator[Talk]:
    """A server with the face's chat, whose sessions have this mode."""
    counted, chat, store = CountedShell(), face.chat(), MemoryStore()
    async with chat.fake(), ChaosServer(choose=fetch) as chaos:
        chats = served_channels(chat.options(approvals=mode))
        judge = OfferingJudge(home=folder, always=AlwaysGrants(MemoryStore(MemoryDisk())))
        setting = replace(chats, tools=(counted,), judge=judge, store=store)
        async with served(target_of(chaos, patience=PATIENT), setting=setting) as server:
            await chat.changed.until(lambda: chat.is_connected)
            yield Talk(server, store, chat, folder, counted)
    await store.close()


@pytest.mark.parametrize("mode", ["ask", "workspace"])
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
async def test_each_choice_has_the_same_effect_on_each_interface(
    face: Face, mode: ApprovalMode, tmp_path: Path
) -> None:
    """P8: a lasting choice stores the rule that was shown, in the mode of its session; the others, none."""
    kept = set[tuple[str, str]]()
    async with talking(face, tmp_path, mode=mode) as talk:
        for choice in get_args(Choice):
            row = await talk.asked(f"{mode}-{choice}")
            ran = len(talk.tool.done)
            assert await face.answer(talk, row, choice), choice
            await talk.until_answered(row)
            assert len(talk.tool.done) == ran + (choice != "deny"), choice
            kept |= {(choice, f"https://example.com/{mode}-{choice}")} if choice in LASTING else set()
            assert await talk.rules() == kept


@pytest.mark.parametrize("choice", LASTING)
@pytest.mark.parametrize("face", WIDE.values(), ids=WIDE)
async def test_each_width_that_an_interface_has_is_stored_as_it_was_shown(
    face: Face, choice: Choice, tmp_path: Path
) -> None:
    """P8: a wider rule spares the next commit, whatever its message; an exact one doesn't."""
    for width in face.widths:
        async with talking(face, tmp_path, mode="ask") as talk:
            row = await talk.asked("commit-one")
            shown = next(
                offer["rule"] for offer in row["offers"] if offer["rule"].get("width", "exact") == width
            )
            assert await face.answer(talk, row, choice, width), width
            await talk.until_answered(row)
            _, found = await talk.server.get("/api/approvals/rules?sessions=all")
            assert [(one["scope"], one["rule"]) for one in found["data"]] == [(choice, shown)]
            if width == "similar":
                run_id = await talk.server.start("commit-two", session_id=row["session_id"])
                assert (await talk.server.ended(run_id))["status"] == "completed"
                assert len(talk.tool.done) == 2
            else:
                await talk.asked("commit-two")
                assert len(talk.tool.done) == 1


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
async def test_a_lasting_choice_without_a_rule_is_refused_and_the_approval_stays_open(
    face: Face, tmp_path: Path
) -> None:
    """P8: nobody is told that something is allowed if nothing was stored."""
    async with talking(face, tmp_path, mode="ask") as talk:
        row = await talk.asked(RULELESS)
        for choice in LASTING:
            assert not await face.answer(talk, row, choice), choice
            assert talk.tool.done == []
            assert await talk.rules() == set()
            assert (await talk.server.get("/v1/approvals"))[1]["data"] == [row]
        # A session that is unattended from now on asks nothing more. What it has asked can still be answered.
        async with Client(talk.server.url) as client:
            await client.set_approval_mode(row["session_id"], "unattended")
        assert await face.answer(talk, row, "once")
        await talk.until_answered(row)
        assert len(talk.tool.done) == 1
        await talk.server.ended(await talk.server.start("again", session_id=row["session_id"]))
        assert len(talk.tool.done) == 1


PAYS = [Call("pay", cents=1), Call("pay", cents=1), Said("Done.")]


@for_each_row("answers", ["on_approval", "run"])
async def test_a_program_allows_one_exact_action_at_a_time(answers: str) -> None:
    """P8: the package offers no lasting choice, so the same action is asked about again."""
    paid, verdicts = list[int](), [True, False]

    @tool(needs_approval=True)
    async def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    def decide(_: PendingApproval) -> bool:
        return verdicts.pop(0)

    on_approval = decide if answers == "on_approval" else None
    async with Agent(ScriptedModel(PAYS), tools=[pay], on_approval=on_approval) as agent:
        run = await agent.start("Pay twice")
        while verdicts:
            try:
                await run.result()
            except ApprovalNeeded as needed:
                await (run.approve if verdicts.pop(0) else run.deny)(needed.approval_id)
        assert (await run.result()).output == "Done."
    assert paid == [1]
