"""The server behind a reverse proxy: under a path, and with what a trusted proxy says of the client."""

from collections.abc import Sequence
from http.cookies import SimpleCookie

from holdfast.chaos import ChaosServer, Say
from holdfast.host.assembly import BUILT
from holdfast.server.options import ApiKey, ServerOptions
from holdfast.server.page import read_page
from holdfast.server.transport.proxies import ReverseProxies
from serving import Served, Setting, served, target_of
from tables import for_each_row

SECRET = "sk-secret-of-the-owner"  # noqa: S105  # the key of a server that lives for a test
KEY = {"Authorization": f"Bearer {SECRET}"}
PAGE = read_page(BUILT)
FORWARDED = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "agents.example"}


def behind(*trusted: str, mount_path: str = "") -> Setting:
    keys = (ApiKey("owner", SECRET),)
    return Setting(
        options=ServerOptions(
            keys=keys,
            hosts=("agents.example",),
            trusted_proxies=trusted,
            mount_path=mount_path,
            page=PAGE,
        )
    )


async def cookie_of(server: Served, path: str, **headers: str) -> SimpleCookie:
    sent = {"X-Holdfast-Page": "", "Content-Type": "application/json", **headers}
    answer = await server.call("POST", f"{path}/api/sign-in", body={"key": SECRET}, headers=sent)
    assert answer.status == 200, answer.body
    return SimpleCookie(answer.headers["Set-Cookie"])


async def test_only_a_trusted_proxy_says_how_the_client_called() -> None:
    """P11: from anyone else, the headers change neither the cookie nor the host."""
    origin = {"Origin": "https://agents.example"}
    async with ChaosServer() as chaos, served(target_of(chaos), setting=behind("127.0.0.0/8")) as server:
        (cookie,) = (await cookie_of(server, "", **FORWARDED, **origin)).values()
        assert (cookie.key, cookie["secure"], cookie["path"]) == ("holdfast_sign_in", True, "/")
        spoofed = {"X-Forwarded-Host": "evil.example"}
        assert (await server.call("GET", "/v1/runs", headers={**KEY, **spoofed})).status == 421
    async with ChaosServer() as chaos, served(target_of(chaos), setting=behind("10.0.0.0/8")) as server:
        (cookie,) = (await cookie_of(server, "", **FORWARDED)).values()
        assert (bool(cookie["secure"]), cookie.key.startswith("holdfast_sign_in_")) == (False, True)
        refused = await server.call("POST", "/api/sign-in", body={}, headers={**FORWARDED, **origin})
        assert (refused.status, refused.code) == (403, "foreign_origin")


async def test_a_server_under_a_path_answers_with_and_without_it() -> None:
    """P7: some proxies remove the path, others pass it on. Cookies and the API's description have it."""
    async with (
        ChaosServer([Say("hello")]) as chaos,
        served(target_of(chaos), setting=behind(mount_path="/team/agents")) as server,
    ):
        (cookie,) = (await cookie_of(server, "/team/agents")).values()
        assert cookie["path"] == "/team/agents"
        started = await server.call("POST", "/team/agents/v1/runs", body={"input": "hi"}, headers=KEY)
        run_id = started.json["run_id"]
        for mount in ("", "/team/agents"):
            path = f"{mount}/v1/runs/{run_id}/events?view=native"
            async with server.http.get(server.url + path, headers=KEY) as answer:
                assert "run.ended" in await answer.text()
            document = await server.call("GET", f"{mount}/openapi.json", headers=KEY)
            assert document.json["servers"] == [{"url": "/team/agents"}]
        for path in ("/team/agents", "/team/agents/", "/team/agents/s/ses_1", "/"):
            page = (await server.call("GET", path)).body.decode()
            assert 'src="/team/agents/assets/' in page
            assert '="/assets/' not in page
        assert (await server.call("GET", "/team/agents/diagram.html")).body.count(
            b'"/team/agents/assets/'
        ) == 1
        assert (await server.call("GET", "/team/agentsmith", headers=KEY)).status == 404


TARGETS = [
    (b"/a/v1/runs", b"/v1/runs"),
    (b"/a", b"/"),
    (b"/a?x=/a", b"/?x=/a"),
    (b"/a/", b"/"),
    (b"/a/a/b", b"/a/b"),
    (b"/ab", b"/ab"),
    (b"/v1/runs", b"/v1/runs"),
    (b"*", b"*"),
]


@for_each_row("url, rest", TARGETS)
def test_the_path_is_removed_once_and_as_a_whole(url: bytes, rest: bytes) -> None:
    assert ReverseProxies((), "/a").unmounted(url) == rest


PEERS: Sequence[tuple[tuple[str, ...], str, bool]] = [
    ((), "127.0.0.1", False),
    (("127.0.0.1",), "127.0.0.1", True),
    (("10.0.0.0/8",), "10.1.2.3", True),
    (("10.0.0.0/8",), "::ffff:10.1.2.3", True),
    (("10.0.0.0/8",), "11.1.2.3", False),
    (("fe80::/10",), "fe80::1%eth0", True),
    (("unix",), "", True),
    (("127.0.0.1",), "", False),
]


@for_each_row("trusted, peer, is_trusted", PEERS)
def test_a_proxy_is_trusted_by_its_address(trusted: tuple[str, ...], peer: str, *, is_trusted: bool) -> None:
    """P11."""
    assert ReverseProxies(trusted).is_trusted(peer) is is_trusted
