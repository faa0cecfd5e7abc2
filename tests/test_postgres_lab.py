"""The Postgres that tests start: each test has a database of its own, and nothing outlives the tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from postgres_lab import PostgresServer

# Starts a server, says where it is, and is then killed without a chance to clean up.
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from postgres_lab import own_server
server = own_server()
print(server.folder, (server.folder / "data" / "postmaster.pid").read_text().split()[0], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_test_has_a_database_of_its_own_that_survives_a_crash_of_the_server(
    postgres: PostgresServer, postgres_dsn: str
) -> None:
    if not postgres.ours:
        pytest.skip("this server is not ours to restart")
    other = postgres.database()
    postgres.sql("CREATE TABLE here (n int); INSERT INTO here VALUES (7)", dsn=postgres_dsn)
    postgres.restart("immediate")
    assert postgres.sql("SELECT n FROM here", dsn=postgres_dsn) == "7"
    assert postgres.sql("SELECT count(*) FROM pg_class WHERE relname = 'here'", dsn=other) == "0"
    copy = postgres.database(template=postgres_dsn.rpartition("/")[2])
    assert postgres.sql("SELECT n FROM here", dsn=copy) == "7"
    for made in (other, copy):
        postgres.drop(made)


def test_tests_that_are_killed_leave_no_server_behind(tmp_path: Path) -> None:
    tests = str(Path(__file__).parent)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, tests], capture_output=True, text=True, check=False
    )
    folder, pid = killed.stdout.split()
    ended = subprocess.run(["tail", "--pid", pid, "-s", "0.02", "-f", "/dev/null"], check=False, timeout=30)
    assert ended.returncode == 0
    assert not Path(f"/proc/{pid}").exists()
    Path(folder).rename(tmp_path / "left")
