"""The table of operations and the server: nothing is described that is not served, nor served undescribed."""

import dataclasses
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.operation import Operation
from holdfast.api.operations import OPERATIONS, paths_of
from holdfast.chaos import ChaosServer
from holdfast.server.options import ApiKey, ServerOptions
from holdfast.server.routing import ApiRouter, api_routes
from serving import Setting, served, target_of
from tables import for_each_row

LOCKED = Setting(options=ServerOptions(keys=(ApiKey("owner", "sk-secret-of-the-owner"),)))
ONE = Operation("GET", "/v1/one", "one.show", tag="Server", summary="One.", responses={200: dict[str, Any]})


async def show(request: Request) -> Any:
    raise AssertionError(f"only bound, never asked: {request}")


@asynccontextmanager
async def no_lifespan(_: object) -> AsyncGenerator[None]:
    yield


def test_an_operation_that_nothing_is_bound_to_stops_the_start() -> None:
    with pytest.raises(ValueError, match=r"no function is bound to .*: one\.show"):
        api_routes([ONE], {})


def test_a_function_that_no_operation_names_stops_the_start() -> None:
    with pytest.raises(ValueError, match=r"no operation for .*: two\.show"):
        api_routes([ONE], {"one.show": show, "two.show": show})


@for_each_row("first", ["/v1/one", "/v1/{name}"])
async def test_the_first_of_two_routes_that_match_answers_as_in_the_table(first: str) -> None:
    asked: list[str] = []

    def bound(path: str) -> Any:
        async def call(_: Request) -> Any:
            asked.append(path)
            return Response()

        return call

    paths = sorted(["/v1/one", "/v1/{name}"], key=lambda path: path != first)
    table = [dataclasses.replace(ONE, path=path, endpoint=path, scopes=()) for path in paths]
    router = ApiRouter(api_routes(table, {path: bound(path) for path in paths}), lifespan=no_lifespan)
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/v1/one", "headers": [], "app": router}

    async def receive() -> Any:
        raise AssertionError("nothing reads the body")

    async def send(_: Any) -> None:
        """Drop it."""

    await router(scope, receive, send)
    assert asked == [first]


def test_each_method_of_a_path_is_in_the_table_once() -> None:
    rows = [(one.method, path) for one in OPERATIONS for path in one.templates]
    assert len(rows) == len(set(rows)) > 50


async def test_every_operation_of_the_table_reaches_its_function() -> None:
    """Features are imported by their first request, so one that isn't bound wouldn't stop the start."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for one in OPERATIONS:
            path = re.sub(r"{\w+}", "none", one.templates[0])
            async with server.http.request(one.method, server.url + path) as answer:
                assert answer.status != 500, (one, await answer.text())


async def test_every_operation_of_the_table_needs_a_key_exactly_if_it_says_so() -> None:
    """P11: the table is the one place that says which paths are open."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=LOCKED) as server:
        for one in OPERATIONS:
            for path in one.templates:
                answer = await server.call(one.method, path.replace("{", "").replace("}", ""))
                if path in paths_of("browsers.sign_in"):
                    assert (answer.status, answer.code) == (400, "invalid_request")
                elif path in paths_of("hooks.deliver") | paths_of("channels.deliver"):
                    assert (answer.status, answer.code) == (401, "bad_signature")
                elif one.scopes:
                    assert (answer.status, answer.code) == (401, "invalid_api_key"), (one.method, path)
                else:
                    assert answer.status == 200, (one.method, path)
