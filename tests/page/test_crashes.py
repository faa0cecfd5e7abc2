"""The server dies and comes back while someone looks; the page recovers by itself, without a reload."""

import asyncio
import re
import signal
import sys
from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from page.browsing import Visit
from page.program import configure, process
from ports import reserved_port

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

# Whether the log of the open session holds the start of a tool.
STARTED = """async () => {
  const answer = await fetch(`/api/sessions/${location.pathname.split('/')[2]}/events?limit=1000`);
  return (await answer.json()).events.some(event => event.type === 'tool.started');
}"""


async def sign_in_link(folder: Path) -> str:
    """What `holdfast sign-in` prints."""
    asked = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "sign-in", "--config", str(folder / "holdfast.toml")),
        stdout=asyncio.subprocess.PIPE,
        cwd=folder,
    )
    said, _ = await asked.communicate()
    assert asked.returncode == 0
    return said.decode().strip()


async def test_killed_in_mid_answer_and_started_again_the_page_goes_on(visit: Visit, tmp_path: Path) -> None:
    """P1, P6, P7: nothing that was seen is gone; the answer is whole, and stands there once."""
    gate, rest = Gate(), Gate()
    whole = [Say("the"), Wait(rest), Say(" whole answer")]
    async with ChaosServer([Say("half of it"), Wait(gate)], whole) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos, port=reserved_port())
        async with process(tmp_path) as url:
            chat = await visit(url)
            await chat.say("hello")
            await chat.answered("half of it")
            await chat.mark()
        await chat.state("Reconnecting")
        # Nobody knows what the run does, so that nothing is counted.
        await expect(chat.page.locator(".live")).to_have_text(
            re.compile("^Reconnecting.*this page catches up$")
        )
        await expect(chat.answers.last).to_have_text("half of it")
        async with process(tmp_path):
            old = chat.page.get_by_role("region", name="Superseded text")
            await expect(chat.answers.last).to_have_text("the")
            await expect(old).to_have_text(re.compile("^Cut off by the restart.*half of it$"))
            another = await visit(chat.page.url, chat.page.context)
            await expect(another.page.get_by_role("region", name="Superseded text")).to_contain_text("half")
            rest.open()
            await chat.answered("the whole answer")
            await expect(old).to_have_count(0)
            await chat.sees(re.compile("Resumed after"))
            await expect(chat.people).to_have_count(1)
            assert await chat.was_not_reloaded()
            await visit.leave(url)


async def test_killed_in_mid_tool_the_page_says_that_the_outcome_is_unknown(
    visit: Visit, tmp_path: Path
) -> None:
    """P6: the tool does not run twice, and the card does not pretend."""
    async with ChaosServer(
        [CallTool("shell", {"command": "sleep 600"})], [Say("I will not repeat it")]
    ) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos, port=reserved_port())
        async with process(tmp_path) as url:
            chat = await visit(url)
            await chat.say("wait for it")
            activity = chat.talk.get_by_role("group", name="Activity")
            await expect(activity).to_contain_text("sleep 600")
            # A promise is true for `wait_for_function`, whatever becomes of it.
            while not await chat.page.evaluate(STARTED):
                pass
            await chat.mark()
        async with process(tmp_path):
            await chat.answered("I will not repeat it")
            await activity.get_by_role("button").first.click()
            await chat.sees(re.compile("unknown", re.IGNORECASE))
            assert await chat.was_not_reloaded()
            await visit.leave(url)


async def test_the_printed_link_signs_in_once_and_leaves_no_trace(visit: Visit, tmp_path: Path) -> None:
    """P11."""
    async with ChaosServer([Say("welcome")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos, keys="")
        async with process(tmp_path, end_with=signal.SIGTERM) as url:
            assert "#" not in url  # it is no terminal that reads it
            link = await sign_in_link(tmp_path)
            assert link.startswith(f"{url}/#token=")
            chat = await visit(link)
            await chat.say("hello")
            await chat.answered("welcome")
            assert "token" not in chat.page.url
            await chat.page.reload()
            await chat.answered("welcome")

            stranger = await visit(link)
            await stranger.sees("Sign in to Holdfast")
            await stranger.sees(re.compile("expired or was already used"))
            await stranger.page.get_by_label("Key", exact=True).fill("not-the-key")
            await stranger.button("Sign in").click()
            await stranger.sees(re.compile("key is wrong"))
            key = await asyncio.to_thread((tmp_path / "data" / "api-key").read_text)
            await stranger.page.get_by_label("Key", exact=True).fill(key.strip())
            await stranger.button("Sign in").click()
            await expect(stranger.rows).to_have_count(1)
            assert "#" not in stranger.page.url
            await stranger.button("Settings").click()
            await expect(stranger.page.get_by_role("listitem").filter(has_text="main")).to_contain_text(
                "Ready"
            )
            await stranger.button("Sign out").click()
            await expect(stranger.page.get_by_label("Key", exact=True)).to_be_focused()
            await stranger.page.reload()
            await stranger.sees("Sign in to Holdfast")

            again = await sign_in_link(tmp_path)
            await stranger.page.evaluate("link => { location.href = link }", again)  # only the hash changes
            await expect(stranger.rows).to_have_count(1)
            assert "token" not in stranger.page.url
            await visit.leave(url)
