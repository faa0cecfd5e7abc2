"""Wheel and sdist, built as a publisher would, and the wheel installed where nothing of this tree is."""

import asyncio
import hashlib
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from holdfast import __version__
from holdfast.cli.demo.server import clean_environment

pytestmark = pytest.mark.release

ROOT = Path(__file__).parent.parent.parent
DIALOGS = ("automations", "channels", "memory", "nodes", "skills", "targets", "usage")
DATA = (
    "holdfast/py.typed",
    "holdfast/config/known_targets.toml",
    "holdfast/docs/README.md",
    "holdfast/docs/http/runs.md",
    "holdfast/features/hermes_import/providers.toml",
    "holdfast/journal/sqlite/sql/queries.sql",
    "holdfast/models/silent_rejects.toml",
    "holdfast/web/index.html",
)


INFO = f"holdfast-{__version__}.dist-info"


@dataclass(frozen=True)
class Built:
    """The two files, and the wheel that the sdist alone gives, without Node."""

    wheel: Path
    sdist: Path
    wheel_of_sdist: Path


def _run(*command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _build(source: Path, folder: Path, *kinds: str) -> None:
    wanted = [word for kind in kinds for word in ("-t", kind)]
    _run(sys.executable, "-m", "hatchling", "build", *wanted, "-d", str(folder), cwd=source)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("dist")
    _build(ROOT, folder, "sdist", "wheel")
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    unpacked = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "-xzf", sdist, "-C", unpacked], check=True)
    again = tmp_path_factory.mktemp("again")
    (source,) = unpacked.iterdir()
    _build(source, again, "wheel")
    return Built(wheel, sdist, next(again.glob("*.whl")))


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel; what it depends on is borrowed from this one."""
    place = tmp_path_factory.mktemp("clean") / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", str(place))
    python = place / "bin" / "python"
    uv = ROOT / ".uv" / "bin" / "uv"
    command = str(uv) if uv.exists() else shutil.which("uv")
    assert command, "uv is needed: run scripts/setup"
    _run(
        command,
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--python",
        str(python),
        str(built.wheel),
    )
    own = Path(_run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return place / "bin"


@pytest.fixture
def serving(installed: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a server that was started from the installed wheel."""
    environ = {**clean_environment(), "HOME": str(tmp_path)}
    process = subprocess.Popen(
        [str(installed / "holdfast"), "serve", "--port", "0"],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        greeting = process.stdout.readline()
        yield next((word for word in greeting.split() if word.startswith("http://")), "")
    finally:
        process.terminate()
        process.communicate()


def _names(wheel: Path) -> Sequence[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_holds_the_program_and_the_page_and_the_sdist_alone_gives_the_same(built: Built) -> None:
    names = _names(built.wheel)
    assert [name for name in DATA if name not in names] == []
    scripts = [name for name in names if name.startswith("holdfast/web/assets/") and name.endswith(".js")]
    kinds = {Path(name).name.partition("-")[0] for name in scripts}
    first, apart = (
        {"first", "main", "chunk"},
        {"panels", "panel", "parts_later"} | {f"{name}_dialog" for name in DIALOGS},
    )
    assert kinds == first | apart | {"highlight", "maths_layout", "diagram", "draw"}
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"holdfast", f"holdfast-{__version__}.dist-info"}
    assert [name for name in names if name.endswith((".ts", ".tsx", ".map")) or "node_modules" in name] == []
    with tarfile.open(built.sdist) as archive:
        inside = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert not inside & {"frontend", "tests", "bench"}
    assert sorted(_names(built.wheel_of_sdist)) == sorted(names)


def _read(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name).decode()


@pytest.fixture(scope="module")
def metadata(built: Built) -> Message:
    return Parser().parsestr(_read(built.wheel, f"{INFO}/METADATA"))


@pytest.fixture(scope="module")
def components(built: Built) -> list[dict[str, Any]]:
    """Other people's packages in the page, as the wheel's bill of materials lists them."""
    return json.loads(_read(built.wheel, f"{INFO}/sboms/page.cdx.json"))["components"]


def test_two_builds_give_the_same_bytes(built: Built, tmp_path: Path) -> None:
    _build(ROOT, tmp_path, "sdist", "wheel")

    def digests(files: Sequence[Path]) -> list[str]:
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]

    again = [tmp_path / built.wheel.name, tmp_path / built.sdist.name]
    assert digests(again) == digests([built.wheel, built.sdist])
    assert digests([built.wheel_of_sdist]) == digests([built.wheel])


def test_the_wheel_has_a_license_text_for_every_package_in_it(
    built: Built, metadata: Message, components: list[dict[str, Any]]
) -> None:
    names = {one["name"] for one in components}
    # Some that are certainly in the page; the last two exist only inside bundles of others.
    assert names >= {"preact", "@preact/signals", "katex", "katex-fonts", "mermaid", "dompurify"}
    assert names >= {"langium", "vscode-uri"}
    folder = f"{INFO}/licenses/"
    texts = {name.removeprefix(folder) for name in _names(built.wheel) if name.startswith(folder)}
    assert texts == set(metadata.get_all("License-File") or [])
    expected = {
        f"third-party/licenses/{one['name'].replace('@', '').replace('/', '-')}"
        + (f"-{one['version']}.txt" if "version" in one else ".txt")
        for one in components
    }
    assert texts == expected | {"LICENSE"}
    empty = [name for name in texts if "copyright" not in _read(built.wheel, folder + name).lower()]
    # The text of Apache-2.0 names no owner.
    assert [name for name in empty if "Apache License" not in _read(built.wheel, folder + name)] == []
    assert "SIL OPEN FONT LICENSE" in _read(
        built.wheel, folder + next(name for name in texts if "katex-fonts" in name)
    )


def test_the_license_of_the_wheel_covers_every_package_in_it(
    built: Built, metadata: Message, components: list[dict[str, Any]]
) -> None:
    covered = set(str(metadata["License-Expression"]).split(" AND "))
    chosen = {"(MPL-2.0 OR Apache-2.0)": "Apache-2.0"}
    licenses = [one["licenses"][0] for one in components]
    found = {one["license"]["id"] if "license" in one else chosen[one["expression"]] for one in licenses}
    assert covered == found | {"Apache-2.0"}
    diagram = next(name for name in _names(built.wheel) if re.search(r"assets/diagram-\w+\.js$", name))
    assert "org.eclipse.elk" not in _read(built.wheel, diagram)  # EPL or GPL


def test_an_index_page_shows_the_description_with_links_that_work_there(metadata: Message) -> None:
    description = str(metadata.get_payload())
    targets = re.findall(r"\]\(([^)\s]+)", description)
    assert targets
    assert [one for one in targets if not one.startswith(("https://", "#"))] == []
    images = re.findall(r"!\[[^\]]*\]\(([^)\s]+)", description)
    assert [one for one in images if "/raw/" not in one] == []
    own = [one.partition(f"/v{__version__}/")[2] for one in targets if f"/v{__version__}/" in one]
    assert [one for one in own if not (ROOT / one.partition("#")[0]).exists()] == []
    assert {"Homepage", "Source"} <= {
        line.partition(",")[0] for line in metadata.get_all("Project-URL") or []
    }


async def test_the_installed_program_says_its_version_and_serves_the_page(
    installed: Path, serving: str, tmp_path: Path
) -> None:
    def get(path: str) -> bytes:
        with urllib.request.urlopen(f"{serving}{path}") as answer:  # noqa: S310  # our own server
            return answer.read()

    async def said(*command: str) -> str:
        return (await asyncio.to_thread(_run, *command, cwd=tmp_path)).strip()

    expected = f"holdfast {__version__}"
    assert await said(str(installed / "holdfast"), "--version") == expected
    assert await said(str(installed / "python"), "-m", "holdfast", "--version") == expected
    where = await said(str(installed / "python"), "-c", "import holdfast; print(holdfast.__file__)")
    assert where.startswith(str(installed.parent))
    assert b"<script" in await asyncio.to_thread(get, "/")
    assert b"ok" in await asyncio.to_thread(get, "/health")
