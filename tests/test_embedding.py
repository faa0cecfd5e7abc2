"""An agent inside another program, in a few lines."""

from holdfast import Agent, Target, tool
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.events import RunEnded, TextDone, ToolEnded


async def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


async def test_an_agent_calls_a_typed_function_and_answers() -> None:
    async with ChaosServer([CallTool("double", {"number": 21})], [Say("It is 42.")]) as chaos:
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m")
        async with Agent(target, tools=[double]) as agent:
            events = [event async for event in agent.run("Double 21")]
    (ended,) = [event for event in events if isinstance(event, ToolEnded)]
    assert ended.result == "42"
    assert [event.text for event in events if isinstance(event, TextDone)] == ["It is 42."]
    assert isinstance(events[-1], RunEnded)


async def test_a_session_goes_on_with_what_was_said_before() -> None:
    async with ChaosServer([Say("Hello Ann.")], [Say("You are Ann.")]) as chaos:
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m")
        async with Agent(target, tools=[tool(double)]) as agent:
            for text in ("I am Ann.", "Who am I?"):
                assert [event async for event in agent.run(text, session_id="s")]
        body = chaos.seen.request(2).body or {}
        assert str(body["messages"]).count("Ann") == 2
