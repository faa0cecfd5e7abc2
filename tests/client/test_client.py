"""What a program can ask of a server through the client."""

import asyncio

import pytest

from client.moving import PATIENT_CLIENT
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.client import Client, OpenApproval, Refused, Unreachable
from holdfast.client.client import SESSIONS_MAX
from holdfast.policy.tool_names import ASK_USER
from holdfast.server.options import ApiKey, ServerOptions
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Setting, said_to, served, target_of


async def test_a_run_is_started_followed_to_its_end_and_shown() -> None:
    async with (
        ChaosServer([Say("the answer")]) as chaos,
        served(target_of(chaos)) as server,
        Client(server.url) as client,
    ):
        started = await client.start("hi", more={"metadata": {"who": "me"}})
        seen = [one async for one in client.follow(started.run_id)]
        shown = await client.run(started.run_id)
        assert (await client.runs(session_id=started.session_id)).data[0].run_id == started.run_id
        assert (await client.runs(status="failed")).data == ()
    assert isinstance(seen[-1].event, e.RunEnded)
    assert "".join(one.event.text for one in seen if isinstance(one.event, e.TextDelta)) == "the answer"
    assert [one.seq for one in seen] == sorted({one.seq for one in seen})
    assert (shown.status, shown.outcome, shown.output) == ("completed", "completed", "the answer")
    assert shown.metadata == {"who": "me"}


async def test_the_same_run_in_hermes_words_ends_with_its_terminal_event() -> None:
    async with (
        ChaosServer([Say("the answer")]) as chaos,
        served(target_of(chaos)) as server,
        Client(server.url) as client,
    ):
        started = await client.start("hi")
        frames = [one async for one in client.follow_hermes(started.run_id)]
        half = [one async for one in client.follow_hermes(started.run_id, after=frames[1].seq)]
    assert frames[-1].event == "run.completed"
    assert frames[-1].data["output"] == "the answer"
    assert half == frames[2:]


async def test_an_approval_and_a_question_are_answered_by_their_ids() -> None:
    """P8: the rule is shown before it is stored, and a second answer is refused."""
    tool = Counted()
    ask = CallTool(ASK_USER, {"text": "Which?", "choices": ["a", "b"]})
    async with (
        ChaosServer([CallTool("touch", {})], [ask], [Say("done")]) as chaos,
        served(
            target_of(chaos, patience=PATIENT),
            setting=Setting(tools=(tool,), judge=AsksAbout(frozenset({"touch"}))),
        ) as server,
        Client(server.url) as client,
    ):
        run_id = (await client.start("hi")).run_id
        async for seen in client.follow(run_id):
            if isinstance(seen.event, e.ApprovalAsked):
                (waits,) = await client.approvals()
                assert isinstance(waits, OpenApproval)
                assert waits.ask_id == seen.event.approval_id
                assert waits.findings == ("it has an effect",)
                rule = await client.rule(run_id, waits.ask_id, choice="session")
                assert rule is not None
                assert rule.tool == "touch"
                await client.approve(run_id, waits.ask_id, choice="once")
                with pytest.raises(Refused) as caught:
                    await client.approve(run_id, waits.ask_id, choice="once")
                assert (caught.value.status, caught.value.code) == (409, "approval_stale")
            elif isinstance(seen.event, e.QuestionAsked):
                await client.answer(run_id, seen.event.question_id, answer="b")
        assert said_to(chaos, nth=3)[-1] == "b"
    assert len(tool.done) == 1


async def test_a_run_is_steered_stopped_and_tried_again_and_a_message_waits() -> None:
    gate = Gate()
    async with (
        ChaosServer([Say("one"), Wait(gate)], [Say("two")]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
        Client(server.url) as client,
    ):
        started = await client.start("hi")
        await gate.reached()
        steered = await client.steer(started.run_id, "and this")
        assert (steered.run_id, steered.mode) == (started.run_id, "steer")
        queued = await client.queue(started.session_id, "next")
        waiting = await client.queued(started.session_id)
        assert [one.text for one in waiting.data if one.mode != "steer"] == ["next"]
        await client.stop(started.run_id)
        assert (await client.ended(started.run_id)).status == "cancelled"
        assert (await client.queued(started.session_id)).paused
        assert (await client.change_queue(started.session_id, "clear")).data == ()
        assert (await client.ended(queued.run_id)).status == "cancelled"
        with pytest.raises(Refused) as caught:
            await client.stop(started.run_id)
        assert caught.value.status == 404
        again = await client.retry(started.run_id)
        assert (await client.ended(again.run_id)).output == "two"


async def test_sessions_are_listed_found_read_copied_exported_and_deleted() -> None:
    async with (
        ChaosServer([Say("the walrus answered")]) as chaos,
        served(target_of(chaos)) as server,
        Client(server.url) as client,
    ):
        started = await client.start("hello", session_id="a name with spaces")
        await client.ended(started.run_id)
        session_id = started.session_id
        assert [one.session_id for one in (await client.sessions()).data] == [session_id]
        (found,) = (await client.sessions(words="walrus")).data
        assert found.hit is not None
        assert "walrus" in found.hit.passage
        assert (await client.rename(session_id, "About walruses")).title == "About walruses"
        shown = await client.session(session_id)
        page = await client.messages(session_id)
        assert page.last_seq == shown.last_seq
        assert [one["kind"] for one in page.data] == ["person", "text", "ending"]
        assert (await client.fork(session_id)).forked_from == session_id
        assert b"walrus" in await client.export(session_id, form="md")
        await client.delete(session_id)
        with pytest.raises(Refused, match="Session not found") as caught:
            await client.session(session_id)
        assert caught.value.code == "session_not_found"
        assert (await client.undelete(session_id)).session_id == session_id
        await client.purge(session_id)
        assert len((await client.sessions()).data) == 1
        await asyncio.gather(*(client.create_session(f"s{nth}") for nth in range(SESSIONS_MAX)))
        listed = (await client.sessions(limit=SESSIONS_MAX + 1)).data
        assert len({one.session_id for one in listed}) == SESSIONS_MAX + 1


async def test_a_wrong_key_is_refused_with_the_envelope() -> None:
    """P11, P12: the exception carries what the server said."""
    options = ServerOptions(keys=(ApiKey("first", "a-key-that-is-long-enough"),))
    async with (
        ChaosServer([Say("x")]) as chaos,
        served(target_of(chaos), setting=Setting(options=options)) as server,
    ):
        async with Client(server.url, "wrong") as client:
            with pytest.raises(Refused) as caught:
                await client.start("hi")
            assert (caught.value.status, caught.value.code) == (401, "invalid_api_key")
        async with Client(server.url, "a-key-that-is-long-enough") as client:
            assert (await client.ended((await client.start("hi")).run_id)).output == "x"
            assert [key.name for key in await client.keys()] == ["first"]
            made = await client.add_key("laptop")
            assert made.key not in repr(made)
        async with Client(server.url, made.key) as client:
            assert (await client.health()).status == "ok"
            await client.revoke_key("laptop")
            with pytest.raises(Refused):
                await client.keys()


async def test_nobody_there_is_said_after_the_patience() -> None:
    """P3: a client does not wait for ever either."""
    async with Client("http://127.0.0.1:9", patience=PATIENT_CLIENT) as client:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
            await client.runs()
