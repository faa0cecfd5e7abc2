"""What the model sees over HTTP: sizes, summaries, pins, the prompt cache, and refusals with numbers."""

from collections.abc import Mapping
from typing import Any

from agent.world import messages
from holdfast.chaos import (
    CallTool,
    ChaosOptions,
    ChaosServer,
    Gate,
    ReportedUsage,
    Say,
    Script,
    SeenRequest,
    Wait,
)
from holdfast.interfaces.tool import ToolCall, ToolResult
from server.toolbox import Counted
from serving import Served, Setting, served, target_of

STORY = "an old story " * 800
LAST = "and now?"
PATH = "/api/sessions/s/context"


def story_teller(request: SeenRequest) -> Script:
    if str(messages(request)[-1]["content"]).startswith("Below is"):
        return [Say("## Task\nthe story in short")]
    return [Say("yes")]


async def talk(server: Served, *texts: str) -> list[str]:
    runs = [await server.start(text, session_id="s") for text in texts[:1]]
    await server.ended(runs[0])
    for text in texts[1:]:
        runs.append(await server.start(text, session_id="s"))
        await server.ended(runs[-1])
    return runs


async def shown(server: Served, query: str = "") -> dict[str, Any]:
    status, body = await server.get(PATH + query)
    assert status == 200, body
    return body


async def refused(server: Served, what: str, **body: object) -> tuple[int, str, str]:
    status, answer = await server.post(f"{PATH}/{what}", body)
    return status, answer["error"]["code"], answer["error"]["message"]


async def test_the_context_shows_what_the_model_sees_and_what_was_summarized() -> None:
    """P9: sizes, the summary with its call, and what broke the prompt cache."""
    setting = Setting(context_window=3_000)
    async with ChaosServer(choose=story_teller) as chaos, served(target_of(chaos), setting=setting) as server:
        await talk(server, STORY)
        before = await shown(server)
        assert (before["window_tokens"], before["fit_tokens"], before["shortened"]) == (3_000, 2_400, [])
        assert before["messages_tokens"] > 2_600
        assert "cache_break" not in before
        await talk(server, LAST)
        now = await shown(server)
    assert now["messages_tokens"] < 100
    assert now["cache_break"]["reason"] == "compaction"
    assert now["tools"] == ["ask_user"]
    assert now["tools_tokens"] > 50
    (summary,) = now["shortened"]
    assert summary["kind"] == "compaction"
    assert summary["summary"] == "## Task\nthe story in short"
    assert summary["call_id"]
    assert summary["tokens_before"] > 2_600
    assert summary["tokens_after"] < 100
    texts = [(one["author"], one["text"], one["sent"]) for one in now["messages"]]
    assert texts == [
        ("person", STORY[:200], False),
        ("model", "yes", True),
        ("person", LAST, True),
        ("model", "yes", True),
    ]


async def test_the_last_call_shows_new_and_cached_tokens() -> None:
    """P9: until the messages change, its count is what the context uses."""
    options = ChaosOptions(usage=ReportedUsage(input_tokens=1_000, output_tokens=10, cached_tokens=900))
    async with (
        ChaosServer(choose=story_teller, options=options) as chaos,
        served(target_of(chaos)) as server,
    ):
        first, _ = await talk(server, "a", "b")
        now = await shown(server)
        assert (now["used_tokens"], now["used_percent"], now["estimated"]) == (1_010, 1, False)
        call = now["last_call"]
        assert (call["new_tokens"], call["cached_tokens"], call["output_tokens"]) == (100, 900, 10)
        to_seq = (await server.ended(first))["last_event_id"]
        await server.post("/api/sessions/s/rewind", {"to_seq": to_seq})
        now = await shown(server)
        assert (now["estimated"], now["used_percent"]) == (True, 0)
        assert now["messages_tokens"] == sum(one["tokens"] for one in now["messages"]) > 0
        assert now["last_call"] == call


async def test_pins_have_a_limit_with_numbers() -> None:
    """P12: a pin is idempotent, and unknown messages are refused."""
    setting = Setting(context_window=3_000)
    async with ChaosServer(choose=story_teller) as chaos, served(target_of(chaos), setting=setting) as server:
        runs = await talk(server, "short", STORY)
        story, answer = (await shown(server))["messages"][2:]
        assert answer["id"] == runs[1]
        status, code, text = await refused(server, "pin", id=story["id"])
        assert (status, code) == (409, "pins_too_large")
        assert "At most a quarter of the window of 3,000 can be pinned: 750." in text
        _, now = await server.post(PATH + "/pin", {"id": answer["id"]})
        assert await server.post(PATH + "/pin", {"id": answer["id"]}) == (200, now)
        assert [(one["id"], one["pinned"]) for one in now["pins"]] == [(answer["id"], True)]
        assert (now["pins_tokens"], now["pins_tokens_max"]) == (answer["tokens"], 750)
        for _ in range(2):
            status, now = await server.post(PATH + "/unpin", {"id": answer["id"]})
            assert (status, now["pins"]) == (200, [])
        for what in ("pin", "unpin"):
            assert (await refused(server, what, id="x"))[:2] == (404, "message_not_found")
            assert (await refused(server, what))[0] == 400


async def test_a_revert_is_refused_with_numbers_and_the_name_of_a_larger_target() -> None:
    """P12: and done for that target."""
    setting = Setting(context_window=3_000, windows={"large": 90_000})
    gate = Gate()

    def script(request: SeenRequest) -> Script:
        is_held = messages(request)[-1]["content"] == "wait"
        return [Wait(gate), Say("yes")] if is_held else story_teller(request)

    async with ChaosServer(choose=script) as chaos, served(target_of(chaos), setting=setting) as server:
        await talk(server, STORY, LAST)
        seq = (await shown(server))["shortened"][0]["seq"]
        status, code, text = await refused(server, "revert", seq=seq)
        assert (status, code) == (409, "context_too_large")
        assert "At most 2,400 fit the window of 3,000" in text
        assert "Choose the target large as the model" in text
        run = await server.start("wait", session_id="s")
        await gate.reached()
        assert (await refused(server, "revert", seq=seq, model="large"))[:2] == (409, "session_busy")
        gate.open()
        await server.ended(run)
        assert (await refused(server, "revert", seq=1))[:2] == (404, "compaction_not_found")
        status, now = await server.post(PATH + "/revert", {"seq": seq, "model": "large"})
        assert (status, now["window_tokens"], now["shortened"][0]["reverted"]) == (200, 90_000, True)
        assert now["messages_tokens"] > 2_600
        assert (await refused(server, "revert", seq=seq))[:2] == (409, "already_reverted")
        assert (await server.get("/api/sessions/none/context"))[0] == 404


class Long(Counted):
    """Returns as many characters as asked."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del call
        return ToolResult("x" * int(str(args["chars"])))


async def test_trimmed_results_are_listed_and_can_be_reverted() -> None:
    """P9: by tool, seq and size."""

    def script(request: SeenRequest) -> Script:
        asked = sum(message["role"] == "tool" for message in messages(request))
        return [CallTool("touch", {"chars": (16_000, 8_000)[asked]})] if asked < 2 else [Say("done")]

    setting = Setting(context_window=7_000, windows={"large": 90_000}, tools=(Long(),))
    async with ChaosServer(choose=script) as chaos, served(target_of(chaos), setting=setting) as server:
        await talk(server, "look")
        (one,) = (await shown(server))["shortened"]
        assert (one["kind"], [(each["name"], each["chars"]) for each in one["results"]]) == (
            "trimming",
            [("touch", 16_000)],
        )
        before = (await shown(server))["messages_tokens"]
        status, now = await server.post(PATH + "/revert", {"seq": one["seq"], "model": "large"})
        assert status == 200
        assert now["messages_tokens"] - before > 3_500
