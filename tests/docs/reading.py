"""The documents as tests read them: their blocks by language, and their links."""

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import ModuleType

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
DOCUMENTS = (
    ROOT / "README.md",
    *sorted(DOCS.rglob("*.md")),
    ROOT / "src" / "holdfast" / "chaos" / "README.md",
)

# The configuration beside which blocks are run; the reader of a document has one of his own.
CONFIG = """
[server]
port = 0
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
"""
# Pages with blocks that someone may copy, beside the documents.
PAGES = (
    *DOCUMENTS,
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests" / "README.md",
    ROOT / "tests" / "fakes" / "README.md",
)
_BLOCK = re.compile(r"^( *)(`{3,}|~{3,}) *(\w*)([^\n`]*)\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)
_NO_RUN = "no-run:"
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document; `no_run` is the reason after "no-run:" behind its language, if any."""

    language: str
    text: str
    no_run: str = ""


def all_blocks(document: Path) -> list[Block]:
    """Every block, also in a list, in order."""
    found = _BLOCK.findall(document.read_text("utf-8"))
    return [
        Block(language, dedent(text), mark.partition(_NO_RUN)[2].strip())
        for _, _, language, mark, text in found
    ]


def blocks(document: Path, language: str) -> list[str]:
    """The blocks of one language that can be run as they stand, in order."""
    return [one.text for one in all_blocks(document) if one.language == language and not one.no_run]


def links(document: Path) -> list[str]:
    """Where a document points to, but for other people's pages."""
    text = _BLOCK.sub("", document.read_text("utf-8"))
    return [link for link in _LINK.findall(text) if not link.startswith(("http://", "https://", "mailto:"))]


def anchors(document: Path) -> set[str]:
    """The places in a document that a link can name."""
    headings = re.findall(r"^#+ (.*)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def generator() -> ModuleType:
    """scripts/docs.py, which makes the references."""
    spec = importlib.util.spec_from_file_location("docs_generator", ROOT / "scripts" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
