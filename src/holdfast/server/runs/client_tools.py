"""Tools that a client declares and runs itself: their declarations, and how results reach the waiting run."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from holdfast import events as e
from holdfast.folds.entries import Text, ToolCard
from holdfast.folds.rows import AskRow, RunRow
from holdfast.folds.run import AskStatus
from holdfast.interfaces.ids import client_call_id, client_tools_of_call
from holdfast.server.access.caller import caller_name
from holdfast.server.deps import RouteDeps
from holdfast.server.message_content import Attached, keep_attached
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.client_messages import ClientInput
from holdfast.server.streams.waiting import ResponseSpan
from holdfast.values import ClientTool, ClientToolResult

TOOLS_MAX = 128
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CHOICES = frozenset({"none", "required"})


class Declared(Struct, frozen=True):
    """The tools that a request brings, and which of them the model must call first, if any."""

    tools: tuple[ClientTool, ...] = ()
    choice: str = ""


def declared_tools(given: Sequence[dict[str, Any]] | None, choice: object = None) -> Declared:
    """The client's tools, given in OpenAI's form; raises a Problem that names what can't be used.

    A tool with the name of one of the agent's replaces it.
    """
    given = given or ()
    if len(given) > TOOLS_MAX:
        raise bad_request(f"'tools' has more than {TOOLS_MAX} entries", param="tools")
    tools: dict[str, ClientTool] = {}
    for at, one in enumerate(given):
        tool = _tool(one, f"tools[{at}]")
        if tool.name in tools:
            text = f"Invalid 'tools[{at}]': another tool is named {tool.name}. Rename one of them"
            raise bad_request(text, param=f"tools[{at}]", code="tool_name_taken")
        tools[tool.name] = tool
    return Declared(tuple(tools.values()), _choice(choice, tools))


def _tool(given: dict[str, Any], where: str) -> ClientTool:
    """A function in the form of either protocol: with its fields in `function`, or beside the type."""
    if (kind := given.get("type", "function")) != "function":
        text = f"Invalid '{where}.type': tools of type {str(kind)[:40]!r} aren't supported. Send functions"
        raise bad_request(text, param=f"{where}.type")
    nested = given.get("function")
    function = cast("dict[str, Any]", nested) if isinstance(nested, dict) else given
    name, schema = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        text = f"Invalid '{where}': a tool's name must be 1 to 64 letters, digits, - and _"
        raise bad_request(text, param=where)
    if schema is not None and not isinstance(schema, dict):
        raise bad_request(f"Invalid '{where}': 'parameters' must be a JSON Schema", param=where)
    description = function.get("description")
    return ClientTool(
        name=name,
        description=description if isinstance(description, str) else "",
        schema=cast("dict[str, object]", schema) or {"type": "object", "properties": {}},
    )


def _choice(given: object, tools: Mapping[str, ClientTool]) -> str:
    if given is None or given == "auto":
        return ""
    if isinstance(given, str) and given in _CHOICES:
        if given == "required" and not tools:
            raise bad_request("'tool_choice' is required, but there are no 'tools'", param="tool_choice")
        return given
    named = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    function = named.get("function", named)
    name = cast("dict[str, Any]", function).get("name") if isinstance(function, dict) else None
    if named.get("type") != "function" or name not in tools:
        text = "'tool_choice' must be auto, none, required, or a function in 'tools'"
        raise bad_request(text, param="tool_choice")
    return str(name)


class ClientCall(Struct, frozen=True):
    """A call that the client runs, under the id that it returns the result with."""

    call_id: str
    name: str
    arguments: str


def client_calls(span: ResponseSpan) -> list[ClientCall]:
    """The calls that a response ends with; none if it ends with the run."""
    if span.client_ask is None:
        return []
    tools, asked = span.run.state.tools, span.client_ask
    return [
        ClientCall(
            client_call_id(asked.client_tools_id, position),
            tools[tool_call_id].asked.name,
            msgspec.json.encode(tools[tool_call_id].asked.args).decode(),
        )
        for position, tool_call_id in enumerate(asked.tool_call_ids)
    ]


def text_before(span: ResponseSpan, after: int) -> str:
    """Return the text of the answer that ends with client tool calls or a request to a person."""
    asked, waits = span.client_ask, span.person_ask
    calls = asked.tool_call_ids if asked else (waits.tool_call_id,) if waits else ()
    text = ""
    for entry in span.run.view.entries:
        if entry.seq <= after or (isinstance(entry, ToolCard) and entry.tool_call_id not in calls):
            text = ""
        elif isinstance(entry, Text):
            text += entry.text
        elif isinstance(entry, ToolCard):
            return text
    return text


class Resumed(Struct, frozen=True):
    """The run that continued with the client's results, and the seq after which its next response begins."""

    row: RunRow
    after: int


async def resumed_run(
    deps: RouteDeps, said: ClientInput, declared: Declared, *, client: str, param: str, session_id: str = ""
) -> Resumed | None:
    """Hand the results to the run that waits for them, in this session if one is named.

    None if no run of this client does: then they are only context for a new run. Results that were handed in
    before lead to the same run, so that a client may repeat its request.
    """
    client_tools_id = await _one_request(deps, said.results, client=client, param=param)
    found = await _known_ask(deps, client_tools_id, client=client) if client_tools_id else None
    if found is None or session_id not in {"", found[1].session_id}:
        return None
    known, row, ask = found
    run = (await deps.folds.run(row)).state
    asked = ask.asked
    assert isinstance(asked, e.ClientToolsAsked), "its row says so"
    results = matched_results(asked, said.results, param=param)
    if ask.state == "open":
        await _keep(deps, said.attached, results, param=param)
        answered = e.ClientToolsAnswered(
            at_ms=deps.clock.now_ms(),
            run_id=row.run_id,
            client_tools_id=client_tools_id,
            results=results,
            tools=declared.tools if declared.tools != run.client_tools else None,
            tool_choice=declared.choice,
            by=caller_name(),
        )
        if await deps.inbox.answer_client_tools(row.session_id, answered):
            return Resumed(row, known.seq)
        ask = (await deps.folds.run(row)).state.asks[client_tools_id]
    return Resumed(row, known.seq) if _is_same(ask, results) else None


async def _known_ask(
    deps: RouteDeps, client_tools_id: str, *, client: str
) -> tuple[AskRow, RunRow, AskStatus] | None:
    """The request for this client, and its run; None if there is none that this client may answer."""
    known = await deps.store.ask(client_tools_id)
    row = await deps.store.run(known.run_id) if known is not None else None
    if known is None or row is None or known.kind != "client_tools":
        return None
    run = (await deps.folds.run(row)).state
    ask = run.asks.get(client_tools_id)
    if ask is None or row.session_id != known.session_id or run.settings.client != client:
        return None
    return known, row, ask


async def _one_request(
    deps: RouteDeps, results: Sequence[ClientToolResult], *, client: str, param: str
) -> str:
    """The request for the client that all results are for; empty if there is none.

    Raises a Problem if only some of them are for a request that waits: the others would be lost.
    """
    calls = [client_tools_of_call(result.tool_call_id) for result in results]
    requests = list(dict.fromkeys(call[0] if call else "" for call in calls))
    if len(requests) == 1:
        return requests[0]
    for one in filter(None, requests):
        found = await _known_ask(deps, one, client=client)
        asked = found[2].asked if found is not None and found[2].state == "open" else None
        if isinstance(asked, e.ClientToolsAsked):
            raise _not_waited_for(results, [asked], param=param)
    return ""


def _not_waited_for(
    results: Iterable[ClientToolResult], asks: Iterable[e.ClientToolsAsked], *, param: str
) -> Problem:
    waited_for = [
        client_call_id(asked.client_tools_id, position)
        for asked in asks
        for position in range(len(asked.tool_call_ids))
    ]
    unknown = [result.tool_call_id for result in results if result.tool_call_id not in waited_for]
    text = (
        f"No pending tool call has the id {', '.join(unknown)[:200]}. Send results for exactly these: "
        f"{', '.join(waited_for)}"
    )
    return bad_request(text, param=param, code="tool_result_unknown")


def matched_results(
    asked: e.ClientToolsAsked, results: Sequence[ClientToolResult], *, param: str
) -> tuple[ClientToolResult, ...]:
    """The results under our own ids, in the order of the calls; raises a Problem if one is missing."""
    given: dict[str, ClientToolResult] = {}
    for result in results:
        if result.tool_call_id in given:
            text = f"Tool call {result.tool_call_id} has two results. Send one"
            raise bad_request(text, param=param, code="tool_result_duplicate")
        given[result.tool_call_id] = result
    matched: list[ClientToolResult] = []
    for position, tool_call_id in enumerate(asked.tool_call_ids):
        name = client_call_id(asked.client_tools_id, position)
        if name not in given:
            text = f"The result of tool call {name} is missing. Send the results of all calls together"
            raise bad_request(text, param=param, code="tool_result_missing")
        result = given[name]
        matched.append(ClientToolResult(tool_call_id=tool_call_id, text=result.text, parts=result.parts))
    if len(given) > len(matched):
        raise _not_waited_for(results, [asked], param=param)
    return tuple(matched)


def _is_same(ask: AskStatus, results: Sequence[ClientToolResult]) -> bool:
    return ask.state == "answered" and list(ask.results) == list(results)


async def _keep(
    deps: RouteDeps, attached: Attached, results: Sequence[ClientToolResult], *, param: str
) -> None:
    parts = [part for result in results for part in result.parts]
    named = {getattr(part, "blob", "") for part in parts}
    kept = {name: data for name, data in attached.items() if name in named}
    await keep_attached(deps, parts, attached=kept, param=param)


async def give_up_waiting(
    deps: RouteDeps, session_id: str, *, said: ClientInput, client: str, param: str
) -> None:
    """Stop the session's run if it waits for this client, which says something else instead.

    Raises a Problem if what the client says are results, but not those that the run waits for.
    """
    if not session_id or await deps.store.session(session_id) is None:
        return
    run = (await deps.inbox.state(session_id)).current_run
    if run is None or run.status != "waiting_for_client" or run.settings.client != client:
        return
    if said.results:
        asks = [ask.asked for ask in run.open_asks if isinstance(ask.asked, e.ClientToolsAsked)]
        raise _not_waited_for(said.results, asks, param=param)
    await deps.inbox.stop(session_id, run.run_id, cause="client_moved_on", by=caller_name())
