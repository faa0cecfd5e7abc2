"""Sessions of OpenAI clients: one that a client named is a session like any other."""

from typing import Any

from holdfast.chaos import ChaosServer, Gate, Say, Wait
from holdfast.journal.memory_disk import MemoryDisk
from serving import Served, said_to, served, target_of
from stores import MemoryStore
from tables import for_each_row


def chat(*texts: str, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    return {"model": "holdfast", "messages": messages, **fields}


async def listed(server: Served) -> list[str]:
    return [one["session_id"] for one in (await server.get("/api/sessions"))[1]["data"]]


async def test_a_session_that_an_openai_client_named_is_listed_and_one_that_it_did_not_name_is_not() -> None:
    disk = MemoryDisk()
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=MemoryStore(disk)) as server,
    ):
        named = {"X-Hermes-Session-Id": "by-header"}
        say = {"model": "holdfast", "input": "hi"}
        for path, body, headers in (
            ("/v1/chat/completions", chat("hi"), named),
            ("/v1/chat/completions", chat("hi", session_id="by-body"), {}),
            ("/v1/responses", say, {"X-Hermes-Session-Id": "by-header-too"}),
            ("/v1/responses", say | {"conversation": "by-name"}, {}),
            ("/v1/responses", say | {"conversation": {"id": "by-id"}}, {}),
            ("/v1/chat/completions", chat("hi"), {}),
            ("/v1/responses", say, {}),
        ):
            assert (await server.call("POST", path, body=body, headers=headers)).status == 200
        assert set(await listed(server)) == {"by-header", "by-body", "by-header-too", "by-name", "by-id"}
    assert sorted(row.source for row in disk.sessions.values()) == ["api"] * 5 + ["openai"] * 2


async def test_a_response_that_goes_on_elsewhere_is_in_a_session_that_nobody_named() -> None:
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        say = {"model": "holdfast", "input": "hi"}
        _, first = await server.post("/v1/responses", say | {"conversation": "s"})
        await server.post("/v1/responses", say | {"conversation": "s"})
        status, _ = await server.post("/v1/responses", say | {"previous_response_id": first["id"]})
        assert status == 200
        assert await listed(server) == ["s"]


@for_each_row("is_made", [False, True])
async def test_earlier_messages_beside_a_session_that_is_new_reach_the_model(*, is_made: bool) -> None:
    """P2: and the next time each of them once, whoever sends them again."""
    headers = {"X-Hermes-Session-Id": "s"}
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        if is_made:
            await server.post("/api/sessions", {"session_id": "s"})
        path = "/v1/chat/completions"
        await server.call("POST", path, body=chat("one", "two", "three"), headers=headers)
        assert said_to(chaos, nth=1) == ["one", "two", "three"]
        await server.call("POST", path, body=chat("one", "two", "three", "x", "four"), headers=headers)
        assert said_to(chaos, nth=2) == ["one", "two", "three", "x", "four"]


async def test_several_items_of_a_conversation_are_added_to_it_and_hide_nothing_of_it() -> None:
    """P2: by name and after a response; the model knows what was said before them."""
    two = [{"role": "user", "content": "more"}, {"role": "user", "content": "and?"}]
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        _, first = await server.post("/v1/responses", {"input": "one", "conversation": "s"})
        await server.post("/v1/responses", {"input": two, "previous_response_id": first["id"]})
        assert said_to(chaos, nth=2) == ["one", "x", "more\n\nand?"]
        await server.post("/v1/responses", {"input": two, "conversation": "s"})
        assert said_to(chaos, nth=3) == ["one", "x", "more\n\nand?", "x", "more\n\nand?"]
        await server.post("/v1/responses", {"input": two, "conversation": "new"})
        assert said_to(chaos, nth=4) == ["more\n\nand?"]


async def test_what_was_stopped_while_it_waited_cuts_nothing_off_what_goes_on_after_it() -> None:
    """P4: the conversation is what ran, whatever was given with a run that never began."""
    gate = Gate()
    script = [Say("y")]
    async with (
        ChaosServer([Say("x")], [Wait(gate), Say("z")], script, script, script) as chaos,
        served(target_of(chaos)) as server,
    ):
        await server.post("/v1/responses", {"input": "one", "conversation": "s"})
        running = await server.start("two", session_id="s")
        await gate.reached()
        other = [{"role": "user", "content": "other"}]
        waiting = await server.start("three", session_id="s", conversation_history=other)
        assert (await server.post(f"/v1/runs/{waiting}/stop"))[0] == 200
        await server.ended(waiting)
        gate.open()
        await server.ended(running)
        stopped = {"previous_response_id": waiting.replace("run_", "resp_")}
        assert (await server.post("/v1/responses", {"input": "four", **stopped}))[0] == 200
        assert said_to(chaos, nth=3) == ["one", "x", "two", "z", "four"]
        assert (await server.post("/v1/responses", {"input": "five", "conversation": "s"}))[0] == 200
        assert said_to(chaos, nth=4) == ["one", "x", "two", "z", "four", "y", "five"]
        assert (await server.post("/v1/responses", {"input": "elsewhere", **stopped}))[0] == 200
        assert said_to(chaos, nth=5) == ["one", "x", "two", "z", "elsewhere"]
