"""A run that waits for a person, as plain OpenAI clients see it: never an unexplained silence."""

import json
import re
from typing import Any

from features.openai.official_client import client_of
from holdfast.chaos import CallTool, ChaosServer, Say
from server.toolbox import Counted
from serving import AsksAbout, Served, Setting, served, target_of

HI: Any = [{"role": "user", "content": "hi"}]


def asking() -> Setting:
    return Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))


SCRIPT = [Say("I need to touch it."), CallTool("touch", {"n": 1})]
WAITS = "[Waiting for a person to approve this: touch {'n': 1}]\n\nApprove or deny it here: <PAGE>"
PAGE = re.compile(r"http://127\.0\.0\.1:\d+/s/\w+")


async def test_an_answer_that_is_not_streamed_ends_with_what_the_run_waits_for() -> None:
    """P3: and the run stays open, so that a person can still approve it."""
    async with (
        ChaosServer(SCRIPT, [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=asking()) as server,
    ):
        chat = (await server.call("POST", "/v1/chat/completions", body={"messages": HI})).json
        assert PAGE.sub("PAGE", chat["choices"][0]["message"]["content"]) == f"I need to touch it.\n\n{WAITS}"
        needed = chat["holdfast"]
        assert (
            needed["url"]
            == f"{server.url}/s/{(await server.get('/v1/approvals'))[1]['data'][0]['session_id']}"
        )
        assert needed["waiting_for"] == "approval"
        path = f"/v1/runs/{needed['run_id']}"
        assert (await server.get(path))[1]["status"] == "waiting_for_approval"
        await server.post(f"{path}/approval", {"approval_id": needed["id"], "choice": "once"})
        ended = await server.ended(needed["run_id"])
    assert ended["output"] == "Done."


async def test_a_response_that_is_not_streamed_is_incomplete_and_says_why() -> None:
    async with (
        ChaosServer(SCRIPT, [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=asking()) as server,
    ):
        _, response = await server.post("/v1/responses", {"input": "hi"})
    assert (response["status"], response["incomplete_details"]) == (
        "incomplete",
        {"reason": "waiting_for_approval"},
    )
    assert WAITS in PAGE.sub("PAGE", response["output"][-1]["content"][0]["text"])
    assert response["holdfast"]["waiting_for"] == "approval"


async def test_a_stream_says_it_in_the_text_and_goes_on_after_the_approval() -> None:
    """P8: what was waited for is approved elsewhere, by its id."""
    scripts = [SCRIPT, [Say("Done.")]] * 2
    async with (
        ChaosServer(*scripts) as chaos,
        served(target_of(chaos), setting=asking()) as server,
        client_of(server) as client,
    ):
        text = ""
        async for chunk in await client.chat.completions.create(model="holdfast", messages=HI, stream=True):
            text += chunk.choices[0].delta.content or ""
            if PAGE.sub("PAGE", chunk.choices[0].delta.content or "").endswith(WAITS):
                await approved(server)
        assert PAGE.sub("PAGE", text) == f"I need to touch it.\n\n{WAITS}\n\nDone."
        said = ""
        async for event in await client.responses.create(model="holdfast", input="hi", stream=True):
            if event.type == "response.output_text.delta":
                said += event.delta
                if PAGE.sub("PAGE", event.delta).endswith(WAITS):
                    await approved(server)
        assert PAGE.sub("PAGE", said) == f"I need to touch it.\n\n{WAITS}Done."


async def approved(server: Served) -> None:
    _, waiting = await server.get("/v1/approvals")
    (ask,) = waiting["data"]
    await server.post(
        f"/v1/runs/{ask['run_id']}/approval", {"approval_id": ask["approval_id"], "choice": "once"}
    )


async def test_the_model_is_not_offered_questions_where_nobody_can_answer_them() -> None:
    async with ChaosServer([Say("ok")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        await server.post("/v1/chat/completions", {"messages": HI})
        await server.post("/v1/chat/completions", {"messages": HI}, **{"X-Hermes-Session-Key": "k"})
        plain, hermes = [json.dumps((request.body or {}).get("tools", [])) for request in chaos.seen.requests]
    assert "ask_user" not in plain
    assert "ask_user" in hermes
