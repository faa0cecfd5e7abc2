"""How runs end, as the page tells it: what happened, and what to do about it."""

import pytest
from playwright.async_api import expect

from holdfast.chaos import CallTool, Finish, Gate, Refuse, Say, Think, Wait
from page.browsing import Visit
from server.toolbox import Counted
from serving import Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_what_was_not_completed_says_what_happened_and_what_to_do(visit: Visit) -> None:
    """P4: each ending is told as what it is. A thought is over once words follow it."""
    gate = Gate()
    scripts = (
        [Say("I am busy."), CallTool("touch", {"path": "a"})],
        [Refuse("Not this.")],
        *([Say("Once upon a"), Finish("length")] for _ in range(4)),
        [Think("let me see"), Say("It is"), Wait(gate), Say(" so.")],
    )
    async with visit.chatting(*scripts, setting=Setting(tools=(Counted(),))) as server:
        await server.served.ended(await server.served.start(session_id="budget", budget={"turns": 1}))
        await server.served.ended(await server.served.start(session_id="refused"))
        await server.served.ended(await server.served.start(session_id="truncated"))
        chat = await visit(f"{server.url}/s/budget")
        verdict = chat.talk.get_by_role("group", name="Run outcome")
        await expect(verdict.locator("strong")).to_have_text("The run reached its budget of 1 model answer.")
        await expect(verdict).to_contain_text(
            "send another message to continue, or set a larger budget.turns"
        )
        await expect(verdict.get_by_role("button", name="Details")).to_have_count(0)
        await chat.page.goto(f"{server.url}/s/refused")
        await expect(verdict).to_contain_text("Refused by the model: main refused to answer.")
        await expect(verdict).to_contain_text("Rephrase the request")
        await chat.page.goto(f"{server.url}/s/truncated")
        await expect(verdict).to_contain_text("Cut off at the length limit.")
        await expect(verdict).to_contain_text("Send “continue” to get the rest")
        await expect(chat.button("Retry")).to_be_visible()
        await chat.button("New chat").click()
        await chat.say("is it so?")
        await chat.answered("It is")
        await expect(chat.talk.get_by_role("group", name="Activity")).to_have_text("Thought · 3 words")
        gate.open()
        await chat.answered("It is so.")
