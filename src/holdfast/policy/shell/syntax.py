"""Finds the commands that a shell text would run: a tree-sitter parse, checked against the source text.

The parser is good at structure and lenient with the rest, so what it says about a word, a comment or a
here-document counts only if the source text agrees; where they differ, the script needs approval.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest

import tree_sitter_bash
from msgspec import Struct
from msgspec.structs import replace
from tree_sitter import Language, Node, Parser

from holdfast.policy.shell.commands import RESERVED, Redirect, RedirectKind, Script, SimpleCommand
from holdfast.policy.shell.guesses import guessed
from holdfast.policy.shell.here_documents import Document, mask_documents, read_document
from holdfast.policy.shell.source import ShellText, unprintable, without_negations
from holdfast.policy.shell.words import LOOPED, UNREADABLE, Word, read_word, read_words

TEXT_BYTES_MAX = 65_536
# The parser's recovery from errors takes quadratic time, so what is not the body of a document is kept short.
SYNTAX_BYTES_MAX = 8_192
DEPTH_MAX = 60
# The parser holds the interpreter's lock. So much of the worst text takes it a few milliseconds.
QUICK_BYTES_MAX = 256

_LANGUAGE = Language(tree_sitter_bash.language())
_OPERATORS: dict[str, RedirectKind] = {
    "<": "read",
    ">": "write",
    ">>": "append",
    ">|": "write",
    "&>": "write",
    "&>>": "append",
    ">&": "write",
    "<&": "read",
    ">&-": "dup",
    "<&-": "dup",
}
# The parser looks characters up in a table of 256, and far enough behind its end the process dies.
_FAR = re.compile("[\u0100-\U0010ffff]")
_NEAR = {2: "\xe9", 3: "\xe9_", 4: "\xe9\xe9"}  # as many bytes, and no more than letters to a shell either
# What stands outside quotes, for a count of parentheses; quotes that do not end stay as they are.
_QUOTED = re.compile(r"""\\.|\$?'[^'\\]*+'|'[^']*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL)
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_./,:@%+=-]+")
_DESCRIPTOR = re.compile(r"\d+-?|-")
_DESCRIPTOR_STARTS = frozenset("-0123456789")
# fmt: off
_STRUCTURE = frozenset((
    "program", "list", "subshell", "do_group", "elif_clause", "else_clause", "if_statement",
    "negated_command", "variable_assignments",
))
_STATEMENTS = _STRUCTURE | frozenset((
    "command", "pipeline", "redirected_statement", "compound_statement", "function_definition",
    "declaration_command", "unset_command", "test_command", "for_statement", "while_statement",
))
# fmt: on
_LOOPS = frozenset(("for_statement", "c_style_for_statement", "while_statement"))
_SUBSTITUTIONS = frozenset(("command_substitution", "process_substitution"))
_TOO_LONG = "The command is too long to check."
_NOT_READ = {
    "c_style_for_statement": "It contains an arithmetic loop.",
    "case_statement": "It contains a `case` statement.",
}


def syntax_bytes(text: str) -> int:
    """How much of a text the parser reads: all but the bodies of quoted here-documents."""
    _, documents = mask_documents(text)
    return len(text.encode("utf-8", "replace")) - sum(end - start for start, end in documents)


def is_costly(text: str) -> bool:
    """Whether parsing a text may take long: a long one, or one with syntax errors."""
    if len(text) > QUICK_BYTES_MAX or len(text.encode("utf-8", "replace")) > QUICK_BYTES_MAX:
        return True
    depth = 0
    for char in _QUOTED.sub("_", text):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return True
    return depth > 0


def parse(text: str) -> Script:
    """Parse a shell text; never raises."""
    hidden = unprintable(text)
    text = text.encode("utf-8", "replace").decode()
    script = _read(text)
    if hidden is not None:
        script = replace(script, findings=(hidden, *script.findings))
    doubted = script.findings or any(
        each.words and each.words[0].text in RESERVED for each in script.commands
    )
    if not doubted:
        return script
    plainer = without_negations(text)
    # The parser knows these only before simple commands, and takes the words behind them for one.
    again = _read(plainer).commands if plainer != text else ()
    return replace(script, guesses=(*again, *guessed(text[:TEXT_BYTES_MAX])))


def _nearer(far: re.Match[str]) -> str:
    return _NEAR[len(far[0].encode())]


def _read(text: str) -> Script:
    if len(text.encode()) > TEXT_BYTES_MAX:
        return Script(findings=(_TOO_LONG,))
    masked, documents = mask_documents(text)
    if len(text.encode()) - sum(end - start for start, end in documents) > SYNTAX_BYTES_MAX:
        return Script(findings=(_TOO_LONG,))
    root = Parser(_LANGUAGE).parse(_FAR.sub(_nearer, masked).encode()).root_node
    walk = _Walk(ShellText(text.encode()))
    if root.has_error:
        walk.find("It is not valid shell syntax.")
    walk.visit(root, _Place())
    if not walk.source.explained():
        walk.find(f"A part of it {UNREADABLE}.")
    if not set(documents) <= walk.documents:
        walk.find(f"A here-document {UNREADABLE}.")
    if not walk.commands:
        walk.find("It contains no command.")
    return Script(tuple(walk.commands), tuple(walk.findings))


class _Place(Struct, frozen=True):
    """The context of a node."""

    depth: int = 0
    fed: bool = False
    forks: bool = False
    looped: bool = False
    loop_names: frozenset[str] = frozenset()
    inner: bool = False  # inside a word, where the source is not compared
    functions: frozenset[str] = frozenset()


class _Walk:
    """One pass over the tree: collects commands and findings, and notes which part each node explains."""

    def __init__(self, source: ShellText) -> None:
        self.source = source
        self.commands: list[SimpleCommand] = []
        self.findings: list[str] = []
        self.documents: set[tuple[int, int]] = set()

    def find(self, text: str) -> None:
        """Add a finding, once."""
        if text not in self.findings:
            self.findings.append(text)

    def visit(self, node: Node, place: _Place) -> None:
        """Read one statement, or one token of the structure."""
        place = replace(place, depth=place.depth + 1)
        if place.depth > DEPTH_MAX:
            self.find("It is nested too deeply to check.")
            self.explain(node, place)
            return
        kind = node.type
        if kind in _NOT_READ:
            self.find(_NOT_READ[kind])
        if kind in _STRUCTURE:
            self.visit_all(node, place)
        elif kind in _LOOPS or kind == "case_statement":
            self.visit_loop(node, replace(place, looped=True))
        elif not node.is_named:
            if kind == "&":
                self.find("It leaves a process running in the background.")
            self.explain(node, place)
        else:
            self.visit_statement(node, place)

    def visit_statement(self, node: Node, place: _Place) -> None:
        """Read a statement that is neither plain structure nor a loop."""
        match node.type:
            case "pipeline":
                self.visit_pipeline(node, place)
            case "command" | "variable_assignment" | "declaration_command" | "unset_command":
                self.commands.append(self.simple(node, place))
            case "redirected_statement":
                self.visit_redirected(node, place)
            case "compound_statement" if self.source.raw(node).startswith("{"):
                self.visit_all(node, place)
            case "function_definition":
                self.visit_function(node, place)
            case "test_command" if not self.source.raw(node).startswith("[["):
                self.visit_test(node, place)
            case "comment":
                self.visit_comment(node, place)
            case "ERROR":
                self.visit_inside(node, place)
            case _:
                self.find(
                    f"It uses shell syntax that Holdfast does not check ({node.type.replace('_', ' ')})."
                )
                self.visit_inside(node, place)

    def visit_all(self, node: Node, place: _Place) -> None:
        """Read a sequence of statements; one before & runs concurrently."""
        children = node.children
        for child, following in zip_longest(children, children[1:]):
            behind = following is not None and following.type == "&"
            self.visit(child, replace(place, forks=place.forks or behind))

    def visit_pipeline(self, node: Node, place: _Place) -> None:
        """Read a pipeline: all but its first command are fed."""
        fed = place.fed
        for child in node.children:
            if child.type in {"|", "|&"}:
                fed = True
            self.visit(child, replace(place, forks=True, fed=fed))

    def visit_loop(self, node: Node, place: _Place) -> None:
        """Read a loop, whose variable is set like any other."""
        own = self.fixed_names(node)
        for nth, child in enumerate(node.children):
            if child.type == "variable_name":
                setting = (self.source.raw(child), Word("", LOOPED))
                self.commands.append(SimpleCommand(assignments=(setting,), loop_names=own))
                self.explain(child, place)
            elif child.type == "do_group":
                self.visit(child, replace(place, loop_names=place.loop_names | own))
            elif node.field_name_for_child(nth) == "value":
                self.word(child, place)
            else:
                self.visit(child, place)

    def fixed_names(self, node: Node) -> frozenset[str]:
        """The variable of a `for` loop, if the text gives it at least one value and every value is plain."""
        name = node.child_by_field_name("variable")
        if name is None or node.type != "for_statement" or node.children[0].type != "for":
            return frozenset()
        values = [read_word(self.source.raw(one)) for one in node.children_by_field_name("value")]
        fixed = bool(values) and all(one.literal and _PLAIN_VALUE.fullmatch(one.text) for one in values)
        return frozenset((self.source.raw(name),)) if fixed else frozenset()

    def visit_function(self, node: Node, place: _Place) -> None:
        """Read a function definition; its name may then mean anything, so the whole script needs approval."""
        self.find("It defines a function.")
        name = node.child_by_field_name("name")
        names = place.functions | frozenset(() if name is None else (self.source.raw(name),))
        for child in node.children:
            if child == name:
                self.explain(child, place)
            else:
                self.visit(child, replace(place, functions=names))

    def visit_test(self, node: Node, place: _Place) -> None:
        """Read [ … ] as the command that it is: what the parser calls a comparison may be a redirection."""
        raw = self.source.raw(node)
        words = read_words(raw) if "\n" not in raw else None
        if words is None:
            self.find("A test contains a shell operator.")
        self.commands.append(self.placed(words=words or (Word("[", UNREADABLE),), place=place))
        self.explain(node, place)
        self.visit_inside(node, place)

    def visit_comment(self, node: Node, place: _Place) -> None:
        """Accept a comment only where a shell would begin one, up to the end of its line."""
        if not place.inner and not self.source.is_comment(node):
            self.find(f"A comment {UNREADABLE}.")
        self.explain(node, place)

    def visit_inside(self, node: Node, place: _Place) -> None:
        """Look for commands anywhere below a node."""
        place = replace(place, depth=place.depth + 1, inner=True)
        if place.depth > DEPTH_MAX:
            self.find("It is nested too deeply to check.")
            return
        for child in node.named_children:
            if child.type in _SUBSTITUTIONS:
                self.visit_substitution(child, place)
            elif child.type in _STATEMENTS:
                self.visit(child, place)
            else:
                self.visit_inside(child, place)

    def visit_substitution(self, node: Node, place: _Place) -> None:
        """Read the commands whose output becomes a part of a word."""
        for part in node.named_children:
            self.visit(part, replace(place, inner=True, forks=True))

    def visit_redirected(self, node: Node, place: _Place) -> None:
        """Read a statement with redirections behind it."""
        body = node.child_by_field_name("body")
        rest = [child for child in node.children if child != body]
        extra: list[Word] = []
        redirects = [found for child in rest for found in self.redirects(child, place, extra=extra)]
        fed = place.fed or any(redirect.kind in {"read", "document"} for redirect in redirects)
        place = replace(place, fed=fed)
        if body is not None and body.type == "command":
            command = self.simple(body, place)
            words = command.words + tuple(extra)
            self.commands.append(replace(command, words=words, redirects=(*command.redirects, *redirects)))
            return
        self.commands.append(self.placed(words=tuple(extra), redirects=tuple(redirects), place=place))
        if body is not None and extra:
            self.find(f"A word behind a redirection {UNREADABLE}.")
        if body is not None:
            self.visit(body, place)

    def simple(self, node: Node, place: _Place) -> SimpleCommand:
        """Read a simple command."""
        words: list[Word] = []
        extra: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        parts = [node] if node.type == "variable_assignment" else node.children
        self.check_line(parts)
        for child in parts:
            if child.type == "variable_assignment" and node.type != "declaration_command":
                assignments.append(self.assignment(child, place))
            elif child.type.endswith("_redirect"):
                redirects += self.redirects(child, place, extra=extra)
            else:
                words.append(self.word(child, place))
        fed = place.fed or any(redirect.kind in {"read", "document"} for redirect in redirects)
        return self.placed(
            words=(*words, *extra),
            assignments=tuple(assignments),
            redirects=tuple(redirects),
            place=replace(place, fed=fed),
        )

    def placed(
        self,
        *,
        words: tuple[Word, ...],
        place: _Place,
        assignments: tuple[tuple[str, Word], ...] = (),
        redirects: tuple[Redirect, ...] = (),
    ) -> SimpleCommand:
        """A command with what its surroundings say about it."""
        return SimpleCommand(
            words=words,
            assignments=assignments,
            redirects=redirects,
            fed=place.fed,
            forks=place.forks,
            looped=place.looped,
            loop_names=place.loop_names,
            functions=place.functions,
        )

    def assignment(self, node: Node, place: _Place) -> tuple[str, Word]:
        """Read name=value; anything but a plain name with one word as its value is a finding."""
        self.explain_word(node, place)
        self.visit_inside(node, place)
        name, found, value = self.source.raw(node).partition("=")
        return name, read_word(value) if found and value else Word(value)

    def word(self, node: Node, place: _Place) -> Word:
        """Read one word from the source, and the commands inside it from the tree."""
        self.explain_word(node, place)
        if node.type in _SUBSTITUTIONS:
            self.visit_substitution(node, place)
        else:
            self.visit_inside(node, place)
        return read_word(self.source.raw(node))

    def redirects(self, node: Node, place: _Place, *, extra: list[Word]) -> Iterator[Redirect]:
        """Read one redirection node; words that the parser took for more targets go to `extra`."""
        if node.type == "heredoc_redirect":
            yield from self.document(node, place, extra=extra)
            return
        kind: RedirectKind = "document" if node.type == "herestring_redirect" else "dup"
        operator = ""
        targets: list[Word] = []
        self.check_line(node.children)
        for child in node.children:
            if child.type in _OPERATORS:
                operator, kind = child.type, _OPERATORS[child.type]
                self.explain(child, place)
            elif child.type in {"file_descriptor", "<<<"}:
                self.explain(child, place)
            else:
                targets.append(self.word(child, place))
        target = targets[0] if targets else Word("")
        if operator in {">&", "<&"} and _DESCRIPTOR.fullmatch(target.text):
            kind = "dup"
        elif operator == "<&" or (operator == ">&" and target.text[:1] in _DESCRIPTOR_STARTS):
            # A shell ends the descriptor where this text continues.
            self.find(f"A redirection {UNREADABLE}.")
        extra += targets[1:]
        yield Redirect(kind, target)

    def document(self, node: Node, place: _Place, *, extra: list[Word]) -> Iterator[Redirect]:
        """Read a here-document, and anything else on the line that begins it."""
        document = read_document(self.source.text, node)
        if document is None:
            self.find(f"A here-document {UNREADABLE}.")
            document = Document(0, 0, Word("", UNREADABLE))
        self.documents.add((document.start_byte, document.end_byte))
        yield Redirect("document", document.body)
        for child in node.children:
            if child.type in {"heredoc_start", "heredoc_end", "heredoc_body"} or not child.is_named:
                self.explain(child, place)
                self.visit_inside(child, place)
            elif child.type.endswith("_redirect"):
                yield from self.redirects(child, place, extra=extra)
            elif child.type in _STATEMENTS:
                self.visit(child, replace(place, fed=True, forks=True))
            else:
                extra.append(self.word(child, place))

    def explain(self, node: Node, place: _Place) -> None:
        """Note that this part of the source is explained."""
        if place.inner:
            return
        self.source.explain(node)
        if (not node.is_named or node.type == "file_descriptor") and not self.source.is_token(node):
            self.find(f"A part of it {UNREADABLE}.")

    def explain_word(self, node: Node, place: _Place) -> None:
        """Note a part that is a word; a finding if the source continues next to it."""
        self.explain(node, place)
        if not place.inner and not self.source.stands_alone(node):
            self.find(f"A word {UNREADABLE}.")

    def check_line(self, nodes: list[Node]) -> None:
        """Add a finding for a command whose parts are on several lines."""
        if not self.source.on_one_line(nodes):
            self.find(f"The end of a command {UNREADABLE}.")
