"""Which script a request gets, and what happens to scripts that are bad themselves."""

import asyncio

import pytest

from chaos.raw_client import RawClient, connected
from holdfast.chaos import ChaosServer, Say, Script, ScriptedReply, SeenRequest, by_model, by_path


async def said(client: RawClient, model: str = "m", wire: str = "chat") -> str:
    await client.post(wire, model=model)
    return (await client.answer()).decode()


async def test_attempts_are_taken_in_order_and_then_fail_clearly() -> None:
    async with ChaosServer([Say("one")], [Say("two")]) as chaos, connected(chaos) as client:
        assert "one" in await said(client)
        assert "two" in await said(client)
        await client.post()
        assert await client.read_head() == 500
        assert b"script exhausted: 2 attempt(s)" in await client.read_body()


async def test_the_last_attempt_can_repeat_or_all_can_cycle() -> None:
    scripts = [[Say("one")], [Say("two")]]
    async with ChaosServer(*scripts, after_last="repeat") as chaos, connected(chaos) as client:
        answers = [await said(client) for _ in range(4)]
    assert ["one" in answer for answer in answers] == [True, False, False, False]
    async with ChaosServer(*scripts, after_last="cycle") as chaos, connected(chaos) as client:
        answers = [await said(client) for _ in range(4)]
    assert ["one" in answer for answer in answers] == [True, False, True, False]


async def test_a_function_of_the_request_answers_many_runs_at_once() -> None:
    def choose(request: SeenRequest) -> Script:
        return [Say(f"for {request.model}")]

    async with ChaosServer(choose=choose) as chaos:

        async def one(model: str) -> str:
            async with connected(chaos) as client:
                return await said(client, model)

        models = [f"m{number}" for number in range(30)]
        answers = await asyncio.gather(*(one(model) for model in models))
    assert all(f"for {model}" in answer for model, answer in zip(models, answers, strict=True))


async def test_attempts_by_model_and_by_path() -> None:
    models = {"a": [[Say("a1")], [Say("a2")]], "b": [[Say("b1")]]}
    async with ChaosServer(choose=by_model(models)) as chaos, connected(chaos) as client:
        assert "a1" in await said(client, "a")
        assert "b1" in await said(client, "b")
        assert "a2" in await said(client, "a")
        await client.post(model="c")
        assert await client.read_head() == 404
        assert b"there are scripts for a, b" in await client.read_body()
    paths = {"/v1/messages": [[Say("msg")]], "/v1/responses": [[Say("resp")]]}
    async with ChaosServer(choose=by_path(paths, "repeat")) as chaos, connected(chaos) as client:
        assert "resp" in await said(client, wire="responses")
        assert "msg" in await said(client, wire="anthropic")


class Broken:
    """A step with a bug."""

    async def perform(self, reply: ScriptedReply, /) -> None:
        raise LookupError(reply.request.number)


async def ask_once(chaos: ChaosServer) -> int:
    async with chaos, connected(chaos) as client:
        await client.post()
        return await client.read_head()


async def test_a_script_that_fails_by_itself_reaches_the_test() -> None:
    async def ask_and_shrug() -> None:
        async with ChaosServer([Broken()]) as chaos, connected(chaos) as client:
            await client.post()
            with pytest.raises(ConnectionResetError):
                await client.read_head()

    with pytest.raises(ExceptionGroup) as caught:
        await ask_and_shrug()
    assert isinstance(caught.value.exceptions[0], LookupError)


async def test_a_failed_script_is_noted_on_the_error_that_it_caused() -> None:
    def choose(request: SeenRequest) -> Script:
        raise LookupError(request.model)

    with pytest.raises(ConnectionResetError) as caught:
        await ask_once(ChaosServer(choose=choose))
    assert any("LookupError('m')" in note for note in caught.value.__notes__)
