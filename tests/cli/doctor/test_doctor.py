"""`holdfast doctor`: each check against something that is really so, well or wrong."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from features.mcp_client.locked import Locked, locked
from features.mcp_client.web import Web, serving
from holdfast import events as e
from holdfast.chaos import (
    ChaosServer,
    Hang,
    Say,
    Script,
    Status,
    bad_key,
    chaos_in_thread,
    closed_port,
    insufficient_quota,
    model_missing,
    rate_limited_s,
)
from holdfast.cli.doctor import machine
from holdfast.cli.doctor.command import ColourReport, JsonReport, PlainReport, ask_nobody, doctor, examine
from holdfast.cli.doctor.findings import DoctorFinding, fault, note
from holdfast.cli.doctor.targets import ADVICE, ask_targets
from holdfast.config.load import load_configuration
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Settings
from holdfast.features.mcp_client.doctor import check_servers
from holdfast.host.data_dir import announce
from holdfast.host.lock import DirectoryLock
from holdfast.interfaces.feature import DoctorContext
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.spool import Spool
from holdfast.targets import Target
from holdfast.values import FilePart
from stores import SqliteStore

KEY = "sk-of-the-doctors-test"
CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
api_key = "{key}"
"""


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """A configuration with one target that answers."""
    with chaos_in_thread(ChaosServer([Say("ok")], after_last="repeat")) as chaos:
        path = tmp_path / "mine.toml"
        path.write_text(CONFIG.format(folder=tmp_path, url=chaos.base_url, key=KEY))
        path.chmod(0o600)
        yield path


def found(config: Path, name: str, **flags: object) -> DoctorFinding:
    """The finding of one check, with no model asked."""
    findings = examine({"config": config, **flags}, PlainReport(), ask=ask_nobody)
    return next(finding for finding in findings if finding.name == name)


async def _fill(folder: Path) -> None:
    await asyncio.to_thread(folder.mkdir, mode=0o700)
    store = await SqliteStore.open(folder / "holdfast.db")
    blob = await store.put_blob(b"whole")
    part = FilePart(blob=blob, media_type="text/plain", name="a")
    said = e.MessageAccepted(at_ms=2, message_id="m", text="hello", parts=(part,))
    await store.append("s", [e.SessionCreated(at_ms=1, epoch="x"), said])
    await store.close()


def test_on_a_healthy_machine_everything_is_checked_and_the_exit_code_is_0(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor({"config": config}, report=JsonReport()) == 0
    report = json.loads(capsys.readouterr().out)
    by_name = {finding["name"]: finding for finding in report["findings"]}
    expected = {"configuration", "versions", "server", "port", "store", "clock", "spool", "saving", "ripgrep"}
    assert expected < set(by_name)
    assert by_name["target main"]["state"] == "ok"
    assert by_name["saving"]["facts"]["commit_ms"] > 0
    assert report["ok"]
    assert not list(config.parent.glob("**/.doctor-*"))


def test_the_plain_report_has_no_colour_and_a_fault_makes_the_exit_code_1(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closed_port() as port:
        config.write_text(CONFIG.format(folder=config.parent, url=f"http://127.0.0.1:{port}", key=KEY))
        assert doctor({"config": config}) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "fault target main: connect failed" in out
    assert ADVICE["connect_failed"] in out
    assert KEY not in out


def test_a_configuration_that_cannot_be_meant_is_the_first_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.toml").write_text("[server]\nprot = 1\n")
    assert doctor({"config": tmp_path / "bad.toml"}) == 1
    assert "did you mean port?" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "kind", "state"),
    [
        ([Say("ok")], None, "ok"),
        ([bad_key()], "auth", "fault"),
        ([model_missing()], "model_missing", "fault"),
        ([insufficient_quota()], "quota_exhausted", "fault"),
        ([rate_limited_s(3600)], "rate_limited", "note"),
        ([Status(401, message=f"no such key: {KEY}")], "auth", "fault"),
        ([Hang()], "no_first_event", "fault"),
    ],
    ids=["answers", "key", "model", "quota", "rate", "echo", "silence"],
)
async def test_a_target_is_asked_once_and_its_failure_says_what_to_do(
    script: Script, kind: str | None, state: str
) -> None:
    """P3, P11: also a silent target ends in time; no word of the report holds the key."""
    async with ChaosServer(script) as chaos:
        target = Target(name="t", wire="chat", base_url=chaos.base_url, model="m", api_key=KEY)
        ask = partial(ask_targets, call_s=0.5 if kind == "no_first_event" else 20)
        (finding,) = await ask([target])
        assert len(chaos.seen.requests) == 1
    assert (finding.state, finding.facts.get("kind")) == (state, kind)
    assert state == "ok" or finding.advice
    assert KEY not in repr(finding)


async def test_damage_is_named_by_its_place(config: Path) -> None:
    """P1: what is no longer what was written is said, with session and seq, and never papered over."""
    folder = config.parent / "data"
    await _fill(folder)
    whole = await asyncio.to_thread(found, config, "store")
    assert (whole.state, whole.facts) == ("ok", {"events": 2, "blobs": 1})
    assert "2 events and 1 blob checked" in whole.text
    await asyncio.to_thread(_damage_event, folder)
    await asyncio.to_thread(_damage_blob, folder)
    broken = await asyncio.to_thread(found, config, "store")
    assert broken.state == "fault"
    assert "integrity check failed at session s seq 2: the stored event is not the one" in broken.text
    assert "integrity check failed at blob " in broken.text
    assert "restore a backup" in broken.advice


def _damage_event(folder: Path) -> None:
    connection = apsw.Connection(str(folder / "holdfast.db"))
    connection.execute("UPDATE recent SET body = CAST(replace(body, 'hello', 'jello') AS BLOB) WHERE seq = 2")
    connection.close()


def _damage_blob(folder: Path) -> None:
    (blob,) = [path for path in (folder / "blobs").glob("*/*") if path.is_file()]
    blob.write_bytes(b"other")


async def test_commits_that_were_published_and_are_gone_are_a_fault(config: Path) -> None:
    """P1: an older file in the place of the store, or a cut write-ahead log, is noticed."""
    folder = config.parent / "data"
    await _fill(folder)
    mark = folder / "holdfast.db-mark"
    assert await asyncio.to_thread(mark.exists)
    await asyncio.to_thread(mark.write_bytes, (1000).to_bytes(8, "little"))
    finding = await asyncio.to_thread(found, config, "store")
    assert finding.state == "fault"
    assert "1000 writes were published" in finding.text


def test_a_file_that_is_no_database_is_a_fault(config: Path) -> None:
    (config.parent / "data").mkdir(mode=0o700)
    (config.parent / "data" / "holdfast.db").write_bytes(b"not a database" * 100)
    finding = found(config, "store")
    assert finding.state == "fault"
    assert "integrity check failed at" in finding.text


def test_who_serves_the_directory_is_said_and_their_port_is_theirs(config: Path) -> None:
    folder = config.parent / "data"
    assert "not running" in found(config, "server").text
    with DirectoryLock(folder) as lock:
        lock.announce("http://127.0.0.1:8642")
        assert "http://127.0.0.1:8642" in found(config, "server").text
        _, holder = machine.serving(folder)
        settings = Settings(server=ServerSettings(port=8642, data_dir=str(folder)))
        assert "in use by this server" in machine.port(settings, holder).text
    assert "not running" in found(config, "server").text


def test_settings_that_changed_since_the_server_started_are_noted(config: Path) -> None:
    with DirectoryLock(config.parent / "data") as lock:
        announce(lock, "http://127.0.0.1:8642", load_configuration({"config": config}))
        assert not [
            one
            for one in examine({"config": config}, PlainReport(), ask=ask_nobody)
            if one.name == "settings"
        ]
        text = config.read_text()
        config.write_text(text.replace('model = "m"', 'model = "n"') + '[approvals]\nmode = "unattended"\n')
        finding = found(config, "settings")
        used = (config.parent / "data" / "settings-in-use.json").read_text()
    assert finding.text == "the running server uses different values for targets, approvals.mode"
    assert "restart" in finding.advice
    assert KEY not in used


def test_a_taken_port_is_a_fault(config: Path) -> None:
    with chaos_in_thread(ChaosServer()) as chaos:
        assert found(config, "port", port=chaos.port).state == "fault"


def test_a_directory_that_others_may_read_is_noted_with_the_command_that_helps(config: Path) -> None:
    folder = config.parent / "data"
    folder.mkdir()
    folder.chmod(0o755)
    finding = found(config, "data directory")
    assert (finding.state, "chmod -R go=" in finding.advice) == ("note", True)


@pytest.mark.parametrize("name", ["x" * 300, "a-file/below"])
def test_a_directory_that_cannot_even_be_looked_for_is_a_fault_and_all_else_is_checked(
    config: Path, name: str
) -> None:
    """P12: a line that says so, and no traceback."""
    (config.parent / "a-file").touch()
    flags = {"config": config, "data_dir": str(config.parent / name)}
    findings = {one.name: one for one in examine(flags, PlainReport(), ask=ask_nobody)}
    assert {"store", "spool", "saving", "disk room", "target main"} <= set(findings)
    assert findings["store"].text == "none yet"


async def test_a_spool_that_was_left_is_noted(config: Path) -> None:
    spool = Spool(config.parent / "data" / "spool")
    await spool.put("s", "r", [e.RunResumed(at_ms=1, run_id="r", after="crash")])
    finding = await asyncio.to_thread(found, config, "spool")
    assert (finding.state, finding.facts) == ("note", {"records": 1})
    assert finding.text.startswith("1 append waits in 1 file of ")


def test_a_clock_behind_the_store_or_before_this_program_is_a_fault() -> None:
    now_ms = 1_800_000_000_000
    assert machine.clock(now_ms, now_ms).state == "ok"
    assert machine.clock(now_ms + 3_600_000, now_ms).state == "fault"
    assert machine.clock(0, 0).state == "fault"


def test_missing_programs_are_said(config: Path) -> None:
    assert machine.ripgrep(path=str(config.parent)).state == "note"
    assert machine.daemons().state == "ok"
    assert "cannot be found after a crash" in machine.daemons("/nowhere/bash").text
    config.write_text(
        config.read_text() + '[[mcp_servers]]\nname = "x"\ncommand = ["no-such-program-here"]\n'
    )
    assert found(config, "MCP server x").state == "fault"


async def test_servers_at_a_url_are_tried_and_a_sign_in_is_named(config: Path) -> None:
    before = await asyncio.to_thread(config.read_text)
    async with locked(Locked()) as shut, serving(Web()) as open_to_all:
        table = '[[mcp_servers]]\nname = "{}"\nurl = "{}"\n'
        tables = [table.format("shut", shut.url), table.format("free", open_to_all.url)]
        tables.append(table.format("gone", "http://127.0.0.1:9/mcp"))
        await asyncio.to_thread(config.write_text, before + "".join(tables))
        settings = (await asyncio.to_thread(load_configuration, {"config": str(config)})).settings
        online = DoctorContext(settings, config.parent, SystemClock(), is_offline=False)
        findings = {finding.name: finding for finding in await check_servers(online)}
    assert (findings["MCP server free"].state, findings["MCP server free"].text) == (
        "ok",
        "connected; 1 tool",
    )
    assert findings["MCP server shut"].advice == "run `holdfast mcp-sign-in shut`"
    assert "no connection to http://127.0.0.1:9" in findings["MCP server gone"].text
    offline = DoctorContext(settings, config.parent, SystemClock(), is_offline=True)
    assert [one.state for one in await check_servers(offline)] == ["note"] * 3


def test_on_a_terminal_a_finding_has_a_mark_and_its_advice_below(capsys: pytest.CaptureFixture[str]) -> None:
    report = ColourReport()
    with report.busy("reading the store"):
        report.progress("reading the store: 5000 of 9000 events")
    report.write(fault("store", "broken [bold]", "restore a backup"))
    report.end([fault("store", "broken", "x"), note("spool", "1 waits", "y")])
    out = capsys.readouterr().out
    assert "✗ store  broken [bold]\n  → restore a backup\n" in out
    assert out.endswith("1 fault, 1 note. Each one includes a suggested fix.\n")
