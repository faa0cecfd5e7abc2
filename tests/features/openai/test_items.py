"""Items of responses by their ids: named instead of sent again, and those that a response was asked with."""

from typing import Any

import openai
import pytest

from features.openai.official_client import client_of
from holdfast.chaos import CallTool, ChaosServer, Say
from server.toolbox import Counted
from serving import Setting, limited, said_to, served, target_of
from tables import for_each_row

PIXEL = "data:image/png;base64,iVBORw0KGgo="


@for_each_row("form", [{"type": "item_reference"}, {"type": None}, {}])
async def test_what_was_said_is_known_where_only_the_ids_of_the_items_are_sent(form: Any) -> None:
    """P6: each message of a stream, and each call of a tool, which the history does without."""
    script = [Say("I look."), CallTool("touch", {"n": 1})]
    async with (
        ChaosServer(script, [Say("Done.")], [Say("x")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Counted(),))) as server,
        client_of(server) as client,
    ):
        stream = await client.responses.create(model="holdfast", input="one", stream=True)
        done: list[Any] = [event.item async for event in stream if event.type == "response.output_item.done"]
        named = [{"id": item.id, **form} for item in done]
        given: Any = [{"role": "user", "content": "one"}, *named, {"role": "user", "content": "two"}]
        await client.responses.create(model="holdfast", input=given)
        assert said_to(chaos, nth=3) == ["one", "I look.\n\nDone.", "two"]


@for_each_row("item", ["msg_nowhere_0", "msg_{run}_7", "msg_{run}_in0", "nonsense", "", 7])
async def test_an_item_that_nobody_knows_is_named_and_not_left_out(item: Any) -> None:
    """P12: an answer without it would be an answer to something else."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos)) as server:
        _, first = await server.post("/v1/responses", {"input": "one"})
        named = item.format(run=first["id"].removeprefix("resp_")) if isinstance(item, str) else item
        body = {"input": [{"type": "item_reference", "id": named}, "two"]}
        status, answer = await server.post("/v1/responses", body)
        assert (status, answer["error"]["param"]) == (404 if isinstance(item, str) else 400, "input[0]")
        assert len(chaos.seen.requests) == 1


async def test_what_is_named_is_not_named_after_its_deletion_nor_more_of_it_than_a_body_may_hold() -> None:
    """P11, P12: an id is short, and what it stands for need not be."""
    async with (
        ChaosServer([Say("x" * 400)]) as chaos,
        served(target_of(chaos), setting=limited(body_bytes_max=1000)) as server,
    ):
        _, first = await server.post("/v1/responses", {"input": "one"})
        named = {"type": "item_reference", "id": first["output"][0]["id"]}
        over = await server.call("POST", "/v1/responses", body={"input": [named] * 3 + ["two"]})
        assert (over.status, over.code) == (413, "body_too_large")
        await server.call("DELETE", f"/v1/responses/{first['id']}")
        gone = await server.call("POST", "/v1/responses", body={"input": [named, "two"]})
        assert (gone.status, gone.code) == (404, "response_not_found")


async def test_the_items_that_a_response_was_asked_with_are_listed_page_by_page() -> None:
    """P6: the newest first, as the API has it, and the oldest first where that is asked for."""
    said: Any = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "three"}, {"type": "input_image", "image_url": PIXEL}],
        },
    ]
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.responses.create(model="holdfast", input=said)
        listed = client.responses.input_items.list
        items: list[Any] = [item async for item in listed(first.id, limit=2, order="asc")]
        assert [(item.role, item.content[0].text) for item in items] == [
            ("user", "one"),
            ("assistant", "two"),
            ("user", "three"),
        ]
        assert [item async for item in listed(first.id, limit=1)] == items[::-1]
        page = await listed(first.id, limit=2)
        assert page.has_more
        assert (page.to_dict()["first_id"], page.to_dict()["last_id"]) == (items[2].id, items[1].id)
        again: Any = [item.to_dict() for item in items]
        await client.responses.create(model="holdfast", input=again)
        assert said_to(chaos, nth=2) == said_to(chaos, nth=1)
        for asked in ({"order": "up"}, {"after": "msg_x"}, {"limit": "0"}):
            with pytest.raises(openai.BadRequestError) as refused:
                await listed(first.id, extra_query=asked)
            assert refused.value.param == next(iter(asked))
        with pytest.raises(openai.NotFoundError):
            await listed("resp_nowhere")


async def test_a_response_that_goes_on_lists_what_its_own_request_said() -> None:
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.responses.create(model="holdfast", input="one")
        second = await client.responses.create(model="holdfast", input="two", previous_response_id=first.id)
        items: list[Any] = [item async for item in client.responses.input_items.list(second.id)]
        assert [(item.role, item.content[0].text) for item in items] == [("user", "two")]
