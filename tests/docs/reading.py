"""The documents as tests read them: their blocks by language, and their links."""

import importlib.util
import re
from pathlib import Path
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
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def blocks(document: Path, language: str) -> list[str]:
    """The blocks of one language, in order."""
    return [text for name, text in _BLOCK.findall(document.read_text("utf-8")) if name == language]


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
