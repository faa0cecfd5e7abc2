"""What runs ask of people, and what people line up for runs: the same in every tab, also after a reload."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.agent.policy import ConfiguredJudge
from holdfast.chaos import CallTool, Gate, Say, Wait
from holdfast.values import Action
from page.browsing import Chat, Visit, faults_of, hold
from server.toolbox import Counted, CountedShell
from serving import AsksAbout, Setting, said_to

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]


class InFolder(Counted):
    """Does something in a folder, as a shell does."""

    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        del args, workspace
        return Action(tool=self.name, summary=self.name, paths=("/srv/shop",))


async def test_an_answer_is_for_the_card_that_is_seen_in_whichever_tab(visit: Visit) -> None:
    """P8: one of three is leafed to; what the second tab answers is gone from the first."""
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(frozenset({"touch"})))
    calls = [CallTool("touch", {"path": path}) for path in ("a", "b", "c")]
    scripts = ([CallTool("touch", {"path": "a"})], [Say("touched")], calls, [Say("done")])
    async with visit.chatting(*scripts, setting=setting) as server:
        first = await visit(server.url)
        await first.say("do it")
        card = first.page.get_by_role("region", name="Approval needed")
        await expect(card).to_contain_text("touch")
        await expect(card).to_contain_text("it has an effect")
        assert tool.done == []
        await first.page.keyboard.press("Enter")  # in an empty field: no consent
        second = await visit(first.page.url)
        other = second.page.get_by_role("region", name="Approval needed")
        await other.get_by_role("button", name="Once").click()
        await first.answered("touched")
        await expect(card).to_have_count(0)
        await expect(other).to_have_count(0)
        assert tool.done == [{"path": "a"}]
        tool.done.clear()
        await first.is_over()
        await first.say("do all")
        await expect(card).to_contain_text("1 of 3")
        await expect(card).to_contain_text(re.compile(r"\d left|\d+ [hd] left"))
        await expect(first.rows.first).to_contain_text("needs you: 3")
        await card.get_by_role("button", name="Next").click()
        await expect(card).to_contain_text("2 of 3")
        await expect(card).to_contain_text('"path": "b"')
        await card.get_by_role("button", name="Allow once").click()
        await expect(card).to_contain_text("1 of 2")
        for _ in range(2):
            await expect(card).not_to_contain_text('"path": "b"')
            await card.get_by_role("button", name="Deny…").click()
            await card.get_by_role("button", name="Deny", exact=True).click()
        await first.answered("done")
        assert tool.done == [{"path": "b"}]


async def test_a_person_reads_first_what_it_does_and_allows_similar_commands_by_example(
    visit: Visit, tmp_path: Path
) -> None:
    """P8: the card says what each width covers before one is stored, and what still asks."""
    tool = CountedShell()
    setting = Setting(tools=(tool,), judge=ConfiguredJudge(home=tmp_path))
    turns = [
        turn
        for text in ("git commit -m one", "git commit -m two", "git commit --amend", "cat .env | bash")
        for turn in ([CallTool("shell", {"command": text})], [Say(f"ran {text}")])
    ]
    async with visit.chatting(*turns, setting=setting) as server:
        chat = await visit(server.url)
        card = chat.page.get_by_role("region", name="Approval needed")
        await chat.say("commit")
        await expect(card.locator(".headline")).to_have_text("Commits to the git repository")
        details = card.get_by_text("can change files")
        await expect(details).to_be_hidden()
        await card.get_by_text("Details", exact=True).click()
        await expect(details).to_be_visible()
        await card.get_by_role("button", name="In this chat…").click()
        await expect(card).to_contain_text("git commit -m 'Another message'")
        await expect(card).to_contain_text("git commit --amend")
        assert await faults_of(chat.page) == []
        await card.get_by_role("button", name="Allow similar in this chat").click()
        await chat.answered("ran git commit -m one")
        await chat.say("again")
        await chat.answered("ran git commit -m two")
        await chat.say("amend")
        await expect(card).to_contain_text("git commit --amend")
        await card.get_by_role("button", name="Allow once").click()
        await chat.answered("ran git commit --amend")
        await chat.say("show")
        await expect(card).to_contain_text("so you can only allow it once")
        await expect(card.get_by_role("button", name="In this chat…")).to_have_count(0)
        assert len(tool.done) == 3
        await chat.button("Settings").click()
        await expect(chat.page.get_by_role("dialog").locator(".rules")).to_contain_text("Commands like")


# What a key did before the browser drew anything: a page that waits for a frame is still where it was.
_FOCUS_AFTER_ALT_A = """async () => {
  window.requestAnimationFrame = () => 0;
  const key = {key: "a", code: "KeyA", altKey: true, bubbles: true, cancelable: true};
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", key));
  for (let turns = 0; turns < 20; turns++) await Promise.resolve();
  return document.activeElement.getAttribute("aria-label");
}"""


async def test_approvals_are_given_by_keys_on_the_card_that_has_the_focus_and_by_no_others(
    visit: Visit,
) -> None:
    """P8: a key that is meant for the message field, and Enter, approve nothing.

    Keys that follow Alt+A are for the card, or a fast "y" would be typed into the message.
    """
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(frozenset({"touch"})))
    calls = [CallTool("touch", {"path": path}) for path in ("a", "b", "c")]
    async with visit.chatting(calls, [Say("done")], calls[:1], setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("do it")
        card = chat.page.get_by_role("region", name="Approval needed")
        await expect(card).to_contain_text("1 of 3")
        await expect(chat.box).to_be_focused()
        await chat.page.keyboard.type("y1")
        await expect(chat.box).to_have_value("y1")
        await chat.page.keyboard.press("Alt+a")
        await expect(card).to_be_focused()
        await expect(card.get_by_role("button", name="Allow once")).to_be_enabled()
        for key in ("Enter", "Space", "Control+y"):
            await chat.page.keyboard.press(key)
        await expect(card).to_contain_text("1 of 3")
        await chat.page.keyboard.press("y")
        await expect(card).to_contain_text("1 of 2")
        await expect(card).to_contain_text('"path": "b"')
        await expect(card).to_be_focused()
        await expect(card.get_by_role("button", name="Allow once")).to_be_enabled()
        await chat.page.keyboard.press("n")
        await expect(card.get_by_role("textbox")).to_be_focused()
        await chat.page.keyboard.type("not 1 of yours")
        await chat.page.keyboard.press("Enter")
        await expect(card).to_contain_text('"path": "c"')
        await expect(card).to_be_focused()
        await expect(card.get_by_role("button", name="Allow once")).to_be_enabled()
        await chat.page.keyboard.press("1")
        await chat.answered("done")
        await expect(chat.box).to_be_focused()
        assert tool.done == [{"path": "a"}, {"path": "c"}]
        await chat.is_over()
        await chat.box.fill("")
        await chat.say("do one")
        await expect(card.get_by_role("button", name="Allow once")).to_be_enabled()
        await expect(chat.box).to_be_focused()
        assert await chat.page.evaluate(_FOCUS_AFTER_ALT_A) == "Approval needed"


async def test_at_each_step_of_an_approval_the_card_names_the_keys_that_work_there_and_no_others_do(
    visit: Visit,
) -> None:
    """P8: what allows an action once stores no rule a step further, and Escape takes the step back."""
    tool = Counted()
    judge = AsksAbout(frozenset({"touch"}))
    async with visit.chatting(
        [CallTool("touch", {"path": "a"})], [Say("done")], setting=Setting(tools=(tool,), judge=judge)
    ) as server:
        chat = await visit(server.url)
        await chat.say("do it")
        card = chat.page.get_by_role("region", name="Approval needed")
        await expect(card.get_by_role("button", name="Allow once")).to_be_enabled()
        await chat.page.keyboard.press("Alt+a")
        await expect(card).to_be_focused()
        await expect(card).to_contain_text(re.compile("Y allow once · N deny · 1.4 choose"))
        await card.get_by_role("button", name="Always…").press("Enter")
        await expect(card).to_be_focused()
        await expect(card).to_contain_text("1 choose · Esc back")
        await chat.page.keyboard.press("y")
        await chat.page.keyboard.press("n")
        await expect(card.get_by_role("button", name="Always allow")).to_be_enabled()
        await chat.page.keyboard.press("Escape")
        await expect(card).to_be_focused()
        await chat.page.keyboard.press("4")
        await expect(card.get_by_role("textbox")).to_be_focused()
        await expect(card).to_contain_text("Enter deny · Esc back")
        await chat.page.keyboard.press("Escape")
        await expect(card).to_be_focused()
        await expect(chat.page.get_by_text("Press Esc again to stop")).to_have_count(0)
        assert not await faults_of(chat.page)
        assert (tool.done, dict(judge.always)) == ([], {})
        await chat.page.keyboard.press("y")
        await chat.answered("done")
        assert (tool.done, dict(judge.always)) == ([{"path": "a"}], {})


async def test_the_inbox_holds_what_waits_in_all_chats_the_oldest_first(visit: Visit) -> None:
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(frozenset({"touch"})))
    question = CallTool("ask_user", {"text": "Tea or coffee?", "choices": ["tea", "coffee"]})
    async with visit.chatting(
        [CallTool("touch", {"path": "a"})], [question], [Say("noted")], [Say("touched")], setting=setting
    ) as server:
        chat = await visit(server.url)
        await chat.say("do it")
        await expect(chat.page.get_by_role("region", name="Approval needed")).to_be_visible()
        await chat.button("New chat").click()
        await chat.say("ask me")
        await expect(chat.page.get_by_role("region", name="Question")).to_be_visible()
        await chat.button("New chat").click()
        await chat.button("Inbox 2 waiting for you").click()
        items = (
            chat.page.get_by_role("list", name="Waiting for you")
            .get_by_role("listitem")
            .filter(has=chat.page.get_by_role("button", name=re.compile("Review|Open chat")))
        )
        await expect(items).to_have_count(2)
        await expect(items.nth(0)).to_contain_text("do it")
        await expect(items.nth(1)).to_contain_text("Tea or coffee?")
        assert not await faults_of(chat.page)
        await items.nth(1).get_by_role("button", name="tea").focus()
        await chat.page.keyboard.press("2")
        await expect(items).to_have_count(1)
        await expect(items).not_to_contain_text('"path": "a"')
        await expect(items.get_by_role("button", name="Review")).to_be_focused()
        await chat.page.keyboard.press("Enter")
        card = items.get_by_role("group", name="Approval needed")
        await expect(card).to_be_focused()
        await expect(card.get_by_role("group", name="Exact action")).to_contain_text('"path": "a"')
        await expect(card.get_by_role("button", name="Allow once")).to_be_enabled()
        await expect(card).to_contain_text("Y allow once")
        assert not await faults_of(chat.page)
        await chat.page.keyboard.press("n")
        await expect(card.get_by_role("textbox")).to_be_focused()
        await chat.page.keyboard.press("Escape")
        await expect(card).to_be_focused()
        await chat.page.keyboard.press("y")
        await chat.sees("Nothing is waiting for you.")
        await expect(chat.button("Close")).to_be_focused()
        await chat.page.keyboard.press("Escape")
        await chat.rows.filter(has_text="do it").get_by_role("link").click()
        await chat.answered("touched")
        assert tool.done == [{"path": "a"}]
        await expect(chat.page.get_by_role("button", name=re.compile("Inbox"))).to_have_count(0)
        await chat.box.blur()
        await chat.page.keyboard.press("i")
        await chat.sees("Nothing is waiting for you.")
        assert "coffee" in said_to(server.chaos, nth=3)[-1]


async def test_a_run_that_was_refused_something_says_so_and_names_its_model(visit: Visit) -> None:
    """P4: it is complete, and yet it did not do what it wanted."""
    question = CallTool("ask_user", {"text": "**Tea** or coffee?", "choices": ["tea", "coffee"]})
    setting = Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))
    turns = ([question], [CallTool("touch", {"path": "a"})], [Say("nothing done")])
    async with visit.chatting(*turns, setting=setting, models=("large", "small")) as server:
        chat = await visit(server.url)
        await chat.say("ask me")
        question_card = chat.page.get_by_role("region", name="Question")
        await expect(question_card).to_contain_text("Tea or coffee?")
        await question_card.get_by_role("button", name="coffee").click()
        asked = chat.page.get_by_role("article", name="Question")
        await expect(asked.locator("strong")).to_have_text("Tea")
        card = chat.page.get_by_role("region", name="Approval needed")
        await expect(card.get_by_role("button", name="Deny…")).to_be_enabled()
        await chat.say("and be quick")
        queue = chat.page.get_by_role("region", name="Queued messages")
        await expect(queue).to_contain_text("The agent reads it after you answer the request")
        await card.get_by_role("button", name="Deny…").click()
        await expect(card.get_by_role("textbox")).to_be_focused()
        await chat.page.keyboard.press("Enter")
        await chat.answered("nothing done")
        await expect(chat.talk).to_contain_text("1 refused")
        await expect(chat.talk).to_contain_text("1 action refused")
        await expect(chat.talk.locator(".talk-facts").last).to_contain_text("large")
        assert "coffee" in said_to(server.chaos, nth=2)[-1]
        assert not await faults_of(chat.page)


async def test_waiting_messages_are_edited_steered_sent_at_once_and_taken_back(visit: Visit) -> None:
    """P2: the queue is kept on the server; while it waits behind a stop, nothing looks as if it ran."""
    gate, later = Gate(), Gate()
    scripts = (
        [Say("busy"), Wait(gate)],
        [Say("second answer")],
        [Say("still busy"), Wait(later)],
        [Say("at once"), Wait(later)],
    )
    async with visit.chatting(*scripts) as server:
        chat = await visit(server.url)
        await chat.say("one")
        await chat.answered("busy")
        await chat.say("two, wrong")
        queue = chat.page.get_by_role("region", name="Queued messages")
        await expect(queue).to_contain_text("two, wrong")
        await chat.page.reload()
        await queue.get_by_role("button", name="Edit this message").click()
        await chat.page.get_by_role("textbox", name="Queued message").fill("two, right")
        await chat.page.get_by_role("textbox", name="Queued message").press("Enter")
        await expect(queue).to_contain_text("two, right")
        gate.open()
        await chat.answered("second answer")
        assert said_to(server.chaos, nth=2)[-1] == "two, right"
        await expect(queue).to_have_count(0)
        await chat.button("New chat").click()
        await _line_up(chat)
        assert said_to(server.chaos, nth=4)[1:] == ["still busy", "three"]


async def test_what_was_allowed_always_is_listed_in_the_settings_and_taken_back(visit: Visit) -> None:
    """P8: a rule that nobody can see is no consent."""
    tool, other = Counted(), Counted("poke")
    setting = Setting(tools=(tool, other), judge=AsksAbout(frozenset({"touch", "poke"})))
    scripts = (
        [CallTool("touch", {"path": "a"}), CallTool("poke", {"path": "b"})],
        [Say("both done")],
        [CallTool("touch", {"path": "c"})],
    )
    async with visit.chatting(*scripts, setting=setting) as server:
        chat = await visit(server.url)
        card = chat.page.get_by_role("region", name="Approval needed")
        await chat.say("do both")
        await card.get_by_role("button", name="Always…").click()
        await card.get_by_role("button", name="Always allow").click()
        await expect(card).to_contain_text("poke")
        await card.get_by_role("button", name="In this chat…").click()
        await card.get_by_role("button", name="Allow in this chat").click()
        await chat.answered("both done")
        await chat.button("Settings").click()
        rules = chat.page.get_by_role("dialog").locator(".rules")
        lines = rules.get_by_role("listitem")
        await expect(lines).to_have_count(2)
        await expect(lines.first).to_contain_text("touch")
        await expect(lines.first).to_contain_text("In every chat")
        await expect(lines.last).to_contain_text("Only in this chat")
        assert await faults_of(chat.page) == []
        for left in (1, 0):
            await lines.first.get_by_role("button", name="Revoke").click()
            await expect(lines).to_have_count(left)
            await expect(rules).to_be_focused()
        await expect(rules.get_by_role("status")).to_have_text("Revoked. This needs approval again.")
        await chat.page.keyboard.press("Escape")
        await chat.say("once more")
        await expect(card).to_contain_text("touch")
        assert (len(tool.done), len(other.done)) == (1, 1)


async def test_badges_and_titles_count_all_chats_not_only_those_in_the_list(visit: Visit) -> None:
    """P9: the server counts, whichever chats the page has loaded."""
    setting = Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))
    calls = [[CallTool("touch", {"path": str(nth)})] for nth in range(3)]
    async with visit.chatting(*calls, [Say("done")], setting=setting) as server:
        served = server.served
        for nth in range(3):  # one after the other, because the inbox lists the oldest first
            run_id = await served.start(f"tidy {nth}", session_id=f"old{nth}")
            await served.until(run_id, "approval.request")
        for _ in range(51):  # a page of the list is 50
            assert (await served.call("POST", "/api/sessions", body={"title": "newer"})).status == 201
        chat = await visit(server.url)
        await expect(chat.rows).to_have_count(50)
        await expect(chat.page).to_have_title("(3) Holdfast")
        await chat.button("Inbox 3 waiting for you").click()
        titles = chat.page.get_by_role("list", name="Waiting for you").get_by_role("strong")
        await expect(titles).to_have_text(["tidy 0", "tidy 1", "tidy 2"])
        await chat.page.keyboard.press("Escape")
        await chat.page.set_viewport_size({"width": 390, "height": 800})
        await expect(chat.button("Show chats: 3 need you")).to_be_visible()
        _, asks = await served.get("/v1/approvals")
        assert asks["total"] == 3
        first = asks["data"][0]
        body = {"choice": "once", "approval_id": first["approval_id"]}
        assert (await served.call("POST", f"/v1/runs/{first['run_id']}/approval", body=body)).status == 200
        await expect(chat.button("Show chats: 2 need you")).to_be_visible()
        await expect(chat.page).to_have_title("(2) Holdfast")


class Longwinded(Counted):
    """Says much about what it is going to do."""

    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        del args, workspace
        return Action(tool=self.name, summary="word " * 2000)


async def test_a_long_action_leaves_the_decision_in_sight_and_is_not_read_out_to_its_end(
    visit: Visit,
) -> None:
    """Zoomed to 200 %, or on a phone held sideways: nothing that decides lies outside of the window.

    A screen reader cannot be asked to skip what a live region says, however late the page is.
    """
    tools = (InFolder("shell"), Longwinded("touch"))
    setting = Setting(tools=tools, judge=AsksAbout(frozenset({"shell", "touch"})))
    call = CallTool("shell", {"command": "\n".join(f"echo {n}" for n in range(30))})
    async with visit.chatting([call], [CallTool("touch", {})], setting=setting) as server:
        chat = await visit(server.url, viewport={"width": 640, "height": 400})
        await chat.say("do it")
        card = chat.page.get_by_role("region", name="Approval needed")
        await expect(card).to_contain_text("echo 29")
        await expect(card).to_contain_text("in /srv/shop")
        for name in ("Allow once", "Deny…"):
            await expect(card.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        await expect(card.get_by_text("Approval needed")).to_be_in_viewport(ratio=1)
        await expect(chat.button("Stop")).to_be_in_viewport(ratio=1)
        await chat.page.goto(server.url)
        gate = await hold(chat.page, "**/messages?limit=*")
        async with chat.page.expect_response("**/v1/runs", timeout=30_000) as coming:
            await chat.say("do it")
        run_id = (await (await coming.value).json())["run_id"]
        await server.served.until(run_id, "approval.request")
        gate.open()
        said = chat.page.get_by_role("log", name="Announcements")
        await expect(said).to_contain_text("Approval needed: word word")
        assert len(await said.inner_text()) <= 2000


async def _line_up(chat: Chat) -> None:
    await chat.say("one")
    await chat.answered("still busy")
    for text in ("two", "three", "four"):
        await chat.box.fill(text)
        await chat.page.get_by_label("How to send it").select_option("Queue")
        await chat.box.press("Enter")
    queue = chat.page.get_by_role("region", name="Queued messages").get_by_role("listitem")
    await expect(queue).to_have_count(3)
    await queue.nth(2).get_by_role("button", name="Remove this message").click()
    await expect(queue).to_have_count(2)
    await queue.nth(1).get_by_role("button", name="Stop the run and send this").click()
    await chat.answered("at once")
    await expect(chat.rows.first).to_contain_text("running")
    await queue.get_by_role("button", name="Steer now").click()
    await expect(queue).to_contain_text("The agent reads it at its next step")
    await chat.say("five")
    await expect(queue).to_have_count(2)
    await chat.button("Stop").click()
    await chat.sees("Paused.")
    await expect(chat.rows.first.get_by_title("Messages are waiting")).to_be_visible()
    await expect(chat.rows.first).not_to_contain_text("running")
    await chat.button("Clear").click()
    await expect(queue).to_have_count(0)
