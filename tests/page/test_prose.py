"""What an answer can hold beside plain Markdown: maths, footnotes, parts that fold; none of it does harm."""

import re

import pytest
from playwright.async_api import Page, expect

from holdfast.chaos import Gate, Say, Wait
from page.browsing import Visit, faults_of, requests_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

COPIED = """
() => {
  getSelection().selectAllChildren(document.querySelector(".prose"));
  return getSelection().toString();
}
"""
# The paragraphs of which a formula of another paragraph covers a part.
COVERED = """
answer => [...answer.querySelectorAll("p")].filter(paragraph => {
  paragraph.scrollIntoView({block: "center"});
  const {left, top, width, height} = paragraph.getBoundingClientRect();
  return [0.02, 0.2, 0.5].some(share => {
    const hit = document.elementFromPoint(left + share * width, top + height / 2);
    return hit.closest(".katex") !== null && !paragraph.contains(hit);
  });
}).map(paragraph => paragraph.textContent)
"""
WATCHED = """
window.forbidden = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.forbidden.push(event.violatedDirective);
});
"""


async def policy_faults(page: Page) -> list[str]:
    """What the page's policy had to forbid since the page was opened."""
    return await page.evaluate("window.forbidden")


async def test_maths_is_laid_out_once_it_is_closed_and_copied_as_its_source(visit: Visit) -> None:
    """Where the formulas cannot be fetched, it stays its source."""
    gate = Gate()
    begun = r"So \(a+b\), $x^2$ and \(c\,d"
    rest = "\\) cost $5 and $6.\n\n$$\n\\frac{1}{2}\n$$\n\nor\n\n\\[ \\sqrt{x} \\]\n"
    async with visit.chatting([Say(r"So \(a+b\).")], [Say(begun), Wait(gate), Say(rest)]) as server:
        context = await visit.context()
        await context.add_init_script(WATCHED)
        chat = await visit(server.url, context)
        await chat.page.route("**/assets/maths-*", lambda route: route.abort("connectionrefused"))
        await chat.say("one")
        await chat.answered(r"So \(a+b\).")
        await chat.is_over()
        await chat.page.unroute_all()
        await chat.button("New chat").click()
        asked = requests_of(chat.page)
        async with chat.page.expect_request(re.compile(r"\.woff2"), timeout=60_000):
            await chat.say("calculate")
        formulas = chat.answers.last.locator(".maths .katex")
        await expect(formulas).to_have_count(2)
        await expect(chat.answers.last).to_contain_text(r"and \(c\,d")
        gate.open()
        await expect(formulas).to_have_count(5)
        await expect(chat.answers.last).to_contain_text("cost $5 and $6.")
        await expect(formulas.nth(0).locator("annotation")).to_have_text("a+b")
        await expect(chat.answers.last.locator(".katex-display")).to_have_count(2)
        fonts = [url for url in asked if ".woff2" in url]
        assert all(url.startswith(server.url) for url in fonts)
        copied = await chat.page.evaluate(COPIED)
        for source in (r"\(a+b\)", "$x^2$", r"\(c\,d\)", "$5 and $6", r"\[ \sqrt{x} \]"):
            assert source in copied
        assert copied.count("a+b") == 1
        assert await policy_faults(chat.page) == []
        assert not await faults_of(chat.page)


async def test_maths_that_means_harm_or_nothing_is_shown_as_its_source(visit: Visit) -> None:
    """Footnotes lead there and back, and parts fold."""
    bad = [
        r"\(\undefinedmacro{x}\)",
        r"\(\def\a{\a\a}\a\)",
        r"\(\def\a#1{#1#1#1#1#1#1#1#1}\a{\a{\a{\a{\a{\a{\a{x}}}}}}}\)",
        r"\(\frac{1}{\)",
    ]
    odd = [
        r"\(\smash{\rule{40em}{40em}}\)",
        r"\(\href{javascript:alert(1)}{link}\)",
        r"\(\url{javascript:alert(1)}\)",
        r"\(\includegraphics{http://example.invalid/x.png}\)",
        r"\(\htmlStyle{position:fixed;inset:0}{x}\)",
        r"\(\htmlClass{dialog}{x}\)",
        r"\(\rule{99999em}{99999em}\)",
        rf"\({'x^{' * 900}{'}' * 900}\)",
    ]
    text = "\n\n".join([*bad, *odd, r"\(fine\)"])
    gate = Gate()
    notes = "[^1]: The *note*.\n\n<details>\n<summary>More</summary>\n\n- inside\n\n</details>\n\nEnd"
    noted = [Say("A claim[^1], a class [^abc].\n\n"), Wait(gate), Say(notes)]
    async with visit.chatting([Say(text)], noted) as server:
        context = await visit.context()
        await context.add_init_script(WATCHED)
        chat = await visit(server.url, context)
        await chat.say("be bad")
        answer = chat.answers.last
        await expect(answer.locator(".maths").last.locator("annotation")).to_have_text("fine")
        for source in bad:
            await expect(answer.get_by_text(source, exact=True)).to_be_visible()
        assert await answer.locator("a, img, .dialog, [style*=fixed]").count() == 0
        heights = "all => all.map(one => one.getBoundingClientRect().height)"
        assert 0 < max(await answer.locator(".katex-rule").evaluate_all(heights)) < 300
        assert await answer.evaluate(COVERED) == []
        assert await policy_faults(chat.page) == []
        await chat.is_over()
        await chat.button("New chat").click()
        await chat.say("tell")
        await expect(answer).to_have_text("A claim[^1], a class [^abc].")
        gate.open()
        await expect(answer.get_by_text("End")).to_be_visible()
        await expect(answer.get_by_text("[^abc]")).to_be_visible()
        reference = answer.get_by_role("button", name="Footnote 1", exact=True)
        await reference.click()
        await expect(answer.get_by_role("note")).to_have_text(re.compile(r"The note\."))
        back = answer.get_by_role("note").get_by_role("button")
        await expect(back).to_be_focused()
        await chat.page.keyboard.press("Enter")
        await expect(reference).to_be_focused()
        await expect(answer.get_by_text("inside")).to_be_hidden()
        await answer.get_by_text("More").click()
        await expect(answer.get_by_text("inside")).to_be_visible()
        assert not await faults_of(chat.page)
