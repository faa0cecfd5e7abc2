"""Listing and searching: bounded, killable, and inside the workspace."""

import asyncio
import os
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from fakes.cancel import CancelAt
from holdfast.interfaces.tool import ToolResult
from holdfast.tools.files.globs import glob_fits
from holdfast.tools.files.listing import ENTRIES_MAX, ListFiles
from holdfast.tools.files.search import MATCHES_MAX, SearchFiles
from holdfast.tools.files.workspace import Workspace
from tools.calls import ENVIRONMENT, Call, descriptors, until
from tools.loops import ON_BOTH_LOOPS

pytestmark = pytest.mark.long

RIPGREP = shutil.which("rg")


@pytest.fixture(params=["ripgrep", "python"])
def ripgrep(request: pytest.FixtureRequest) -> str | None:
    if request.param == "ripgrep" and not RIPGREP:
        pytest.skip("there is no ripgrep here")
    return RIPGREP if request.param == "ripgrep" else None


@pytest.fixture
def search(ripgrep: str | None) -> SearchFiles:
    return SearchFiles(ENVIRONMENT, ripgrep=ripgrep)


@pytest.fixture
def tree(call: Call, tmp_path: Path) -> Path:
    root = call.workspace
    for path, text in {
        "a.py": "def find():\n    return 'needle (1)'\n",
        "src/b.py": "NEEDLE\n",
        "src/deep/c.txt": "a needle\r\n",
        ".git/config": "needle\n",
        "binary": "needle\0\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, newline="")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("needle outside")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "link to file").symlink_to(tmp_path / "outside" / "secret")
    os.mkfifo(root / "fifo")
    return root


@pytest.mark.usefixtures("tree")
async def test_text_is_found(search: SearchFiles, call: Call) -> None:
    rows: list[tuple[dict[str, object], str]] = [
        ({"pattern": "needle"}, "a.py:2:    return 'needle (1)'\nsrc/deep/c.txt:1:a needle"),
        ({"pattern": "NEEDLE"}, "src/b.py:1:NEEDLE"),
        (
            {"pattern": "needle", "ignore_case": True, "path": "src"},
            "src/b.py:1:NEEDLE\nsrc/deep/c.txt:1:a needle",
        ),
        ({"pattern": "needle (1)", "literal": True}, "a.py:2:    return 'needle (1)'"),
        ({"pattern": "n.*e$", "glob": "*.txt"}, "src/deep/c.txt:1:a needle"),
        ({"pattern": "needle", "glob": "src/**/*.txt"}, "src/deep/c.txt:1:a needle"),
        ({"pattern": "-x"}, "No matches."),
    ]
    for args, text in rows:
        result = await search.run(args, call)
        assert result.ok, args
        assert result.text.replace("\r", "") == text, args


WITHOUT_SECRETS: list[tuple[dict[str, object], list[str]]] = [
    ({}, ["a.py", "lib/credentials/x"]),
    ({"glob": ".env"}, []),
    ({"glob": "[Cc]redentials"}, []),
    ({"glob": "[^]]redential{s,}}"}, []),
    ({"glob": "src[!x]credentials"}, []),
    ({"glob": "Credentials "}, []),
    ({"glob": "#"}, []),
    ({"glob": "lib/**/x"}, ["lib/credentials/x"]),
    ({"glob": "**/*"}, ["a.py", "lib/credentials/x"]),
    ({"glob": "data {1}/**"}, []),
    ({"path": ".config"}, []),
    # Who is allowed to search where secrets are kept finds them, but for keys.
    ({"path": ".ssh"}, [".ssh/known"]),
]


async def test_secrets_and_what_is_holdfasts_own_are_not_found_by_searching(
    ripgrep: str | None, call: Call
) -> None:
    names = ".env .env.local A.PEM .ssh/known .ssh/id_rsa src/.Netrc .config/gh/hosts.yml a.py own.toml"
    names += " Credentials src/credentials"
    for name in (*names.split(), "data {1}/x", "data {1}/deep/y", "lib/credentials/x"):
        path = call.workspace / name
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(path.write_text, "needle")
    own = (str(call.workspace / "data {1}"), str(call.workspace / "own.toml"))
    search = SearchFiles(ENVIRONMENT, ripgrep=ripgrep, workspaces=partial(Workspace, kept_out=own))
    for args, files in WITHOUT_SECRETS:
        found = await search.run({"pattern": "needle", **args}, call)
        assert found == ToolResult("\n".join(f"{name}:1:needle" for name in files) or "No matches."), args


async def test_examples_of_secret_files_are_found_and_backups_are_not(
    search: SearchFiles, call: Call
) -> None:
    """P11: what is left out is what holds secrets, name by name."""
    shown = [".env.example", ".env.local.sample", "certs/cacert.pem", "example.env", "id_rsa.pub"]
    kept = [
        ".env.production",
        ".env~",
        ".env.bak",
        "prod.env",
        "certs/x.pem",
        "terraform.tfstate",
        "id_rsa.old",
    ]
    for name in (*shown, *kept, "odd:1:x.txt"):
        path = call.workspace / name
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(path.write_text, "needle\n")
    found = (await search.run({"pattern": "needle"}, call)).text.splitlines()
    assert sorted(found) == sorted(f"{name}:1:needle" for name in (*shown, "odd:1:x.txt"))


@pytest.mark.skipif(not RIPGREP, reason="there is no ripgrep here")
async def test_a_folder_that_git_ignores_is_not_searched_for_the_sake_of_its_name(call: Call) -> None:
    for name in ("a.json", "credentials/b.json", "lib/credentials/c.json", ".git/x"):
        path = call.workspace / name
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(path.write_text, "needle")
    (call.workspace / ".gitignore").write_text("/credentials/\n")
    search = SearchFiles(ENVIRONMENT, ripgrep=RIPGREP)
    for args in ({}, {"glob": "*.json"}):
        found = await search.run({"pattern": "needle", **args}, call)
        assert found == ToolResult("a.json:1:needle\nlib/credentials/c.json:1:needle")


@pytest.mark.usefixtures("tree")
async def test_what_cannot_be_searched_says_why(search: SearchFiles, call: Call) -> None:
    for args in ({"pattern": "("}, {"pattern": "a\0"}, {"pattern": "x", "path": "link"}):
        result = await search.run(args, call)
        assert not result.ok, args
        assert result.text, args


async def test_matches_are_bounded(search: SearchFiles, call: Call) -> None:
    for number in range(20):
        (call.workspace / f"{number}").write_text("match\n" * 1000)
    lines = (await search.run({"pattern": "match"}, call)).text.splitlines()
    assert len(lines) == MATCHES_MAX + 1
    assert lines[-1] == "[there are more matches; narrow the search]"


@ON_BOTH_LOOPS
async def test_a_pattern_that_takes_for_ever_is_killed_by_a_stop(call: Call) -> None:
    (call.workspace / "file").write_text("a" * 60 + "b\n")
    search = SearchFiles(ENVIRONMENT, ripgrep=None)
    running = asyncio.create_task(search.run({"pattern": "(a+)+$"}, call))
    while not await call.left():  # noqa: ASYNC110 - /proc rings no bell
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await call.left() == []


async def test_modules_that_lie_in_the_workspace_are_not_run(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = "from pathlib import Path\nPath('run').touch()\n"
    for name in ("fnmatch.py", "stat.py", "msgspec.py", "holdfast.py", "sitecustomize.py"):
        (call.workspace / name).write_text(trap)
    monkeypatch.setattr(sys, "path", [str(call.workspace), *sys.path])
    result = await SearchFiles(ENVIRONMENT, ripgrep=None).run({"pattern": "touch", "glob": "stat.py"}, call)
    assert result == ToolResult("stat.py:2:Path('run').touch()")
    assert not (call.workspace / "run").exists()


@ON_BOTH_LOOPS
async def test_cancelled_at_any_await_nothing_is_left(search: SearchFiles, call: Call) -> None:
    (call.workspace / "file").write_text("match\n")
    await search.run({"pattern": "match"}, call)
    before = await asyncio.to_thread(descriptors)
    nth = 0
    while True:
        nth += 1
        attempt = CancelAt(search.run({"pattern": "match"}, call), nth)
        task = await attempt.in_own_task()
        assert await call.left() == []
        await until(lambda: descriptors() <= before)
        if not attempt.reached:
            assert task.result() == ToolResult("file:1:match")
            break
    assert nth > 2


async def listed(call: Call, **args: object) -> list[str]:
    result = await ListFiles().run(args, call)
    assert result.ok
    return result.text.splitlines()


@pytest.mark.usefixtures("tree")
async def test_files_are_listed(call: Call) -> None:
    top = [".git/", "a.py", "binary", "fifo", "link@", "link to file@", "src/"]
    assert await listed(call, depth=1) == top
    assert await listed(call) == [*top, "src/b.py", "src/deep/", "src/deep/c.txt"]
    assert await listed(call, path="src/deep") == ["src/deep/c.txt"]
    assert await listed(call, glob="*.py") == ["a.py", "src/b.py"]
    assert await listed(call, glob="none") == ["(nothing)"]
    for outside in ("..", "link", "/", "a.py", "nowhere"):
        assert not (await ListFiles().run({"path": outside}, call)).ok
    keeps_out = ListFiles(workspaces=partial(Workspace, kept_out=(str(call.workspace / "src/deep"),)))
    assert (await keeps_out.run({"path": "src"}, call)).text.splitlines() == ["src/b.py", "src/deep/"]


async def test_ignored_files_are_neither_listed_nor_searched(search: SearchFiles, call: Call) -> None:
    """Without a repository, too; but a folder that is named is listed."""
    for name in ("a.py", "a.log", "build/b.py", "src/c.py", "src/c.tmp", "src/keep.log", "other/c.tmp"):
        path = call.workspace / name
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(path.write_text, "needle\n")
    (call.workspace / ".gitignore").write_text("*.log\n/build/\n")
    (call.workspace / "src/.gitignore").write_text("*.tmp\n!keep.log\n")
    shown = ["a.py", "other/c.tmp", "src/c.py", "src/keep.log"]
    found = (await search.run({"pattern": "needle"}, call)).text.splitlines()
    assert sorted(found) == [f"{name}:1:needle" for name in shown]
    names = [name for name in await listed(call) if not name.endswith(("/", ".gitignore"))]
    assert sorted(names) == shown
    assert await listed(call, path="src") == ["src/.gitignore", "src/c.py", "src/keep.log"]
    assert await listed(call, path="build") == ["build/b.py"]


async def test_a_name_is_one_line_of_a_listing_whatever_it_holds(call: Call) -> None:
    (call.workspace / "a\nREADME.md").touch()
    (call.workspace / "b\x1b[2J\u202e").touch()
    (call.workspace / os.fsdecode(b"c\xff")).touch()
    result = await ListFiles().run({}, call)
    assert result.text.splitlines() == ["a\\nREADME.md", "b\\x1b[2J\\u202e", "c\\udcff"]


async def test_a_listing_is_bounded(call: Call) -> None:
    for number in range(ENTRIES_MAX + 10):
        (call.workspace / f"{number}").touch()
    lines = await listed(call)
    assert len(lines) == ENTRIES_MAX + 1
    assert lines[-1] == "[only the first 1,000 are shown; narrow the listing]"


def test_a_glob_fits_a_path() -> None:
    rows = [
        ("*.py", "a/b/c.py", True),
        ("*.py", "c.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/x/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("**/x/**", "a/x/b/c", True),
        ("./a/?[bc]", "a/xb", True),
        ("/a", "a", True),
        ("/a", "x/a", False),
        ("a/**", "b/c", False),
        ("*a*a*a*a*a*a*a*a*a*a*b", "a" * 200, False),
        ("/".join(["**"] * 50) + "/b", "/".join("a" * 100), False),
    ]
    assert [(glob, path, glob_fits(glob, path)) for glob, path, _ in rows] == rows
