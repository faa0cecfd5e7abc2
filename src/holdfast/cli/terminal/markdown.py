"""Markdown as it is set on a terminal: nothing of it is lost, links show their addresses."""

from collections.abc import Iterable
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement

CODE_THEME = "ansi_dark"


class LeftHeading(Heading):
    """A heading that begins where the text does."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text


class ChatMarkdown(Markdown):
    """What a model wrote; rich alone would drop what looks like HTML and move images to the front."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = Markdown.elements | {"heading_open": LeftHeading}

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False, code_theme=CODE_THEME)
        self.markup = text
        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        self.parsed = parser.parse(text)
        _images_as_text(self.parsed)


def _images_as_text(tokens: Iterable[Token]) -> None:
    for token in tokens:
        if token.type == "image":
            token.type, token.tag = "text", ""
            token.content = f"[image: {token.content}] ({token.attrs.get('src', '')})"
            token.children = None
        elif token.children:
            _images_as_text(token.children)
