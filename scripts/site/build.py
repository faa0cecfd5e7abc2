"""Builds the documentation site from docs/: `python scripts/site/build.py FOLDER`.

The index, docs/README.md, is also the navigation and llms.txt. Pages are plain files that need no server and
no network: links work from a folder on disk, the search index is a script, and fonts are the reader's.
Fails if a link leads nowhere.
"""

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from string import Template

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_by_name
from pygments.util import ClassNotFound

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ASSETS = Path(__file__).parent
LISTED = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \| (.+) \|$")
ABOUT = "Runs AI agents that don't get lost: an agent runtime, a run server and a web chat in one program."


class BrokenLinks(Exception):
    """Links that lead nowhere, one per line."""


@dataclass(frozen=True)
class Entry:
    """A line of the index."""

    section: str
    title: str
    link: str
    about: str


def entries(index: str, *, section: str = "") -> list[Entry]:
    """The lines of an index, with the headings that they are under unless all are in one section."""
    found: list[Entry] = []
    heading = section
    for line in index.splitlines():
        if line.startswith("## "):
            heading = section or line[3:]
        elif row := LISTED.match(line):
            found.append(Entry(heading, row[1], row[2], row[3]))
    return found


class Site:
    """The pages of a folder, and how they refer to each other."""

    def __init__(self, docs: Path, source: str) -> None:
        self._docs = docs
        self._source = source  # where files that are no pages can be seen
        self._markdown = MarkdownIt("commonmark", {"highlight": _highlighted}).enable(
            ["table", "strikethrough"]
        )
        self.pages = {
            path.relative_to(docs).as_posix(): path.read_text("utf-8") for path in docs.rglob("*.md")
        }
        self.index = entries(self.pages["README.md"])
        self.reference = entries(self.pages["http.md"], section="HTTP API")
        self.broken: list[str] = []
        self._parsed = {name: self._markdown.parse(text) for name, text in self.pages.items()}
        self._anchors = {name: set(_headings(tokens)) for name, tokens in self._parsed.items()}

    def html(self, name: str) -> str:
        """The content of a page, with anchors at its headings and links to the other pages."""
        tokens = self._parsed[name]
        anchors = iter(_headings(tokens))
        for token in tokens:
            if token.type == "heading_open":
                token.attrSet("id", next(anchors))
            for child in token.children or ():
                for attribute in ("href", "src"):
                    if link := child.attrGet(attribute):
                        child.attrSet(attribute, self.address(name, str(link)))
        html = self._markdown.renderer.render(tokens, self._markdown.options, {})
        return html.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")

    def address(self, page: str, link: str) -> str:
        """Where a link of a page leads on the site; notes it if it leads nowhere."""
        if re.match(r"[a-z]+:", link):
            return link
        path, _, anchor = link.partition("#")
        target = normpath((PurePosixPath(page).parent / path).as_posix()) if path else page
        if target in self.pages:
            if anchor and anchor not in self._anchors[target]:
                self.broken.append(f"docs/{page}: {link}")
            return (_html(page, target) if path else "") + (f"#{anchor}" if anchor else "")
        if not (self._docs / target).exists():
            self.broken.append(f"docs/{page}: {link}")
        if target.startswith("../"):
            return f"{self._source}/{target.removeprefix('../')}"
        return link

    def title(self, name: str) -> str:
        """The text of the first heading."""
        heading = next(line for line in self.pages[name].splitlines() if line.startswith("# "))
        return heading.removeprefix("# ").replace("`", "")

    def navigation(self, page: str) -> str:
        """The index as a list of links; the one to this page is marked."""
        lines: list[str] = []
        section = ""
        for entry in [*self.index, *(self.reference if page.startswith("http") else [])]:
            if entry.section != section:
                lines += ["</ul>"] * bool(section) + [f"<h2>{escape(entry.section)}</h2>", "<ul>"]
                section = entry.section
            target = normpath(entry.link)
            mark = ' aria-current="page"' if target == page else ""
            href = self.address("README.md", entry.link)
            href = href if "://" in href else relpath(href, str(PurePosixPath(page).parent))
            lines.append(f'<li><a href="{escape(href)}"{mark}>{escape(entry.title)}</a></li>')
        return "\n".join([*lines, "</ul>"])

    def searchable(self) -> Iterator[Mapping[str, str]]:
        """Each section of each page, for the search: where it is, its headings and its text."""
        for name, tokens in self._parsed.items():
            title = self.title(name)
            anchors = iter(_headings(tokens))
            place, heading, text = _html("README.md", name), title, list[str]()
            for at, token in enumerate(tokens):
                if token.type == "heading_open":
                    if text:
                        yield {"u": place, "p": title, "h": heading, "t": " ".join(text)}
                    place = f"{_html('README.md', name)}#{next(anchors)}"
                    heading, text = _text(tokens[at + 1]), []
                elif token.type in {"inline", "fence"} and tokens[at - 1].type != "heading_open":
                    text.append(_text(token))
            yield {"u": place, "p": title, "h": heading, "t": " ".join(text)}

    def llms(self) -> str:
        """The index for language models (llmstxt.org): each page as Markdown, with a sentence."""
        lines = ["# Holdfast", "", f"> {ABOUT}", ""]
        section = ""
        for entry in [*self.index, *self.reference]:
            target = normpath(entry.link)
            if target not in self.pages:
                continue
            if entry.section != section:
                section = entry.section
                lines += ["", f"## {section}", ""] if lines[-1] else [f"## {section}", ""]
            lines.append(f"- [{entry.title}]({target}): {entry.about}")
        return "\n".join(lines) + "\n"

    def llms_full(self) -> str:
        """All listed pages in one text, each under its own address."""
        names = [normpath(entry.link) for entry in [*self.index, *self.reference]]
        texts = [f"<!-- {name} -->\n\n{self.pages[name].strip()}\n" for name in names if name in self.pages]
        return "\n".join([f"# Holdfast\n\n> {ABOUT}\n", *texts])


def _html(page: str, target: str) -> str:
    """The address of a page's file, seen from another page."""
    target = "index.html" if target == "README.md" else f"{target.removesuffix('.md')}.html"
    return relpath(target, str(PurePosixPath(page).parent))


def _text(token: Token) -> str:
    if token.type == "fence":
        return token.content
    return "".join(child.content or " " for child in token.children or () if child.type != "html_inline")


def _headings(tokens: Sequence[Token]) -> Iterator[str]:
    """The anchor of each heading, as GitHub makes it."""
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            yield re.sub(r"[^\w -]", "", tokens[at + 1].content.lower()).replace(" ", "-")


def _highlighted(code: str, language: str, _: str) -> str:
    try:
        lexer = get_lexer_by_name(language or "text")
    except ClassNotFound:
        lexer = TextLexer()
    return highlight(code, lexer, HtmlFormatter(nowrap=True))


def build(into: Path, docs: Path = DOCS) -> int:
    """Write the site into a folder; the number of pages. Raises BrokenLinks, and then writes nothing."""
    source = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]
    site = Site(docs, f"{source}/blob/main")
    template = Template((ASSETS / "page.html").read_text("utf-8"))
    made: dict[str, str] = {}
    for name in site.pages:
        place = _html("README.md", name)
        made[place] = template.substitute(
            title=escape(site.title(name)),
            root="../" * place.count("/"),
            navigation=site.navigation(name),
            content=site.html(name),
            markdown=escape(PurePosixPath(name).name),
        )
        made[name] = site.pages[name]
    if site.broken:
        raise BrokenLinks("\n".join(dict.fromkeys(site.broken)))
    made["search-index.js"] = f"window.PAGES = {json.dumps(list(site.searchable()), ensure_ascii=False)};\n"
    made |= {"llms.txt": site.llms(), "llms-full.txt": site.llms_full()}
    light, dark = (HtmlFormatter(style=style).get_style_defs("pre") for style in ("default", "github-dark"))
    made["site.css"] = Template((ASSETS / "site.css").read_text("utf-8")).substitute(light=light, dark=dark)
    made["site.js"] = (ASSETS / "site.js").read_text("utf-8")
    shutil.rmtree(into, ignore_errors=True)
    for name, text in made.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_text(text, encoding="utf-8")
    for path in docs.rglob("*"):
        if path.is_file() and path.suffix != ".md":
            (into / path.relative_to(docs)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, into / path.relative_to(docs))
    return len(site.pages)


if __name__ == "__main__":
    try:
        count = build(Path(sys.argv[1]))
    except BrokenLinks as error:
        sys.exit(f"These links lead nowhere:\n{error}")
    print(f"{count} pages: {sys.argv[1]}/index.html")
