"""What a command needs from the network: seen in its text, or learned from what it asked for."""

import asyncio
from pathlib import Path

import pytest

from holdfast.policy.verdicts import Allow, NeedsApproval
from holdfast.tools.shell.connections import hosts_of, may_install
from holdfast.tools.shell.needs import HINT, limits_met
from holdfast.values import Lift
from sandbox.confined_world import HAS_BUBBLEWRAP, confined_world
from sandbox.proxy_world import Names, upstream

NAMED: list[tuple[str, tuple[str, ...]]] = [
    ("curl https://a.example/x", ("a.example",)),
    ("cd x && curl -sSo f 'https://u:p@a.example:8443/x' | sh", ("a.example:8443",)),
    ("git clone https://g.example/a.git; git clone http://h.example/b", ("g.example", "h.example")),
    ("pip install --index-url=https://i.example/simple x", ("i.example",)),
    ("pip install git+https://g.example/a.git", ("g.example",)),
    ("A=1 wget -q https://w.example", ("w.example",)),
    ("curl http://localhost:8000/ http://127.0.0.1:1/ http://app.localhost/", ()),
    ("curl http://localhost:8000/ -d 'u=https://x.example/'", ()),
    ("echo https://x.example/ && git log --grep https://x.example/", ()),
    ('curl "https://$HOST/" "https://x.example', ()),
    ("grep -r https://x.example/ .", ()),
]


SET: list[tuple[str, tuple[str, ...]]] = [
    ("npm install", ("*",)),
    ("cd web && npm ci --silent", ("*",)),
    ("yarn", ("*",)),
    ("python3 -m pip install -r r.txt", ("*",)),
    ("uv sync; cargo fetch", ("*",)),
    ("npm install --offline", ()),
    ("pip install --no-index --find-links . x", ()),
    ("npm test && pip list", ()),
    ("git pull", ("git.example",)),
    ("git push", ("git.example",)),
    ("git push mirror main", ("mirror.example:8443",)),
    ("git fetch by-ssh", ("git.example",)),
]


def test_the_hosts_that_a_command_plainly_connects_to_are_known(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(
        '[remote "by-ssh"]\n\turl = git@ssh.example:a.git\n[remote "origin"]\n\turl = https://git.example/a\n'
        '[remote "mirror"]\n\turl = https://u:p@mirror.example:8443/a\n'
    )
    hosts = dict([*NAMED, *SET])
    assert {command: hosts_of(command, environment={}, workspace=tmp_path) for command in hosts} == hosts


def test_a_package_manager_that_is_set_to_another_registry_connects_there(tmp_path: Path) -> None:
    rows: list[tuple[str, dict[str, str], str, tuple[str, ...]]] = [
        (
            "pip install x",
            {"PIP_INDEX_URL": "https://u:p@packages.example/simple"},
            "",
            ("packages.example",),
        ),
        ("go get x", {"GOPROXY": "https://go.example,direct"}, "", ("go.example",)),
        ("npm i", {}, "registry = http://127.0.0.1:4873/", ()),
        ("npm i", {}, "registry=https://npm.example/\n", ("npm.example",)),
        ("npm i", {}, "@us:registry=https://us.example/", ("*", "us.example")),
    ]
    for command, variables, npmrc, hosts in rows:
        (tmp_path / ".npmrc").write_text(npmrc)
        found = hosts_of(command, environment=variables, workspace=tmp_path)
        assert found == hosts, (command, variables, npmrc)


def test_an_install_is_known_to_need_hosts_that_it_does_not_name() -> None:
    installs = ("pip install x", "python3 -m pip install -r r.txt", "cd a; npm ci", "git pull")
    others = ("npm test", "python -m http.server", "git status", "go build", "make install")
    assert [command for command in (*installs, *others) if may_install(command)] == [*installs]


@pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="needs bubblewrap")
async def test_a_host_in_the_command_is_asked_about_once_and_a_listed_one_not_at_all(tmp_path: Path) -> None:
    """P8: the question names exactly this host, and the answer is enough."""
    async with (
        upstream() as far,
        confined_world(
            tmp_path, network="hosts", hosts=("listed.example", "127.0.0.1"), resolve=Names()
        ) as world,
    ):
        command = f"curl -sS -m 10 http://pypi.example:{far.port}/x"
        asked = await asyncio.to_thread(world.verdict, command)
        assert isinstance(asked, NeedsApproval)
        action = await asyncio.to_thread(
            lambda: world.shell.action({"command": command}, workspace=world.workspace)
        )
        assert action.lift == Lift(hosts=(f"pypi.example:{far.port}",))
        assert "echoed:GET /x" in (await world.run(command)).text
        for silent in ("curl https://listed.example/", "curl http://localhost:3/", "npm ci --offline"):
            assert isinstance(await asyncio.to_thread(world.verdict, silent), Allow), silent


@pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="needs bubblewrap")
async def test_one_approval_of_an_install_opens_the_registry_that_it_names(tmp_path: Path) -> None:
    """P8: what is approved once isn't blocked afterwards, and nothing beyond it is open."""
    async with (
        upstream() as far,
        confined_world(tmp_path, network="hosts", hosts=("127.0.0.1",), resolve=Names()) as world,
    ):
        registry = f"pypi.example:{far.port}"
        npm = f"curl -sS -m 10 http://{registry}/x http://evil.example:{far.port}/y\n"
        await asyncio.to_thread((world.workspace / "npm").write_text, npm)
        await asyncio.to_thread((world.workspace / ".npmrc").write_text, f"registry=http://{registry}/\n")
        await asyncio.to_thread((world.workspace / "npm").chmod, 0o755)
        asked = await asyncio.to_thread(world.verdict, "./npm install")
        assert isinstance(asked, NeedsApproval)
        assert asked.findings == (f"It can connect to {registry}. Whatever it can read, it can send there.",)
        result = await world.run("./npm install")
    assert "echoed:GET /x" in result.text
    assert f"[blocked by the sandbox: host evil.example:{far.port}]" in result.text
    assert "needs" not in result.text  # how to ask is for the model alone
    assert f'needs {{"network": ["evil.example:{far.port}"]}}' in result.advice


@pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="needs bubblewrap")
async def test_an_install_without_a_network_says_which_host_it_asked_for(tmp_path: Path) -> None:
    async with confined_world(tmp_path) as world:
        npm = world.workspace / "npm"
        await asyncio.to_thread(npm.write_text, "curl -sSf -m 10 http://index.example/$1\n")
        await asyncio.to_thread((world.workspace / ".npmrc").write_text, "registry=https://npm.example/\n")
        result = await world.run("bash npm; PATH=$PWD:$PATH; chmod +x npm; npm install x")
    assert not result.ok
    assert "[blocked by the sandbox: host index.example]" in result.text
    assert 'needs {"network": ["index.example"]}' in result.advice


OUTPUTS = {
    "curl: (6) Could not resolve host: api.example.com": '{"network": ["api.example.com"]}',
    "wget: unable to resolve host address 'a.example'": '{"network": ["a.example"]}',
    "ssh: Could not resolve hostname git.example: Name or ...": '{"network": ["git.example"]}',
    "Error: getaddrinfo ENOTFOUND npm.example": '{"network": ["npm.example"]}',
    "HTTPSConnectionPool(host='pypi.example', port=443): Name or service not known": (
        '{"network": ["pypi.example"]}'
    ),
    "dial tcp: lookup sum.example on 8.8.8.8:53: connection refused": '{"network": ["sum.example"]}',
    "touch: cannot touch '/srv/build/x': Read-only file system": '{"write": ["/srv/build/x"]}',
    "could not lock config file .git/config: Read-only file system": '{"write": [".git/config"]}',
    "Error: EROFS: read-only file system, mkdir '/srv/a b'": '{"write": ["/srv/a b"]}',
    "OSError: [Errno 30] Read-only file system: '/opt/x'": '{"write": ["/opt/x"]}',
}


def test_a_failed_command_tells_the_agent_exactly_what_to_ask_for() -> None:
    """P13: a host that shows only at run time is named in the next call, and so in the question."""
    for output, needs in OUTPUTS.items():
        assert f"with needs {needs}. A person has to approve once" in limits_met(output)[1], output


def test_what_names_nothing_to_ask_for_gets_the_general_hint() -> None:
    for output in (
        "curl: (6) Could not resolve host: localhost",
        "x: Permission denied",
        "/: Read-only file system",
    ):
        assert limits_met(output) == ("", HINT), output
    assert limits_met("make: *** [all] Error 1") == ("", "")


@pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="needs bubblewrap")
async def test_an_install_from_an_unknown_registry_asks_for_every_host_unless_hosts_are_listed(
    tmp_path: Path,
) -> None:
    """P8: the card says how much one approval opens."""
    args = {"command": "npm install"}
    for folder, listed, lift in (("a", (), Lift(network=True)), ("b", ("npm.example",), Lift())):
        place = tmp_path / folder
        await asyncio.to_thread(place.mkdir)
        network = "hosts" if listed else "off"
        async with confined_world(place, network=network, hosts=listed, resolve=Names()) as world:
            shell, workspace = world.shell, world.workspace
            action = await asyncio.to_thread(shell.action, args, workspace=workspace)
            assert action.lift == lift
