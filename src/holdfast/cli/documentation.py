"""`holdfast docs`: the documentation in the terminal."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from holdfast.cli.terminal.output import echo, echo_colored, echo_error, echo_exactly, is_drawable

OK, UNKNOWN = 0, 1
_PACKAGE = Path(__file__).parents[1]
# A wheel has the pages inside the package, and a checkout has them at its root.
FOLDERS = (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs")
_ROW = re.compile(r"^\| \[([^\]]+)\]\((\w[\w/.-]*)\.md\) \| (.+) \|$")
FOUND_MAX = 20


class DocsPage(Struct, frozen=True):
    """A page as the index lists it. Its topic is its file name without `.md`."""

    section: str
    topic: str
    title: str
    about: str


def show_docs(topic: str, folders: Sequence[Path] = FOLDERS) -> int:
    """Show the index, a page, or the pages that contain the words; the exit code."""
    folder = next((one for one in folders if (one / "README.md").is_file()), None)
    if folder is None:
        echo_error("holdfast: this installation has no documentation; reinstall the package")
        return UNKNOWN
    pages = list(listed(folder))
    if not topic:
        _show_index(pages)
        return OK
    name = topic.strip().lower().replace(" ", "-").removesuffix(".md")
    if page := _page_named(name, folder, pages):
        _show(page.read_text("utf-8"))
        return OK
    found = list(_containing(topic.lower(), folder, pages))
    if not found:
        echo_error(f"holdfast: no page is called or contains {topic!r}. For a list, run: holdfast docs")
        return UNKNOWN
    echo(f"No page is called {topic!r}. These contain it:\n")
    for where, line in found[:FOUND_MAX]:
        echo(f"{where}: {line}")
    return OK


def listed(folder: Path) -> Iterator[DocsPage]:
    """The pages in the order of the index, then those of the HTTP reference."""
    for index, into in (("README.md", ""), ("http.md", "HTTP API")):
        section = into
        for line in (folder / index).read_text("utf-8").splitlines():
            if line.startswith("## "):
                section = into or line[3:]
            elif (row := _ROW.match(line)) and (folder / f"{row[2]}.md").is_file():
                yield DocsPage(section, row[2], row[1], row[3])


def _show_index(pages: list[DocsPage]) -> None:
    width = max(len(page.topic) for page in pages)
    section = ""
    for page in pages:
        if page.section != section:
            section = page.section
            echo(f"\n{section}")
        echo(f"  {page.topic:{width}}  {page.about}")
    echo("\nTo read a page, run: holdfast docs TOPIC. Other words search all pages.")


def _page_named(name: str, folder: Path, pages: list[DocsPage]) -> Path | None:
    """The page with this topic, file name or title; a beginning is enough if only one page has it."""
    # A topic counts before a title, and a title before the file name of a page in a folder.
    keyed = [(page.topic, page) for page in pages]
    keyed += [(page.title, page) for page in pages]
    keyed += [(page.topic.rpartition("/")[2], page) for page in pages]
    known: dict[str, DocsPage] = {}
    for key, page in keyed:
        known.setdefault(key.lower().replace(" ", "-"), page)
    starting = {page.topic for word, page in known.items() if word.startswith(name)}
    found = known[name].topic if name in known else starting.pop() if len(starting) == 1 else ""
    return folder / f"{found}.md" if found else None


def _containing(words: str, folder: Path, pages: Sequence[DocsPage]) -> Iterator[tuple[str, str]]:
    for page in pages:
        for line in (folder / f"{page.topic}.md").read_text("utf-8").splitlines():
            if words in line.lower():
                yield page.topic, line.strip()
                break


def _show(text: str) -> None:
    text = re.sub(r"^<!--.*?-->\n\n?", "", text, flags=re.MULTILINE)
    if not is_drawable(sys.stdout):
        echo_exactly(text, sys.stdout)
        return
    from holdfast.cli.terminal.blocks import Block
    from holdfast.cli.terminal.style import Style

    style = Style()
    for section in re.split(r"\n(?=##? )", text):  # one at a time: a long text isn't rendered as Markdown
        echo_colored(style.block(Block(section)) + "\n")
