"""MCP servers in the sandbox: what they need works, and secrets are out of reach."""

import asyncio
import json
import shutil
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from features.mcp_client.scene import ENVIRONMENT, QUICK, SERVERS, McpCall, left, run
from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.process import ServerConfiner
from holdfast.features.mcp_client.servers import McpServers
from holdfast.sandbox.profile import MOUNTS_MAX, ServerAccess
from holdfast.sandbox.server_profiles import ServerProfiles
from sandbox.confined_world import HAS_BUBBLEWRAP, one_sandbox
from tools.calls import DeadChildren, until

pytestmark = pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="needs bubblewrap")
SCRIPT = (sys.executable, "-S", "-E", str(SERVERS / "reach.py"))


class House:
    """A home folder with secrets, and servers that live in it."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.home, self.data, self.owner = folder / "home", folder / "data", owner
        for name in ("home/.ssh/id_ed25519", "home/work/.env", "home/.netrc", "data/journal.db"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("secret")
        (self.home / "notes").mkdir()
        (self.home / "notes" / "a.txt").write_text("mine")
        (self.home / ".bashrc").write_text("mine")
        profiles = ServerProfiles(self.home, self.data / "sandbox" / "mcp", own=(str(self.data),))
        self.confiner = ServerConfiner(one_sandbox, profiles)

    def servers(self, config: McpServerConfig) -> McpServers:
        environment = {**ENVIRONMENT, "HOME": str(self.home)}
        return McpServers(
            [config], environment=environment, patience=QUICK, owner=self.owner, confiner=self.confiner
        )


@pytest.fixture
def house(tmp_path: Path, owner: str) -> House:
    return House(tmp_path, owner)


def _config(*words: str, access: ServerAccess | None = None, **env: str) -> McpServerConfig:
    return McpServerConfig(name="reach", command=(*SCRIPT, *words), env=env, access=access or ServerAccess())


async def _reach(of: McpServers, call: McpCall, *tries: tuple[str, object]) -> list[str]:
    wanted = [(what, str(target)) for what, target in tries]
    result = await run(of, "reach", call, label="reach", tries=wanted)
    assert result.ok, result.text
    return json.loads(result.text)


async def test_a_server_reads_the_home_folder_without_its_secrets_and_changes_what_it_was_given(
    house: House, call: McpCall
) -> None:
    """P13."""
    home = house.home
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = _config(str(home / "notes"), MEMORY=str(home / "kept" / "memory.json"))
        await asyncio.to_thread((home / "kept").mkdir)
        async with house.servers(config) as of:
            found = await _reach(
                of,
                call,
                ("read", home / "notes" / "a.txt"),
                ("read", home / ".bashrc"),
                ("write", home / "notes" / "b.txt"),
                ("write", home / "kept" / "memory.json"),
                ("write", home / ".cache" / "uv" / "x"),
                ("tcp", listener.getsockname()[1]),
            )
            assert found == ["mine", "mine", "done", "done", "done", "done"]
            refused = await _reach(
                of,
                call,
                ("read", home / ".ssh" / "id_ed25519"),
                ("read", home / ".netrc"),
                ("read", home / "work" / ".env"),
                ("read", house.data / "journal.db"),
                ("write", home / ".bashrc"),
                ("write", home / "new"),
                ("write", "/usr/x"),
                ("unix", ""),
            )
        assert not [each for each in refused if "Error" not in each], refused
    assert await asyncio.to_thread((home / "notes" / "b.txt").read_text) == "by the server"
    assert await asyncio.to_thread((home / "kept" / "memory.json").read_text) == "by the server"
    assert not await asyncio.to_thread((home / ".cache").exists)  # its cache is its own
    own = house.data / "sandbox" / "mcp" / "reach" / ".cache" / "uv" / "x"
    assert await asyncio.to_thread(own.read_text) == "by the server"
    assert await left(house.owner, ["reach"]) == []


async def test_a_server_can_have_less_or_more_or_no_sandbox(house: House, call: McpCall) -> None:
    secret = house.home / ".ssh" / "id_ed25519"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = ("tcp", listener.getsockname()[1])
        less = _config(access=ServerAccess(network="off"))
        async with house.servers(less) as of:
            assert "Error" in (await _reach(of, call, port))[0]
        more = _config(access=ServerAccess(read=(str(secret),), write=(str(house.home / "notes"),)))
        async with house.servers(more) as of:
            found = await _reach(of, call, ("read", secret), ("write", house.home / "notes" / "c"), port)
            assert found == ["secret", "done", "done"]
        async with house.servers(replace(_config(), access=None)) as of:
            assert await _reach(of, call, ("read", secret), ("unix", "")) == ["secret", "done"]


async def test_a_server_that_does_not_start_says_what_the_sandbox_kept_it_from(house: House) -> None:
    config = _config("--first-write", str(house.home / "notes"))  # a relative path would open our own folder
    async with house.servers(config) as of:
        await of.tried_once(within_s=30)
        (status,) = of.status()
    assert status.state == "down"
    assert f"kept it from changing {house.home}/refused (add it to write" in status.why
    assert "[mcp_servers.sandbox]" in status.why


async def test_a_killed_server_takes_all_its_processes_along(
    house: House, call: McpCall, dead_children: DeadChildren
) -> None:
    async with house.servers(_config()) as of:
        await _reach(of, call)
        assert await left(house.owner, ["reach"])
    assert await left(house.owner, ["reach"]) == []
    await until(lambda: not dead_children())


@pytest.mark.parametrize("program", ["docker", "/usr/bin/podman"])
def test_a_container_engine_is_left_alone(house: House, program: str) -> None:
    config = McpServerConfig(name="x", command=(program, "run", "-i", "y"))
    assert house.confiner.confinement("x", config) is None


def test_what_a_command_line_names_is_writable_and_no_more(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("proj/src", ".ssh", "db", ".npm"):
        (home / name).mkdir(parents=True)
    (home / ".ssh" / "key.pem").write_text("x")
    (home / "proj" / "server.py").write_text("x")
    profiles = ServerProfiles(home, tmp_path / "kept")

    def write(*words: str, **env: str) -> set[str]:
        made = profiles.profile("x", ("run", *words), env, cwd=str(home / "proj"), access=ServerAccess())
        assert made is not None
        return {path.replace(str(home), "~") for path in made.write}

    assert write("server.py") == {"~/proj"}
    assert write("--db-path", f"{home}/db/new.sqlite") == {"~/db"}
    assert write(f"--root={home}/proj/src") == {"~/proj/src"}
    assert write(DIRS=f"{home}/db:{home}/proj/src") == {"~/db", "~/proj/src"}
    assert write(f"{home}/.ssh/key.pem", "/usr/bin", "/", str(tmp_path)) == set()
    assert write(f"{home}/file-in-home") == set()
    key = profiles.profile(
        "x", ("run", f"{home}/.ssh/key.pem"), {}, cwd=str(home), access=ServerAccess(caches=True)
    )
    assert key is not None
    assert f"{home}/.ssh/key.pem" in key.read
    assert key.write == (f"{home}/.npm",)
    shutil.rmtree(home)
    assert profiles.profile("x", ("run",), {}, cwd="/", access=ServerAccess()) is not None


def test_the_log_says_what_cannot_be_hidden_from_a_server(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """P13: a server never has less than the sandbox promises without a word."""
    assert house.confiner.confinement("x", _config()) is not None
    assert not caplog.records
    for number in range(MOUNTS_MAX):
        (house.home / f"{number}.env").write_text("x")
    house.confiner.confinement("x", _config())
    assert "MCP server x: " in caplog.text
    assert "can't be hidden" in caplog.text
