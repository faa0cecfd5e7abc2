"""What a client asks of the model reaches the provider, on each route and each wire."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.chaos import ChaosServer, Finish, Say
from holdfast.targets import Target, Wire
from serving import served, target_of
from tables import for_each_row

USER = [{"role": "user", "content": "hi"}]
# by wire: what the provider must have been told
TOLD: Mapping[Wire, Mapping[str, Any]] = {
    "chat": {"temperature": 0.3, "max_tokens": 77, "reasoning_effort": "low"},
    "responses": {
        "temperature": 0.3,
        "max_output_tokens": 77,
        "reasoning": {"effort": "low", "summary": "auto"},
    },
    "anthropic": {"max_tokens": 77, "output_config": {"effort": "low"}},
}


@for_each_row("wire", list(TOLD))
async def test_temperature_length_and_effort_reach_the_provider(wire: Wire) -> None:
    """Whatever the route calls them."""
    asked: list[tuple[str, Any]] = [
        ("/v1/runs", {"input": "hi", "max_output_tokens": 77, "reasoning_effort": "low"}),
        ("/v1/chat/completions", {"messages": USER, "max_tokens": 77, "reasoning_effort": "low"}),
        ("/v1/chat/completions", {"messages": USER, "max_completion_tokens": 77, "reasoning_effort": "low"}),
        ("/v1/responses", {"input": "hi", "max_output_tokens": 77, "reasoning": {"effort": "low"}}),
    ]
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(replace(target_of(chaos), wire=wire)) as server,
    ):
        for nth, (path, body) in enumerate(asked, 1):
            # one that is to think takes no temperature but the usual one
            sampling = {} if wire == "anthropic" else {"temperature": 0.3}
            status, answer = await server.post(path, body | sampling)
            assert status in {200, 202}, answer
            await chaos.seen.until_body(nth)
            sent: Any = chaos.seen.requests[nth - 1].body
            assert {key: sent.get(key) for key in TOLD[wire]} == TOLD[wire], path


async def test_without_parameters_the_provider_is_told_none() -> None:
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos)) as server:
        await server.ended(await server.start())
        sent: Any = chaos.seen.requests[0].body
        assert not {"temperature", "max_tokens", "reasoning_effort"} & set(sent)


async def test_an_answer_cut_at_the_length_that_was_asked_for_is_not_gone_on_with() -> None:
    """P4: the caller set the limit, so the answer ends there and says so; and a retry has the same limit."""
    async with (
        ChaosServer([Say("half"), Finish("length")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        run_id = await server.start(max_tokens=5)
        shown = await server.ended(run_id)
        assert (shown["status"], shown["code"], shown["output"]) == ("failed", "truncated", "half")
        assert len(chaos.seen.requests) == 1
        status, again = await server.post(f"/v1/runs/{run_id}/retry")
        assert status == 202
        await server.ended(again["run_id"])
        sent: Any = chaos.seen.requests[1].body
        assert sent["max_tokens"] == 5
        assert len(chaos.seen.requests) == 2


@for_each_row(
    ("fields", "param"),
    [
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"max_tokens": 1, "max_output_tokens": 2}, "max_tokens"),
        ({"reasoning_effort": "very high"}, "reasoning_effort"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
    ],
)
async def test_what_no_model_takes_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    """P12: on every route that starts a run."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for path, body in (
            ("/v1/runs", {"input": "x"}),
            ("/v1/chat/completions", {"messages": USER}),
            ("/v1/responses", {"input": "x"}),
        ):
            answer = await server.call("POST", path, body=body | fields)
            assert (answer.status, answer.json["error"]["param"]) == (400, param), path
        assert (await server.get("/v1/runs"))[1]["data"] == []


CLAUDE = Target(name="claude", wire="anthropic", base_url="https://api.anthropic.com", model="c")
OPENAI = Target(name="openai", wire="chat", base_url="https://api.openai.com/v1", model="gpt-5-mini")
CODEX = Target(name="codex", wire="responses", base_url="https://chatgpt.com/backend-api/codex", model="m")


@for_each_row(
    ("target", "fields", "param"),
    [
        (CLAUDE, {"temperature": 0.3}, "temperature"),
        (
            replace(CLAUDE, base_url="https://c.test"),
            {"temperature": 0, "reasoning_effort": "low"},
            "temperature",
        ),
        (replace(CLAUDE, base_url="https://c.test"), {"reasoning_effort": "huge"}, "reasoning_effort"),
        (OPENAI, {"temperature": 0.3}, "temperature"),
        (OPENAI, {"reasoning_effort": "4096"}, "reasoning_effort"),
        (CODEX, {"temperature": 0.3}, "temperature"),
        (CODEX, {"max_output_tokens": 9}, "max_output_tokens"),
    ],
)
async def test_an_option_that_the_chosen_target_refuses_is_refused_by_name(
    target: Target, fields: dict[str, Any], param: str
) -> None:
    """P12: on each route, for the target that the run names, or the default one."""
    chat = {"max_tokens" if name == "max_output_tokens" else name: value for name, value in fields.items()}
    async with ChaosServer([Say("hi")]) as chaos, served(target, target_of(chaos)) as server:
        for path, body in (
            ("/v1/runs", {"input": "x", **fields}),
            ("/v1/runs", {"input": "x", "model": target.name, **fields}),
            ("/v1/chat/completions", {"messages": USER, **chat}),
            ("/v1/responses", {"input": "x", **fields}),
        ):
            answer = await server.call("POST", path, body=body)
            assert (answer.status, answer.json["error"]["param"]) == (400, param), path
            assert repr(target.name) in answer.json["error"]["message"]
        assert (await server.get("/v1/runs"))[1]["data"] == []
        run_id = await server.start(temperature=0.3, model="main")
        assert (await server.ended(run_id))["output"] == "hi"


async def test_the_model_that_is_asked_for_by_name_answers() -> None:
    """By the target's name or its model; on the routes of hermes-agent an unknown one means the first."""
    async with (
        ChaosServer([Say("one")], after_last="repeat") as first,
        ChaosServer([Say("two")], after_last="repeat") as second,
    ):
        targets = (
            replace(target_of(first), model="small"),
            replace(target_of(second, name="other"), model="large"),
        )
        async with served(*targets) as server:
            for model, said, named in (("holdfast/other", "two", "large"), ("holdfast/main", "one", "small")):
                _, answer = await server.post("/v1/chat/completions", {"messages": USER, "model": model})
                assert answer["choices"][0]["message"]["content"] == said, model
                assert answer["model"] == named
            for asked, said in (
                ({}, "small"),
                ({"model": "other"}, "large"),
                ({"model": "gpt-x"}, "small"),
            ):
                run_id = await server.start(**asked)
                await server.ended(run_id)
                assert (await server.get(f"/v1/runs/{run_id}"))[1]["model"] == said


async def test_what_cannot_be_meant_is_refused_by_name() -> None:
    """P12: a budget below nothing or beyond all measure, and a folder that is nowhere."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        wrong: list[tuple[str, dict[str, Any], str]] = [
            ("/v1/runs", {"input": "x", "budget": {"tokens": -1}}, "budget.tokens"),
            ("/v1/runs", {"input": "x", "budget": {"tokens": 10**30}}, "budget.tokens"),
            ("/v1/runs", {"input": "x", "budget": {"minutes": -0.5}}, "budget.minutes"),
            ("/v1/runs", {"input": "x", "workspace": "here"}, "workspace"),
            ("/api/sessions", {"workspace": "here"}, "workspace"),
            ("/api/sessions", {"workspace": "/a\0b"}, "workspace"),
            ("/v1/runs", {"input": "x", "workspace": "/no/such/folder"}, "workspace"),
            ("/api/sessions", {"workspace": "/no/such/folder"}, "workspace"),
            ("/api/sessions", {"workspace": "/" + "far" * 3_000}, "workspace"),
            ("/api/sessions/s/chat", {"input": "x", "workspace": "/dev/null"}, "workspace"),
        ]
        _, missing = await server.post("/v1/runs", {"input": "x", "workspace": "/no/such/folder"})
        assert "/no/such/folder" in missing["error"]["message"]
        for path, body, param in wrong:
            status, answer = await server.post(path, body)
            assert (status, answer["error"]["param"]) == (400, param)
        assert (await server.get("/api/sessions?all=true"))[1]["data"] == []


async def test_a_word_that_no_field_takes_is_refused_with_those_that_it_takes() -> None:
    """P12: "detatch" does not mean cancel."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for path, body, words in (
            ("/v1/runs", {"input": "x", "on_disconnect": "detatch"}, "cancel, detach"),
            ("/v1/chat/completions", {"messages": USER, "on_disconnect": "detatch"}, "cancel, detach"),
            ("/v1/responses", {"input": "x", "on_disconnect": "detatch"}, "cancel, detach"),
            ("/v1/runs", {"input": "x", "when_busy": "wait"}, "queue, redirect, reject, steer"),
        ):
            status, answer = await server.post(path, body)
            (param,) = set(body) - {"input", "messages"}
            assert (status, answer["error"]["param"]) == (400, param)
            assert words in answer["error"]["message"], answer
        assert (await server.get("/api/sessions?all=true"))[1]["data"] == []
