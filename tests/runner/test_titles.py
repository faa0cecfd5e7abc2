"""Titles that a model writes for chats after their first answer."""

from typing import Any

import pytest

from holdfast.chaos import ChaosServer, Gate, Refuse, Say, SeenRequest, Wait
from holdfast.runner.titles import ASK, title_in
from serving import Served, Setting, served, target_of

TITLED = Setting(title_model="")


def asks_for_title(request: SeenRequest) -> bool:
    return ASK[:40] in str(request.body)


def title_requests(chaos: ChaosServer) -> int:
    return sum(map(asks_for_title, chaos.seen.requests))


async def until_renamed(server: Served, session_id: str) -> dict[str, Any]:
    async for frame in server.follow(f"/api/sessions/{session_id}/events"):
        if frame.data.get("type") == "session.renamed":
            return frame.data
    raise AssertionError("the session was never renamed")


async def title_of(server: Served, session_id: str) -> str:
    return (await server.get(f"/api/sessions/{session_id}"))[1]["title"]


@pytest.mark.parametrize("origin", ["page", "chat"])
async def test_a_chat_gets_a_title_after_its_first_answer(origin: str) -> None:
    async with (
        ChaosServer([Say("Use git bisect.")], [Say('"Finding a bad commit."')]) as chaos,
        served(target_of(chaos), setting=TITLED) as server,
    ):
        await server.ended(await server.start("which commit broke it?", session_id="s", origin=origin))
        renamed = await until_renamed(server, "s")
        assert (renamed["title"], renamed["by"]) == ("Finding a bad commit", "model")
        assert await title_of(server, "s") == "Finding a bad commit"
        asked = str(chaos.seen.requests[1].body)
        assert "which commit broke it?" in asked
        assert "Use git bisect." in asked


async def test_only_chats_get_a_title_and_only_one() -> None:
    """What a program starts costs no second call."""
    async with (
        ChaosServer(choose=lambda request: [Say("Title" if asks_for_title(request) else "answer")]) as chaos,
        served(target_of(chaos), setting=TITLED) as server,
    ):
        await server.ended(await server.start(session_id="program"))
        await server.ended(await server.start(session_id="odd", origin="hermes"))
        await server.ended(await server.start(session_id="once", origin="run"))
        await server.ended(await server.start(session_id="chat", origin="page"))
        await until_renamed(server, "chat")
        await server.ended(await server.start(session_id="chat", origin="page"))
        await server.ended(await server.start(session_id="other", origin="page"))
        await until_renamed(server, "other")
        assert title_requests(chaos) == 2


async def test_a_title_that_a_person_gives_meanwhile_stays() -> None:
    gate = Gate()
    async with (
        ChaosServer([Say("answer")], [Wait(gate), Say("From the model")], [Say("more")]) as chaos,
        served(target_of(chaos), setting=TITLED) as server,
    ):
        await server.ended(await server.start("first line", session_id="s", origin="page"))
        await gate.reached()
        assert await title_of(server, "s") == "first line"
        await server.call("PATCH", "/api/sessions/s", body={"title": "Mine"})
        gate.open()
        await server.ended(await server.start(session_id="s", origin="page"))
        assert await title_of(server, "s") == "Mine"
        assert title_requests(chaos) == 1


async def test_a_title_that_fails_disturbs_nobody_and_is_tried_again() -> None:
    asked = 0

    def choose(request: SeenRequest) -> list[Any]:
        nonlocal asked
        if not asks_for_title(request):
            return [Say("answer")]
        asked += 1
        return [Refuse()] if asked == 1 else [Say("At last")]

    async with ChaosServer(choose=choose) as chaos, served(target_of(chaos), setting=TITLED) as server:
        first = await server.ended(await server.start(session_id="s", origin="page"))
        assert first["status"] == "completed"
        await chaos.seen.until_request(2)
        await server.ended(await server.start(session_id="s", origin="page"))
        assert (await until_renamed(server, "s"))["title"] == "At last"


async def test_one_shots_are_listed_only_when_asked_for() -> None:
    async with (
        ChaosServer(choose=lambda _: [Say("answer")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        for session_id, origin in (("chat", "page"), ("once", "run")):
            await server.ended(await server.start(session_id=session_id, origin=origin))

        async def listed(query: str) -> set[str]:
            return {row["id"] for row in (await server.get(f"/api/sessions{query}"))[1]["data"]}

        assert await listed("") == {"chat"}
        assert await listed("?one_shots=true") == await listed("?all=true") == {"chat", "once"}
        await server.post("/api/sessions/once/fork", {"session_id": "fork"})
        assert await listed("") == {"chat", "fork"}


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Fixing the build", "Fixing the build"),
        ('\n\n**"Fixing the build."**\nAnd more', "Fixing the build"),
        ("Title: Fixing the build", "Fixing the build"),
        ("# Fixing   the\tbuild", "Fixing the build"),
        ("Fixing\x1b[31m the\u202e build", "Fixing the build"),
        ("", ""),
        ('{"tool": "shell"}', ""),
        ("[1, 2]", ""),
        ("<think>", ""),
        ("word " * 40, "word word word word word word word word word word word word…"),
    ],
)
def test_a_title_is_one_plain_line(answer: str, title: str) -> None:
    assert title_in(answer) == title
