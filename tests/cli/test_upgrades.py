"""Data of every release: opened, checked and continued by this version. Newer data is refused."""

import asyncio
import json
import tarfile
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import asyncpg
import pytest

from cli.make_old_data import OLD_DATA, shown_by
from forked import fork
from holdfast.chaos import ChaosServer, Say
from holdfast.cli.stores.check import check
from holdfast.features.postgres.copy_command import copy_store
from runner.program import configure, program

RELEASES = sorted(path.name.removesuffix(".tar.xz") for path in OLD_DATA.glob("*.tar.xz"))


def unpack(release: str, folder: Path, model_url: str = "http://127.0.0.1:1/v1") -> Path:
    """The data directory of the release, below a configuration for it."""
    configure(folder, model_url, sandbox="off")
    with tarfile.open(OLD_DATA / f"{release}.tar.xz") as archive:
        archive.extractall(folder / "data", filter="data")
    return folder / "data"


async def command(folder: Path, *words: str) -> tuple[int, str]:
    process = await fork(*words, "--config", "holdfast.toml", cwd=folder)
    out, err = await process.communicate()
    return await process.wait(), (out + err).decode()


@pytest.mark.parametrize("release", RELEASES)
async def test_data_of_a_release_is_checked_opened_and_continued(release: str, tmp_path: Path) -> None:
    """P2: nothing that it has is lost or shown differently."""
    async with ChaosServer([Say("Third answer.")]) as chaos:
        await asyncio.to_thread(unpack, release, tmp_path, chaos.base_url)
        code, said = await command(tmp_path, "upgrade-check")
        assert (code, "fault" in said) == (0, False), said
        async with program(tmp_path) as server:
            expected = json.loads((OLD_DATA / f"{release}.json").read_text())
            assert json.loads(json.dumps(await shown_by(server))) == expected
            run_id = await server.start("go on", session_id="s-count")
            assert (await server.events(run_id))[-1].data["outcome"] == "completed"
            assert "Second answer." in str(chaos.seen.requests[0].body)
        code, said = await command(tmp_path, "store", "check")
        assert (code, said.startswith("ok    store: read and applied")) == (0, True), said


async def test_newer_data_is_refused_by_each_command_with_the_way_back(tmp_path: Path) -> None:
    """P12: a downgrade changes nothing."""
    data = await asyncio.to_thread(unpack, RELEASES[0], tmp_path)
    connection = apsw.Connection(str(data / "holdfast.db"))
    connection.pragma("user_version", 999)
    connection.close()
    before = (data / "holdfast.db").read_bytes()
    for words in (["serve"], ["store", "check"], ["upgrade-check"], ["runs", "list"]):
        code, said = await command(tmp_path, *words)
        assert code == 1
        assert "newer Holdfast" in said, (words, said)
    assert "restore a backup from before its first start" in (await command(tmp_path, "upgrade-check"))[1]
    assert (data / "holdfast.db").read_bytes() == before


def alter(database: Path, statement: str, *values: bytes | int) -> None:
    """Change events, which are in either of two tables."""
    connection = apsw.Connection(str(database))
    for table in ("events", "recent"):
        connection.execute(statement.format(table=table), values)
    connection.close()


async def test_store_check_finds_each_kind_of_fault_and_says_how_to_repair_it(tmp_path: Path) -> None:
    """P1: gaps, changed bytes, events that no fold accepts, and missing blobs."""
    data = await asyncio.to_thread(unpack, RELEASES[0], tmp_path)
    database = data / "holdfast.db"
    ended = b'{"type":"run.ended","at_ms":1,"run_id":"run_unknown","outcome":"completed"}'
    alter(database, "DELETE FROM {table} WHERE session = 1 AND seq = 5")
    alter(database, "UPDATE {table} SET body = ? WHERE session = 1 AND seq = 3", b"{}")
    alter(database, "UPDATE {table} SET body = ?, crc = ? WHERE session = 2 AND seq = 4", ended, crc32(ended))
    next(path for path in (data / "blobs").rglob("*") if path.is_file()).unlink()
    code, said = await command(tmp_path, "store", "check")
    assert code == 1
    for fault in ("seq 5 is missing before it", "not the one that was written", "can't be applied", "blob"):
        assert fault in said, said
    assert "How to repair the store" in said


def tamper(dsn: str, *statements: str) -> None:
    async def work() -> None:
        connect: Any = getattr(asyncpg, "connect")  # noqa: B009  # the library has few types
        connection = await connect(dsn)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(work())


def test_a_database_is_checked_in_the_same_way(
    new_postgres_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P1: after a copy of a release's data to it."""
    data = unpack(RELEASES[0], tmp_path)
    assert copy_store(str(data), new_postgres_dsn) == 0
    (tmp_path / "holdfast.toml").write_text(f'[server]\nstore = "{new_postgres_dsn}"\n')
    flags = {"config": str(tmp_path / "holdfast.toml")}
    assert check(flags) == 0
    assert "read and applied" in capsys.readouterr().out
    tamper(new_postgres_dsn, "DELETE FROM events WHERE session = 1 AND seq = 5")
    assert check(flags) == 1
    assert "seq 5 is missing before it" in capsys.readouterr().out
    tamper(new_postgres_dsn, "UPDATE events SET body = '{}' WHERE session = 2 AND seq = 3")
    assert check(flags) == 1
    assert "not the one that was written" in " ".join(capsys.readouterr().out.split())
