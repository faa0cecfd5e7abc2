"""An agent in a few lines: results, streams, handles, conversations, and errors for every misuse."""

import asyncio
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import (
    Agent,
    Attachment,
    Budget,
    BudgetExceeded,
    ConfigurationError,
    HoldfastError,
    McpServerSettings,
    RunCancelled,
    RunFailed,
    RunRefused,
    RunTruncated,
    Target,
    tool,
)
from holdfast.chaos import ChaosServer, Finish, SeenRequest
from holdfast.chaos import Say as ChaosSay
from holdfast.embedding.model_names import target_named
from holdfast.events import RunEnded, RunQueued, TextDone, ToolEnded
from holdfast.messages import AssistantMessage, ToolMessage, UserMessage
from holdfast.testing import (
    Call,
    Drop,
    FakeClock,
    Gate,
    Hang,
    Refuse,
    Say,
    ScriptedModel,
    Wait,
    bad_key,
)
from holdfast.tools.signatures import CannotBeTool

UNTYPED: Any = Agent
UNTYPED_BUDGET: Any = Budget
MCP: Any = McpServerSettings
UNTYPED_ATTACHMENT: Any = Attachment
NOBODY = Target(name="main", wire="chat", base_url="http://127.0.0.1:9", model="m")


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_two_lines_give_a_result() -> None:
    model = ScriptedModel([Call("add", a=2, b=3), Say("5")])
    agent = Agent(model, instructions="Answer briefly.", tools=[add])
    result = await agent.run("What is 2 + 3?")
    assert result.output == "5"
    assert result.outcome == "completed"
    assert result.usage.input_tokens > 0
    assert [type(message) for message in result.messages] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
        AssistantMessage,
    ]
    assert isinstance(result.events[0], RunQueued)
    assert isinstance(result.events[-1], RunEnded)
    assert [event.result for event in result.events if isinstance(event, ToolEnded)] == ["5"]
    assert "Answer briefly." in str(model.requests[0])


def test_a_script_without_an_event_loop_runs_an_agent() -> None:
    agent = Agent(ScriptedModel([Say("one"), Say("two")]))
    session = agent.session()
    assert agent.run_sync("1", session=session).output == "one"
    assert agent.run_sync("2", session=session).output == "two"
    assert len(asyncio.run(session.history())) == 4


async def test_run_sync_inside_an_event_loop_says_what_to_write() -> None:
    with pytest.raises(ConfigurationError, match=r"write `await agent\.run"):
        Agent(NOBODY).run_sync("hello")


async def test_runs_at_the_same_time_share_what_is_open() -> None:
    model = ScriptedModel([Say("x")] * 5)
    agent = Agent(model)
    results = await asyncio.gather(*(agent.run("hello") for _ in range(5)))
    assert [result.output for result in results] == ["x"] * 5
    assert len({result.session_id for result in results}) == 5


async def test_a_stream_gives_text_and_typed_events_and_the_result() -> None:
    agent = Agent(ScriptedModel([Say("Once upon a time", chunk_chars=5)]))
    async with agent.stream("Tell me a story") as run:
        assert "".join([piece async for piece in run.text()]) == "Once upon a time"
        events = [event async for event in run]
        result = await run.result()
    assert [event.text for event in events if isinstance(event, TextDone)] == ["Once upon a time"]
    assert result.output == "Once upon a time"


async def test_leaving_a_stream_early_stops_the_run() -> None:
    """P5: nothing goes on that nobody sees."""
    model = ScriptedModel([[Say("hel"), Hang()]])
    async with Agent(model) as agent:
        async with agent.stream("hello") as run:
            async for _ in run.text():
                break
        with pytest.raises(RunCancelled) as stopped:
            await run.result()
    assert stopped.value.partial == "hel"
    assert stopped.value.run_id == run.id


async def test_cancelling_run_stops_the_run() -> None:
    """P5: the connection to the model is closed before `run` returns."""
    model = ScriptedModel([[Say("hel"), Hang()]])
    agent = Agent(model)
    running = asyncio.create_task(agent.run("hello"))
    await model.server.seen.until_request(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (row,) = await _rows(agent)
    assert row.outcome == "cancelled"


async def test_a_stopped_run_keeps_no_later_one_of_its_session_waiting() -> None:
    """P3: somebody awaits the second."""
    model = ScriptedModel([[Say("hel"), Hang()], Say("second")])
    async with Agent(model) as agent:
        session = agent.session()
        first = await agent.start("one", session=session)
        await model.server.seen.until_request(1)
        second = await agent.start("two", session=session)
        await first.stop()
        assert (await second.result()).output == "second"


async def test_an_agent_that_was_opened_twice_stays_open_until_both_are_done() -> None:
    async with Agent(ScriptedModel([Say("still here")])) as agent:
        async with agent:
            pass
        run = await agent.start("hello")
        assert (await run.result()).output == "still here"


async def _rows(agent: Agent[Any]) -> Any:
    from holdfast.interfaces.index import RunQuery

    async with agent.runtime.use() as runner:
        return await runner.store.runs(RunQuery())


async def test_a_started_run_is_steered_followed_and_stopped() -> None:
    gate = Gate()
    model = ScriptedModel([[Call("add", a=1, b=1), Wait(gate)], [Say("as you wish"), Hang()]])
    async with Agent(model, tools=[add]) as agent:
        run = await agent.start("work")
        await model.server.seen.until_request(1)
        await run.steer("say it nicely")
        gate.open()
        await model.server.seen.until_request(2)
        assert "say it nicely" in str(model.requests[1])
        assert await run.stop()
        assert not await run.stop()
        records = [record async for record in run.events()]
        assert [record.event for record in records] == [event async for event in run]
        later = [record async for record in run.events(after=records[3].seq)]
        assert [record.seq for record in later] == [record.seq for record in records[4:]]
        assert [record async for record in run.events(after=records[-1].seq)] == []
        with pytest.raises(ConfigurationError, match="it has ended"):
            await run.steer("too late")
        with pytest.raises(RunCancelled):
            await (await agent.attach(run.id)).result()


async def test_a_run_that_goes_on_needs_an_open_agent() -> None:
    agent = Agent(NOBODY)
    with pytest.raises(ConfigurationError, match="async with agent"):
        await agent.start("hello")
    with pytest.raises(ConfigurationError, match="async with agent"):
        await agent.attach("run_1")
    async with Agent(ScriptedModel([])) as opened:
        with pytest.raises(ConfigurationError, match="no run 'run_1'"):
            await opened.attach("run_1")


async def test_a_session_remembers_and_can_be_forked() -> None:
    model = ScriptedModel([Say("Hello Ann."), Say("You are Ann."), Say("Ann, still.")])
    agent = Agent(model)
    session = agent.session("customer-42")
    assert await session.history() == ()
    first = await session.run("I am Ann.")
    assert str((await session.run("Who am I?")).output) == "You are Ann."
    assert str(model.requests[1]["messages"]).count("Ann") == 2
    async with agent:
        at = [record.seq async for record in (await agent.attach(first.run_id)).events()][-1]
        copy = await session.fork(at=at)
        assert len(await copy.history()) == 2
        await copy.run("And now?")
        assert "You are Ann." not in str(model.requests[2]["messages"])
        assert len(await session.history()) == 4
        with pytest.raises(ConfigurationError, match="can't be forked at 999"):
            await session.fork(at=999)


@pytest.mark.parametrize(
    ("script", "error", "text"),
    [
        ([bad_key()], RunFailed, ""),
        ([Refuse("I can't.")], RunRefused, "I can't."),
        ([Call("add", a=1, b=1), Say("never")], BudgetExceeded, ""),
    ],
)
async def test_a_run_without_a_result_raises(script: Any, error: type[HoldfastError], text: str) -> None:
    """P4: the error says how the run ended."""
    agent = Agent(ScriptedModel(script), tools=[add])
    with pytest.raises(error) as raised:
        await agent.run("hello", budget=Budget(turns=1))
    assert isinstance(raised.value, HoldfastError)
    assert raised.value.run_id.startswith("run_")
    assert raised.value.partial == text
    assert len(str(raised.value)) > 20


async def test_a_failed_run_says_why_for_programs() -> None:
    with pytest.raises(RunFailed) as raised:
        await Agent(ScriptedModel([bad_key()])).run("hello")
    assert raised.value.failure is not None
    assert raised.value.failure.kind == "auth"


async def test_an_answer_that_is_cut_off_raises_with_the_part_that_came() -> None:
    model = ScriptedModel([[Say("Once"), Finish("length")]] * 4)
    with pytest.raises(RunTruncated) as raised:
        await Agent(model).run("hello")
    assert raised.value.partial.startswith("Once")


async def test_a_broken_stream_is_asked_for_again() -> None:
    """P3: a dropped connection is not the end of the run."""
    clock = FakeClock()
    result = await Agent(ScriptedModel([[Say("hel"), Drop()], Say("hello")]), clock=clock).run("hello")
    assert result.output == "hello"
    assert clock.slept_s > 0


async def test_the_second_model_answers_for_the_first() -> None:
    first = ScriptedModel([bad_key()], name="first")
    second = ScriptedModel([Say("I am here.")], name="second")
    assert (await Agent([first, second]).run("hello")).output == "I am here."


async def test_an_attachment_reaches_the_model() -> None:
    model = ScriptedModel([Say("A dot.")])
    await Agent(model).run(["What is this?", Attachment(b"GIF89a", "image/gif")])
    assert "data:image/gif;base64,R0lGODlh" in str(model.requests[0])


KEYS = {"ANTHROPIC_API_KEY": "sk-ant-0", "OPENAI_API_KEY": " sk-0 ", "OPENROUTER_API_KEY": "sk-or-0"}


@pytest.mark.parametrize(
    ("name", "wire", "base_url", "key"),
    [
        ("anthropic:claude-sonnet-5", "anthropic", "https://api.anthropic.com", "sk-ant-0"),
        ("openai:gpt-5", "responses", "https://api.openai.com/v1", "sk-0"),
        ("openrouter:a/b:free", "chat", "https://openrouter.ai/api/v1", "sk-or-0"),
        ("ollama:llama4", "chat", "http://127.0.0.1:11434/v1", ""),
    ],
)
def test_short_names_come_from_the_table_of_known_keys(name: str, wire: str, base_url: str, key: str) -> None:
    target = target_named(name, KEYS)
    assert (target.wire, target.base_url, target.api_key) == (wire, base_url, key)
    assert target.model == name.partition(":")[2]


def test_a_short_name_follows_the_variables_of_its_provider() -> None:
    environ = KEYS | {
        "OPENAI_BASE_URL": "https://gateway.example/v1/",
        "HTTPS_PROXY": "http://proxy.example:3128",
    }
    target = target_named("openai:gpt-5", environ)
    assert (target.wire, target.base_url) == ("chat", "https://gateway.example/v1")
    assert target.proxy == "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpt-5", "provider:model"),
        ("openai:", "provider:model"),
        ("nobody:gpt-5", "one of anthropic, openai"),
        ("openai:gpt-5", "set OPENAI_API_KEY"),
    ],
)
def test_a_name_without_a_model_or_a_key_says_what_to_write(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        target_named(name, {})


class Purse:
    """Something that a program has, with what can be done about it."""

    def __init__(self) -> None:
        self.cents = 0

    async def put(self, cents: int) -> int:
        """Put so many in, and say how many there are."""
        self.cents += cents
        return self.cents

    def take(self, cents: int) -> int:
        """Take so many out."""
        return self.cents - cents


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: UNTYPED([]), ConfigurationError, "needs a model"),
        (lambda: UNTYPED(5), TypeError, '"provider:model", a Target, or a list'),
        (lambda: UNTYPED([NOBODY, None]), TypeError, "not NoneType None"),
        (lambda: UNTYPED([NOBODY, NOBODY]), ConfigurationError, "two targets named 'main'"),
        (lambda: UNTYPED("gpt-5"), ConfigurationError, "provider:model"),
        (lambda: UNTYPED(NOBODY, store="postgresql://x"), ConfigurationError, "SQLite"),
        (lambda: UNTYPED(NOBODY, store=" "), ConfigurationError, "store is empty"),
        (lambda: UNTYPED(NOBODY, store=5), TypeError, "not int"),
        (lambda: UNTYPED(NOBODY, tools=[add, add]), ConfigurationError, "Two tools are named 'add'"),
        (lambda: UNTYPED(NOBODY, tools=[partial(add, 1)]), CannotBeTool, "neither a function nor a Tool"),
        (lambda: UNTYPED(NOBODY, tools=[Purse()]), CannotBeTool, "Purse object at .* neither a function"),
        (lambda: tool(name="no spaces please")(add), CannotBeTool, "can't be the name of a tool"),
        (lambda: UNTYPED(NOBODY, tools=add), TypeError, "tools is a list of functions"),
        (lambda: UNTYPED(NOBODY, instructions=5), TypeError, "instructions is a text or a function"),
        (
            lambda: UNTYPED(NOBODY, instructions=lambda: "x"),
            TypeError,
            "instructions is called with one argument",
        ),
        (lambda: UNTYPED(NOBODY, patience=5), TypeError, "patience is a Patience"),
        (lambda: UNTYPED(NOBODY, mcp_servers="x"), TypeError, "mcp_servers is a list of McpServerSettings"),
        (lambda: UNTYPED(NOBODY, mcp_servers=["x"]), TypeError, "one of it is 'x'"),
        (
            lambda: UNTYPED(NOBODY, mcp_servers=[MCP(name="w", command="x")]),
            TypeError,
            "command of 'w' is a list",
        ),
        (
            lambda: UNTYPED(NOBODY, mcp_servers=[MCP(name="w", command=["x"], sandbox={"mode": "off"})]),
            TypeError,
            "sandbox of 'w' is a McpSandboxSettings",
        ),
        (
            lambda: UNTYPED(NOBODY, mcp_servers=[MCP(name="w")]),
            ConfigurationError,
            "set either command or url",
        ),
        (lambda: UNTYPED(NOBODY, agents=5), TypeError, "agents is a list of SubAgents"),
        (lambda: UNTYPED(NOBODY, agents=[5]), TypeError, "one of it is 5"),
        (lambda: tool(retries=-1)(add), TypeError, "retries is a whole number from 0"),
        (lambda: tool(patience_s=0)(add), TypeError, "patience_s is a number of seconds above 0"),
        (lambda: UNTYPED(NOBODY, budget=5), TypeError, "budget is a Budget"),
        (lambda: UNTYPED(NOBODY, on_approval=True), TypeError, "on_approval is a function with one argument"),
        (lambda: UNTYPED(NOBODY, on_approval=lambda: True), TypeError, "on_approval is called with one"),
        (lambda: UNTYPED(NOBODY, budget=Budget(turns=-1)), TypeError, "turns of a Budget"),
        (lambda: UNTYPED(NOBODY).session(5), TypeError, "session is the id"),
        (lambda: UNTYPED(NOBODY, on_question=Purse().__init__), TypeError, "on_question is called with one"),
    ],
    ids=range(31),
)
def test_misuse_is_told_at_the_call_that_is_wrong(
    make: Callable[[], object], error: type[Exception], text: str
) -> None:
    """P12: not at the first call of the model, and never as a bug of ours."""
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize(
    ("prompt", "options", "error", "text"),
    [
        (" ", {}, ValueError, "prompt is empty"),
        ([], {}, ValueError, "prompt is empty"),
        (5, {}, TypeError, "A prompt is a text"),
        (["x", b"y"], {}, TypeError, "A prompt is a text"),
        ("x", {"session": 5}, TypeError, "session is the id"),
        ("x", {"output_type": Purse}, ConfigurationError, "output_type can't be"),
        ("x", {"budget": 5}, TypeError, "budget is a Budget"),
        ("x", {"budget": UNTYPED_BUDGET(tokens="5")}, TypeError, "tokens of a Budget is a number"),
        ("x", {"budget": Budget(minutes=-1)}, TypeError, "minutes of a Budget is a number from 0"),
        ("x", {"output_type": {"type": "object"}}, ConfigurationError, "output_type is a type"),
        (["x", UNTYPED_ATTACHMENT("y", "text/plain")], {}, TypeError, "is bytes, and not str"),
    ],
    ids=range(11),
)
async def test_a_bad_call_of_run_leaves_nothing_behind(
    prompt: Any, options: Any, error: type[Exception], text: str
) -> None:
    """P12: no run, and no session."""
    agent = Agent(ScriptedModel([]))
    with pytest.raises(error, match=text):
        await agent.run(prompt, **options)
    assert await _rows(agent) == []


@pytest.mark.parametrize("of_session", [False, True], ids=["agent", "session"])
async def test_a_stream_that_is_not_entered_says_how_to_write_it(*, of_session: bool) -> None:
    """P12: and nothing has run."""
    agent = Agent(ScriptedModel([]))
    stream: Any = agent.session().stream("x") if of_session else agent.stream("x")
    with pytest.raises(TypeError, match=r"Write `async with agent.stream\(…\) as run:`"):
        async for _ in stream:
            pass
    with pytest.raises(TypeError, match=r"Write `async with agent.stream\(…\) as run:`"):
        await stream
    with pytest.raises(TypeError, match=r"Write `async with agent.stream\(…\) as run:`"), stream:
        pass
    assert await _rows(agent) == []


async def test_what_a_notebook_shows_at_the_end_of_a_cell_fits_in_a_few_lines() -> None:
    session = Agent(ScriptedModel([Say("hello")])).session("customer-42")
    async with session.stream("Say hello") as run:
        result = await run.result()
    assert repr(session) == "<AgentSession customer-42>"
    assert repr(run) == f"<RunHandle {result.run_id}>"
    assert "output='hello'" in repr(result)
    assert "TextDelta" not in repr(result)
    assert len(repr(result)) < 400


async def test_an_asynchronous_method_is_a_tool_that_works_on_its_object() -> None:
    purse = Purse()
    await Agent(ScriptedModel([Call("put", cents=7), Say("There.")]), tools=[purse.put]).run("Put 7 in")
    assert purse.cents == 7


async def test_a_store_that_another_agent_has_open_is_refused(tmp_path: Path) -> None:
    """P12: two owners would take each other's runs away."""
    path = tmp_path / "new" / "talk.db"
    async with Agent(ScriptedModel([]), store=path):
        with pytest.raises(ConfigurationError, match="Another agent has the store"):
            await Agent(NOBODY, store=path).run("hello")
    assert (await Agent(ScriptedModel([Say("now")]), store=str(path)).run("hello")).output == "now"


async def test_an_agent_that_cannot_begin_leaves_nothing_open(tmp_path: Path) -> None:
    """P12: neither its store nor its threads, which nobody could close any more."""

    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("holdfast-")}

    before = threads()
    path = tmp_path / "talk.db"
    await asyncio.to_thread(path.write_text, "this is no database, however one looks at it" * 100)
    with pytest.raises(ConfigurationError, match="can't be opened"):
        await Agent(NOBODY, store=path).run("hello")
    left = threads() - before
    for thread in left:  # the last act of one that was told to end may still be under way
        await asyncio.to_thread(thread.join, 20)
    assert not any(thread.is_alive() for thread in left)


async def test_an_agent_in_use_in_one_event_loop_is_refused_in_another() -> None:
    agent = Agent(ScriptedModel([]))
    async with agent:
        with pytest.raises(ConfigurationError, match="another event loop"):
            await asyncio.to_thread(agent.run_sync, "hello")


async def test_what_a_header_holds_as_a_key_stays_out_of_the_log() -> None:
    """P11: as with the server."""
    secret = "sk-of-a-gateway-0123456789"  # noqa: S105  # opens nothing
    async with ChaosServer([ChaosSay(f"your key is {secret}")]) as chaos:
        headers = {"X-Api-Key": secret, "X-Title": "a-program-of-some-length"}
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m", headers=headers)
        assert (await Agent(target).run("hi")).output == "your key is [redacted]"


async def test_a_key_that_the_program_sends_stays_out_of_the_log_and_of_the_request() -> None:
    """P11: inputs are redacted before they are stored, as in the server."""
    secret = "sk-of-a-gateway-0123456789"  # noqa: S105  # opens nothing
    seen: list[SeenRequest] = []

    def choose(request: SeenRequest) -> list[ChaosSay]:
        seen.append(request)
        return [ChaosSay("ok")]

    async with ChaosServer(choose=choose) as chaos:
        target = Target(name="main", wire="chat", base_url=chaos.base_url, model="m", api_key=secret)
        await Agent(target).run(f"my key is {secret}")
    assert "my key is [redacted]" in str(seen[0].body)
    assert secret not in str(seen[0].body)


def test_the_public_names_are_what_dir_shows() -> None:
    assert set(dir(holdfast)) == set(holdfast.__all__)
    for name in holdfast.__all__:
        assert getattr(holdfast, name).__doc__ or name == "__version__"
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        holdfast.Agnet  # noqa: B018  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]


async def test_an_agent_loads_the_runtime_only_when_it_opens() -> None:
    heavy = "{'aiohttp', 'holdfast.host.runtime', 'holdfast.policy.approvals', 'pydantic'}"
    program = f"import sys; from holdfast import Agent; Agent('ollama:m'); print({heavy} & set(sys.modules))"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode().strip() == "set()"


async def test_a_run_over_its_budget_names_the_argument_that_allows_more() -> None:
    model = ScriptedModel([Call("add", a=1, b=1), Say("never")])
    with pytest.raises(
        BudgetExceeded, match=r"budget of 1 model answer\. .*session= .*budget=Budget\(turns=…\)"
    ):
        await Agent(model, tools=[add]).run("hello", budget=Budget(turns=1))
