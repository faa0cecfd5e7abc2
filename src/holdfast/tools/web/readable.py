"""Converts HTML to text for a model: headings, paragraphs, lists and links; no scripts, no styles."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SILENT = frozenset(
    ["script", "style", "noscript", "template", "svg", "math", "iframe", "object", "head", "canvas"]
)
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
_BLOCKS = frozenset(
    [
        "p",
        "div",
        "section",
        "article",
        "header",
        "footer",
        "main",
        "aside",
        "nav",
        "ul",
        "ol",
        "li",
        "table",
        "tr",
        "form",
        "blockquote",
        "pre",
        "figure",
        "dl",
        "dt",
        "dd",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "br",
        "details",
        "summary",
        "fieldset",
    ]
)
_LINK_CHARS_MAX = 1_000


def readable(html: str, base_url: str) -> str:
    """The text of a page. Can take long on a hostile page: call it where it can be killed."""
    page = _Page(base_url)
    page.feed(html)
    page.close()
    return page.text()


class _Page(HTMLParser):
    def __init__(self, base_url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base_url = base_url
        self._pieces: list[str] = []
        self._silent = 0
        self._preformatted = 0
        self._links: list[str] = []
        self._in_title = False
        self._title = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = True
        elif tag in _SILENT:
            self._silent += 1
        elif tag == "body":
            self._silent = 0  # a head that was never closed ends here
        elif tag == "a":
            self._links.append(dict(attrs).get("href") or "")
        elif tag == "img":
            self._say(f"[image: {alt}]" if (alt := dict(attrs).get("alt")) else "")
        elif tag in _BLOCKS:
            self._open_block(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag == "a" and self._links:
            self._close_link(self._links.pop())
        elif tag in _BLOCKS and tag not in _VOID:
            self._preformatted = max(0, self._preformatted - (tag == "pre"))
            self._say("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._title += data
        else:
            self._say(data if self._preformatted else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        body = re.sub(r"[ \t]*\n[ \t]*(?:\n[ \t]*)+", "\n\n", "".join(self._pieces))
        body = "\n".join(line.rstrip() for line in body.split("\n")).strip()
        title = " ".join(self._title.split())
        return f"{title}\n\n{body}".strip()

    def _open_block(self, tag: str) -> None:
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdecimal():  # noqa: PLR2004 - h1 to h6
            self._say(f"\n\n{'#' * int(tag[1])} ")
        elif tag == "li":
            self._say("\n- ")
        else:
            self._preformatted += tag == "pre"
            self._say("\n")

    def _close_link(self, target: str) -> None:
        if target and not target.startswith(("#", "javascript:", "data:")) and len(target) <= _LINK_CHARS_MAX:
            try:
                self._say(f" <{urljoin(self._base_url, target)}>")
            except ValueError:
                return  # not a URL; its text is already there

    def _say(self, text: str) -> None:
        if not self._silent:
            self._pieces.append(text)
