"""Tools on demand: two tools find and call them, and everything else sees the inner call."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from agent.world import Effect, World, messages, process, send, tool_ends
from holdfast import events as e
from holdfast.agent.policy import ConfiguredJudge
from holdfast.chaos import CallTool, ChaosServer, Say, SeenRequest
from holdfast.folds.context import context_for
from holdfast.folds.transcript import fold
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.policy.tool_names import ASK_USER, CALL_TOOL, FIND_TOOLS
from holdfast.runner.asks import ApprovalVerdict
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.edits import EditFile, WriteFile
from holdfast.tools.files.patches import ApplyPatch
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.on_demand import declared, listed, matching_tools, with_finder
from holdfast.tools.read_result import NO_OUTPUT, ReadResult
from holdfast.tools.recall import SearchSessions
from holdfast.tools.registry import Registry
from holdfast.tools.shell.tool import ShellKill
from holdfast.values import MODES, ApprovalMode, ClientTool
from stores import MemoryStore

FACTS = "- More tools: "


def rare(name: str, receiver: list[str] | None = None, **traits: Any) -> Effect:
    """A tool on demand."""
    tool = Effect(name, [] if receiver is None else receiver, ToolTraits(**traits))
    tool.spec = replace(tool.spec, description=f"Does {name}.", on_demand=True)
    return tool


def call(name: str, arguments: object) -> CallTool:
    return CallTool(CALL_TOOL, {"name": name, "arguments": arguments})


def names(request: SeenRequest) -> list[str]:
    body: Any = request.body
    found = [tool["function"]["name"] for tool in body.get("tools", [])]
    return [name for name in found if name != ASK_USER]


def system(request: SeenRequest) -> str:
    return str(messages(request)[0]["content"])


def asked(log: Sequence[Any]) -> list[e.ToolAsked]:
    return [record.event for record in log if isinstance(record.event, e.ToolAsked)]


async def test_a_tool_is_found_called_and_recorded_as_itself() -> None:
    """P8: the log has the inner call; the model sees again what it said."""
    receiver: list[str] = []
    script = [[CallTool(FIND_TOOLS, {"query": "paint"})], [call("paint", {"n": 1})], [Say("done")]]
    async with (
        ChaosServer(*script) as chaos,
        process(chaos, Effect("look", [], ToolTraits(read_only=True)), rare("paint", receiver)) as world,
    ):
        run_id = await send(world)
        log = await world.until("s", e.RunEnded)
        first, second, third = chaos.seen.requests
    assert names(first) == names(second) == names(third) == ["look", FIND_TOOLS, CALL_TOOL]
    assert system(first).count(f"{FACTS}paint. ") == 1
    assert '"name":"paint"' in tool_ends(log)[0].result
    inner = asked(log)[1]
    assert (inner.name, inner.args, inner.via, inner.owner) == ("paint", {"n": 1}, CALL_TOOL, "holdfast")
    assert receiver == ["paint {'n': 1}"]
    (again,) = cast("list[dict[str, object]]", messages(third)[-2]["tool_calls"])
    assert again["function"] == {
        "name": CALL_TOOL,
        "arguments": '{"name":"paint","arguments":{"n":1}}',
    }
    said = context_for(fold((record.seq, record.event) for record in log), run_id)
    assert str(said).count("paint done") == 1


async def test_a_direct_call_of_an_undeclared_tool_works() -> None:
    """Models sometimes do it, and so do old logs."""
    receiver: list[str] = []
    async with (
        ChaosServer([CallTool("paint", {"n": 1})], [Say("done")]) as chaos,
        process(chaos, rare("paint", receiver)) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
    assert (asked(log)[0].via, receiver) == ("", ["paint {'n': 1}"])


# kind of action, and the inner call
KINDS: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("read", "read_file", {"path": "a.txt"}),
    ("read a secret", "read_file", {"path": ".env"}),
    ("write", "write_file", {"path": "new.txt", "content": "x"}),
    ("write outside", "write_file", {"path": "../new.txt", "content": "x"}),
    ("write a hook", "write_file", {"path": ".git/hooks/pre-commit", "content": "x"}),
    ("a tool of an MCP server", "mcp__github__create_issue", {"title": "x"}),
    ("schedule", "schedule", {"name": "x"}),
    ("remember", "remember", {"text": "x"}),
    ("bad arguments", "write_file", {"path": 5}),
    ("no such tool", "absent", {}),
)


async def test_a_call_through_call_tool_gets_the_verdict_of_the_inner_action(tmp_path: Path) -> None:
    """P8, P13: in every mode, for every kind of action, people and policy see the inner action."""
    for mode in MODES:
        direct = await outcomes(mode, tmp_path / f"{mode}-1", is_direct=True)
        through = await outcomes(mode, tmp_path / f"{mode}-2", is_direct=False)
        assert through == direct, mode
        endings = {kind: shown[-1] for (kind, _, _), shown in zip(KINDS, through, strict=True)}
        assert endings["read"] == "finished", mode
        allowed = mode == "workspace"
        assert endings["write"] == (
            "finished" if allowed else "denied" if mode != "unattended" else "no_approver"
        )
        assert endings["write a hook"] in {"denied", "no_approver"}, mode
        assert endings["schedule"] in {"denied", "no_approver"}, mode
        assert endings["no such tool"] == "not_started", mode


async def outcomes(mode: ApprovalMode, place: Path, *, is_direct: bool) -> list[tuple[object, ...]]:
    """What each kind of action was asked as, if it was, and how it ended; every request is denied."""
    work = place / "work"
    (work / ".git" / "hooks").mkdir(parents=True)
    for name in ("a.txt", ".env"):
        (work / name).write_text("text\n", encoding="utf-8")
    tools: list[Any] = [rare("mcp__github__create_issue"), rare("schedule"), rare("remember")]
    for tool in (ReadFile(FilesSeen()), WriteFile(FilesSeen())):
        tool.spec = replace(tool.spec, on_demand=True)
        tools.append(tool)
    found: list[tuple[object, ...]] = []
    scripts: list[list[Any]] = []
    for _, name, args in KINDS:
        scripts += [[CallTool(name, args) if is_direct else call(name, args)], [Say("done")]]
    judge = ConfiguredJudge(mode=mode, home=place / "home")
    async with ChaosServer(*scripts) as chaos, process(chaos, *tools, judge=judge) as world:
        for kind, _, _ in KINDS:
            found.append(await outcome(world, kind, work))
    return found


async def outcome(world: World, session_id: str, work: Path) -> tuple[object, ...]:
    await send(world, session_id=session_id, workspace=str(work))
    shown: list[object] = []
    async for records in world.store.follow(session_id, after=0):
        for event in [record.event for record in records]:
            if isinstance(event, e.ApprovalAsked):
                texts = (event.action.summary, event.action.diff, event.headline)
                shown.append((event.action.tool, *(text.replace(work.parent.name, "") for text in texts)))
                await world.inbox.answer(event.approval_id, ApprovalVerdict("deny"))
            elif isinstance(event, e.ToolAsked):
                shown.append((event.name, event.args))
            elif isinstance(event, e.ToolEnded):
                shown.append(event.ending)
                return tuple(shown)
    raise AssertionError(session_id)


async def test_bad_inner_arguments_get_an_error_that_lists_what_is_allowed() -> None:
    """P12."""
    kill = ShellKill.__new__(ShellKill)
    script = [[call("shell_kill", {"job": "x"})], [CallTool(CALL_TOOL, {"tool": "x"})]]
    nested = call(CALL_TOOL, {"name": "shell_kill", "arguments": {"job_id": "x"}})
    judge = ConfiguredJudge(mode="unattended", home=Path("/nowhere"))
    async with (
        ChaosServer(*script, [nested], [Say("done")]) as chaos,
        process(chaos, kill, judge=judge) as world,
    ):
        await send(world)
        inner, outer, twice = tool_ends(await world.until("s", e.RunEnded))
    assert (twice.ending, f"{CALL_TOOL} only calls tools that {FIND_TOOLS} returns" in twice.result) == (
        "not_started",
        True,
    )
    assert "Expected: job_id (string of at least 1 characters)" in inner.result
    assert "Expected: name (string of at least 1 characters); arguments (object, optional)" in outer.result


class Long(Effect):
    """Returns the beginning of a text, and names the whole."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        blob = await call.blobs.put_blob(str(args["text"]).encode())
        return ToolResult("the beginning", blob=blob)


async def test_the_rest_of_a_long_result_can_be_read_in_the_same_session_only() -> None:
    """P11: the name of a blob doesn't give access to it."""
    text, store = "0123456789" * 3_000, MemoryStore()
    read_only = ToolTraits(read_only=True)
    blob = sha256(text.encode()).hexdigest()
    rest = call("read_result", {"blob": blob, "first_char": 9})
    script = [[CallTool("long", {"text": text})], [rest], [Say("done")], [rest], [Say("done")]]
    async with (
        ChaosServer(*script) as chaos,
        process(chaos, Long("long", [], read_only), ReadResult(store), store=store) as world,
    ):
        await send(world)
        first, read = tool_ends(await world.until("s", e.RunEnded))
        await send(world, session_id="other")
        (other,) = tool_ends(await world.until("other", e.RunEnded))
    assert f'"blob": "{first.blob}"' in first.advice
    assert read.result.startswith("9012345678")
    assert read.result.endswith("[9,991 more characters: call it again with first_char 20009]")
    assert other.result == NO_OUTPUT


async def test_a_run_that_names_a_rare_tool_declares_it() -> None:
    async with (
        ChaosServer([Say("one")], [Say("two")]) as chaos,
        process(chaos, rare("paint"), rare("draw")) as world,
    ):
        await send(world, tools=("paint",))
        await world.until("s", e.RunEnded)
        await send(world)
        await world.until("s", e.RunEnded, times=2)
        named, later = chaos.seen.requests
    assert names(named) == ["paint"]
    assert FACTS not in system(named)
    assert names(later) == ["paint", FIND_TOOLS, CALL_TOOL]  # it stays declared in this session


async def test_a_client_that_brings_a_tool_of_that_name_gets_everything_declared() -> None:
    """Its tool is its own, so the others can't be hidden behind it."""
    brought = ClientTool(name=CALL_TOOL, description="Calls.", schema={"type": "object"})
    async with (
        ChaosServer([CallTool(CALL_TOOL, {"name": "paint"})]) as chaos,
        process(chaos, rare("paint")) as world,
    ):
        await send(world, client_tools=(brought,))
        log = await world.until("s", e.ClientToolsAsked)
        (request,) = chaos.seen.requests
    assert names(request) == ["paint", CALL_TOOL]
    assert [(one.name, one.owner) for one in asked(log)] == [(CALL_TOOL, "client")]


def test_tools_are_ranked_by_name_then_description_and_named_if_none_fits() -> None:
    specs = [SearchSessions.spec, ShellKill.spec, spec("mcp__git__log", "History."), spec("other", "Old.")]
    assert matching_tools(specs, "schedules sessions").text.startswith('{"name":"search_sessions"')
    assert matching_tools(specs, "stop process").text.startswith('{"name":"shell_kill"')
    nothing = matching_tools(specs, "zebra")
    assert not nothing.ok
    assert nothing.text.splitlines()[-1] == "other: Old."
    assert listed(specs) == "mcp__git__* (1), other, search_sessions, shell_kill"
    big = [spec(f"big_{n}", "x" * 9_000) for n in range(9)]
    assert matching_tools(big, "big").text.splitlines()[-1].startswith("Also: big_1, big_2")


def spec(name: str, description: str) -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": {}}, on_demand=True)


def test_a_registry_without_rare_tools_declares_neither_of_the_two() -> None:
    registry = Registry()
    registry.put("own", [Effect("look", [])])
    assert with_finder(registry) is registry
    registry.put("own", [Effect("look", []), rare("paint")])
    finder = with_finder(registry)
    assert [one.name for one in declared(finder).specs] == ["look", FIND_TOOLS, CALL_TOOL]
    assert [one.name for one in declared(finder, named=("paint",)).specs] == ["look", "paint"]


async def test_the_model_is_told_when_tools_fail_and_when_they_work_again() -> None:
    """The declarations stay, so the provider's cache does, too."""
    tool = Effect("mcp__github__log", [], ToolTraits(read_only=True))
    up, down = tool.traits, replace(tool.traits, unavailable="the MCP server github isn't connected")
    async with (
        ChaosServer([Say("one")], [Say("two")], [Say("three")]) as chaos,
        process(chaos, tool) as world,
    ):
        for times, tool.traits in enumerate((up, down, up), 1):
            await send(world)
            await world.until("s", e.RunEnded, times=times)
        requests = chaos.seen.requests
    assert {tuple(names(request)) for request in requests} == {("mcp__github__log",)}
    said = [str(messages(request)[-1]["content"]) for request in requests]
    assert "[Note" not in said[0]
    assert "fail now: mcp__github__* (1), because the MCP server github isn't connected." in said[1]
    assert "[Note from Holdfast about what has changed:\nAll tools work again.]" in said[2]


async def test_a_model_that_is_trained_on_patches_is_offered_them_instead_of_edits() -> None:
    files = FilesSeen()
    tools = (WriteFile(files), EditFile(files), ApplyPatch(files))
    async with (
        ChaosServer([Say("a")], after_last="repeat") as chaos,
        process(chaos, *tools, patching=frozenset({"codex"})) as world,
    ):
        for number, model in enumerate(("", "codex"), 1):
            await send(world, model=model)
            await world.until("s", e.RunEnded, times=number)
        plain, trained = chaos.seen.requests
    assert names(plain) == ["write_file", "edit_file"]
    assert names(trained) == ["write_file", "apply_patch"]


async def test_a_run_that_lists_its_tools_can_edit_in_the_form_that_its_model_is_trained_on() -> None:
    files = FilesSeen()
    tools = (WriteFile(files), EditFile(files), ApplyPatch(files), Effect("look", []))
    runs = [
        ("", "edit_file"),
        ("codex", "edit_file"),
        ("", "apply_patch"),
        ("codex", "apply_patch"),
        ("", "look"),
    ]
    async with (
        ChaosServer([Say("a")], after_last="repeat") as chaos,
        process(chaos, *tools, patching=frozenset({"codex"})) as world,
    ):
        for number, (model, tool) in enumerate(runs):
            await send(world, session_id=f"s{number}", model=model, tools=(tool,))
            await world.until(f"s{number}", e.RunEnded)
        declared = [names(request) for request in chaos.seen.requests]
    assert declared == [["edit_file"], ["apply_patch"], ["edit_file"], ["apply_patch"], ["look"]]
