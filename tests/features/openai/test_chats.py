"""Chats of front ends: the turns of one chat share a session, and no one else's."""

from collections.abc import Mapping
from typing import Any

from holdfast.chaos import CallTool, ChaosServer, Hang, Say
from holdfast.config.server import KeySettings
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.options import ApiKey, ServerOptions
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Served, Setting, limited, served, target_of
from stores import MemoryStore
from tables import for_each_row

OPEN_WEBUI = ("X-OpenWebUI-Chat-Id", "X-OpenWebUI-User-Id")
OWN = ("X-Holdfast-Chat-Id", "X-Holdfast-User-Id")
KEYS = (ApiKey("one", "key-one-0123456789"), ApiKey("two", "key-two-0123456789"))
ALONE = {"one": KeySettings(name="one", one_user=True)}
MINE = {"X-Holdfast-Chat-Id": "c", "X-Holdfast-User-Id": "u"}


async def said(
    server: Served,
    *texts: str,
    headers: Mapping[str, str] | None = None,
    key: ApiKey = KEYS[0],
    **fields: Any,
) -> tuple[str, str]:
    """The session that the turn is in, and the answer."""
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    body = {"model": "holdfast", "messages": messages, **fields}
    sent = {"Authorization": f"Bearer {key.secret}", **(headers or {})}
    answer = await server.call("POST", "/v1/chat/completions", body=body, headers=sent)
    assert answer.status == 200, answer.body
    return answer.headers["X-Hermes-Session-Id"], answer.json["choices"][0]["message"]["content"]


def setting(**options: Any) -> Setting:
    return Setting(
        options=ServerOptions(keys=KEYS, **options),
        tools=(Counted(),),
        judge=AsksAbout(frozenset({"touch"})),
    )


@for_each_row("names", [OPEN_WEBUI, OWN])
async def test_a_chat_id_joins_the_turns_of_one_chat_of_one_user(names: tuple[str, str]) -> None:
    """P13: neither another key nor another user gets into the session; P2: nor does a restart lose it."""
    disk = MemoryDisk()
    mine = dict(zip(names, ("c1", "u1"), strict=True))
    async with ChaosServer([Say("yes")], after_last="repeat") as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk), setting=setting()) as server:
            first, _ = await said(server, "hi", headers=mine)
        async with served(target_of(chaos), store=MemoryStore(disk), setting=setting()) as server:
            history = ("hi", "yes", "more")
            assert (await said(server, *history, headers=mine))[0] == first
            sent: Any = chaos.seen.requests[-1].body
            assert [one["content"] for one in sent["messages"]] == list(history)
            others = [
                await said(server, *history, headers=mine | {names[1]: "u2"}),
                await said(server, *history, headers=mine | {names[0]: "c2"}),
                await said(server, *history, headers=mine, key=KEYS[1]),
                await said(server, *history, "yes", "again", headers=mine, model="holdfast/main"),
                # Generated again, and with an edited answer.
                await said(server, "hi", headers=mine),
                await said(server, "hi", "no", "more", headers=mine),
            ]
            assert len({first, *(session for session, _ in others)}) == 1 + len(others)
            assert (await said(server, *history, headers=mine))[0] == others[4][0]
            # Now two of its sessions have the same history, so neither is meant for sure.
            anew, _ = await said(server, *history, "yes", "on", headers=mine)
            assert anew not in {first, *(session for session, _ in others)}


async def test_an_answer_that_was_streamed_or_asked_a_person_is_known_by_its_chat_id() -> None:
    script = (
        [Say("Let me see."), CallTool("look", {})],
        [Say("Done.")],
        [Say("Sure.")],
        [CallTool("touch", {})],
    )
    own = Setting(
        options=ServerOptions(keys=KEYS, public_url="https://agent.example"),
        tools=(Counted(), Counted("look")),
        judge=AsksAbout(frozenset({"touch"})),
    )
    async with ChaosServer(*script) as chaos, served(target_of(chaos), setting=own) as server:
        first, _ = await said(server, "hi", headers=MINE)
        streamed = "Let me see.\n\nDone."
        assert (await said(server, "hi", streamed, "and?", headers=MINE))[0] == first
        before = ("hi", streamed, "and?", "Sure.", "touch it")
        session, waits = await said(server, *before, headers=MINE)
        assert session == first
        assert waits.endswith(f"Approve or deny it here: <https://agent.example/s/{first}>")


async def test_a_run_ends_as_soon_as_its_front_end_closes_the_connection() -> None:
    """P5: that is how a front end says stop, and it doesn't come back."""
    async with (
        ChaosServer([Say("It begins"), Hang()]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=limited(disconnect_grace_s=86_400.0)) as server,
    ):
        body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
        url = f"{server.url}/v1/chat/completions"
        async with server.http.post(url, json=body, headers=MINE) as answer:
            run_id = answer.headers["X-Hermes-Run-Id"]
            assert await answer.content.readline()
        assert (await server.ended_unread(run_id))["status"] == "cancelled"


async def test_a_task_of_a_front_end_has_no_tools_and_is_not_part_of_the_chat() -> None:
    """P13: a header says so, whatever the prompt says."""
    async with (
        ChaosServer([Say("A title")], after_last="repeat") as chaos,
        served(target_of(chaos), setting=setting(key_settings=ALONE)) as server,
    ):
        chat, _ = await said(server, "hi", headers=MINE)
        task, _ = await said(server, "hi", headers=MINE | {"X-Holdfast-Task": "title_generation"})
        empty, _ = await said(server, "hi", "A title", "more", headers=MINE | {"X-Holdfast-Task": ""})
        assert (chat == empty, chat == task) == (True, False)
        offered = ["tools" in (request.body or {}) for request in chaos.seen.requests]
    assert offered == [True, False, True]


async def test_a_history_joins_a_session_only_if_the_key_has_one_user() -> None:
    async with ChaosServer([Say("yes")], after_last="repeat") as chaos:
        async with served(target_of(chaos), setting=setting()) as server:
            first, _ = await said(server, "hi")
            assert (await said(server, "hi", "yes", "more"))[0] != first
        async with served(target_of(chaos), setting=setting(key_settings=ALONE)) as server:
            first, _ = await said(server, "hi")
            assert (await said(server, "hi", "yes", "more"))[0] == first
            edited, _ = await said(server, "hi", "no", "more")
            other, _ = await said(server, "hi", "yes", "more", key=KEYS[1])
            assert len({first, edited, other}) == 3
            # Two chats began alike, so neither is meant for sure.
            same = [(await said(server, "hello"))[0] for _ in range(2)]
            assert (await said(server, "hello", "yes", "more"))[0] not in same


async def test_nothing_that_was_granted_is_joined_by_history() -> None:
    """P8: what a person allowed in a session is allowed there alone."""
    script = [Say("yes")], [CallTool("touch", {})], [Say("ok")], [Say("sure")]
    async with (
        ChaosServer(*script, after_last="repeat") as chaos,
        served(target_of(chaos), setting=setting(key_settings=ALONE)) as server,
    ):
        first, _ = await said(server, "hi")
        asking, waits = await said(server, "hi", "yes", "touch it")
        assert asking == first
        key = {"Authorization": f"Bearer {KEYS[0].secret}"}
        _, listed = await server.get("/v1/approvals", **key)
        [ask] = listed["data"]
        assert (await said(server, "hi", "yes", "touch it", waits, "and?"))[0] != first
        approval = {"approval_id": ask["approval_id"], "choice": "session"}
        await server.post(f"/v1/runs/{ask['run_id']}/approval", approval, **key)
        assert [frame async for frame in server.follow(f"/v1/runs/{ask['run_id']}/events", headers=key)]
        assert (await said(server, "hi", "yes", "touch it", "ok", "and?"))[0] != first
