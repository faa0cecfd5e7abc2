"""Markdown as it is set on a terminal: nothing of it is lost, links show their addresses."""

from collections.abc import Iterable
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import token as code
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.style import Style
from rich.syntax import ANSISyntaxTheme
from rich.theme import Theme

# Readable on dark and light backgrounds: no bright colors, no yellow, and no own background.
CODE_THEME = ANSISyntaxTheme(
    {
        code.Token: Style(),
        code.Comment: Style(dim=True),
        code.Keyword: Style(color="magenta"),
        code.Operator.Word: Style(color="magenta"),
        code.Name.Decorator: Style(color="magenta"),
        code.Name.Function: Style(bold=True),
        code.Name.Class: Style(bold=True),
        code.Name.Tag: Style(color="magenta"),
        code.Name.Attribute: Style(color="cyan"),
        code.String: Style(color="green"),
        code.Number: Style(color="cyan"),
        code.Generic.Deleted: Style(color="red"),
        code.Generic.Inserted: Style(color="green"),
        code.Generic.Heading: Style(bold=True),
        code.Generic.Subheading: Style(color="cyan"),
    }
)
TEXT_THEME = Theme(
    {"markdown.code": "cyan", "markdown.link": "bold", "markdown.link_url": "underline"}, inherit=True
)


class LeftHeading(Heading):
    """A heading that begins where the text does."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text


class ChatMarkdown(Markdown):
    """Renders a model's markdown; rich alone would drop HTML-like text and move images to the front."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = Markdown.elements | {"heading_open": LeftHeading}

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False, code_theme=CODE_THEME)  # pyright: ignore[reportArgumentType]  # rich takes a theme, too
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
