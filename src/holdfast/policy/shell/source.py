"""The source text of a script, and which parts of it the parser's tree explains."""

import re
import unicodedata
from itertools import pairwise

from tree_sitter import Node

from holdfast.policy.shell.words import BLANKS

_NEIGHBOURS = frozenset(b" \t\n;|&<>()")


# Bounded, so that a text of nothing else takes no longer than any other.
_NEGATIONS = re.compile(
    r"(?<![^\s;&|(){}])(?:(?:!|time(?:\s{1,8}-p)?)\s{1,8}){1,4}"
    r"(?=(?:if|while|until|for|case|select|function)\s|[{(]|[^\s;&|(){}]{1,64}\s{0,8}\()"
)


def without_negations(text: str) -> str:
    """The text without `!` and `time` before compound commands and definitions, which change nothing else."""
    return _NEGATIONS.sub(" ", text)


def unprintable(text: str) -> str | None:
    """A finding for the first character that hides, joins or reverses what a person sees."""
    for char in text:
        category = unicodedata.category(char)
        # Unassigned and private characters are only shapes without a picture.
        if char not in BLANKS and category[0] in "CZ" and category not in {"Cn", "Co"}:
            return f"It contains the character U+{ord(char):04X}, which can hide what the command does."
    return None


class ShellText:
    """The bytes of a script; notes every node that was read, so that the rest can be found."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._spans: list[tuple[int, int]] = []

    def raw(self, node: Node) -> str:
        """The node's part of the text."""
        # A node of the parser's may end within a character that was written in another way for it.
        return self.text[node.start_byte : node.end_byte].decode(errors="replace")

    def explain(self, node: Node) -> None:
        """Note that this part is explained."""
        self._spans.append((node.start_byte, node.end_byte))

    def is_token(self, node: Node) -> bool:
        """Whether an operator, a keyword or a descriptor number in the text is what the tree says."""
        raw = self.raw(node)
        if node.type == "file_descriptor":
            return raw.isdigit() and self.stands_alone(node)
        return raw.strip() == node.type.strip() and (not raw.isalpha() or self.stands_alone(node))

    def stands_alone(self, node: Node) -> bool:
        """Whether a shell, too, would begin and end a word where the node does."""
        before, after = node.start_byte, node.end_byte
        while self.text[max(before - 2, 0) : before] == b"\\\n":
            before -= 2
        while self.text[after : after + 2] == b"\\\n":
            after += 2
        begins = before == 0 or self.text[before - 1] in _NEIGHBOURS
        ends = after == len(self.text) or self.text[after] in _NEIGHBOURS
        # Digits before an arrow are no word but the number of a descriptor.
        number = self.raw(node).isdigit() and node.type != "file_descriptor"
        return begins and ends and not (number and self.text[after : after + 1] in {b"<", b">"})

    def is_comment(self, node: Node) -> bool:
        """Whether a comment begins where a shell would begin one, and ends with its line."""
        begins = node.start_byte == 0 or self.text[node.start_byte - 1] in _NEIGHBOURS
        return begins and self.text[node.end_byte : node.end_byte + 1] in {b"", b"\n"}

    def on_one_line(self, nodes: list[Node]) -> bool:
        """Whether no line ends between these neighbours."""
        return not any(
            b"\n" in self.text[left.end_byte : right.start_byte].replace(b"\\\n", b"")
            for left, right in pairwise(nodes)
        )

    def explained(self) -> bool:
        """Whether only blanks remain unexplained."""
        reached = 0
        for start, end in [*sorted(self._spans), (len(self.text), len(self.text))]:
            if start > reached and self.text[reached:start].replace(b"\\\n", b"").strip(b" \t\n"):
                return False
            reached = max(reached, end)
        return True
