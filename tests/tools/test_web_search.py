"""Web search: each service is asked and read as its documentation says, on loopback servers."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from holdfast.tools.web.search import SearchService, WebSearch, hits_in
from tools.calls import Call

HIT = {"title": "Soup", "url": "https://soup.example/1", "content": "About soup."}
ANSWERS: dict[SearchService, object] = {
    "searxng": {"query": "soup", "results": [HIT, {"title": "no address"}], "suggestions": []},
    "brave": {"type": "search", "web": {"results": [{**HIT, "description": "About soup."}]}},
    "tavily": {"query": "soup", "results": [{**HIT, "score": 0.9}], "response_time": 1.2},
    "exa": {"requestId": "x", "results": [{**HIT, "text": "About soup.", "id": "1"}]},
    "duckduckgo": {
        "AbstractText": "",
        "AbstractURL": "",
        "RelatedTopics": [{"FirstURL": HIT["url"], "Text": "Soup"}, {"Name": "More", "Topics": []}],
    },
}


@pytest.mark.parametrize("service", ANSWERS)
async def test_each_service_is_asked_and_read_as_documented(service: SearchService) -> None:
    seen: list[tuple[str, dict[str, str], dict[str, str], Any]] = []

    async def answer(request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        seen.append((request.path, dict(request.query), dict(request.headers), body))
        return web.json_response(ANSWERS[service])

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    async with TestServer(app) as server:
        tool = WebSearch(service, url=str(server.make_url("/")), key="k-123")
        found = await tool.run({"query": "soup & salt", "count": 3}, Call(workspace=Path("/w")))
    assert found.ok
    assert found.text.startswith("Soup\nhttps://soup.example/1")
    ((path, query, headers, body),) = seen
    match service:
        case "searxng":
            assert (path, query) == ("/search", {"q": "soup & salt", "format": "json"})
        case "brave":
            assert (query, headers["X-Subscription-Token"]) == ({"q": "soup & salt", "count": "3"}, "k-123")
        case "tavily":
            assert (body, headers["Authorization"]) == (
                {"query": "soup & salt", "max_results": 3},
                "Bearer k-123",
            )
        case "exa":
            assert (body["query"], body["numResults"], headers["x-api-key"]) == ("soup & salt", 3, "k-123")
        case "duckduckgo":
            assert query == {"q": "soup & salt", "format": "json", "no_html": "1"}


@pytest.mark.parametrize("body", [None, [], {"results": "x"}, {"results": [1, {"url": "file:///etc"}]}])
def test_another_shape_has_no_results(body: object) -> None:
    assert all(hits_in(service, body) == [] for service in ANSWERS)


async def test_a_refusal_of_the_service_is_told_to_the_model() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=429, text="too many requests")

    app = web.Application()
    app.router.add_get("/search", refuse)
    async with TestServer(app) as server:
        tool = WebSearch("searxng", url=str(server.make_url("/")))
        found = await tool.run({"query": "x"}, Call(workspace=Path("/w")))
    assert (found.ok, "429: too many requests" in found.text) == (False, True)
    assert tool.action({"query": "x"}, workspace=Path("/w")).host == "127.0.0.1"
