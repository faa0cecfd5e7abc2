"""The rules of the house, as ordinary tests: each reads every file and names all that break it."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from plain_english import EXCEPT, FILES, WORDINGS, matches
from tables import for_each_row

ROOT = Path(__file__).parent.parent
LINES_MAX = 600
FUNCTION_LINES_MAX = 60
FOLDER_MODULES_MAX = 30
ROOT_MODULES_MAX = 12
UNUSED_CEILING_MAX = 25
# Public names of packages that people import on their own, where a prefix would only be noise.
SHARED_CLASS_NAMES = {"Gate", "Lifecycle"}
FORBIDDEN_NAME_PARTS = {"utils", "helpers", "common", "misc", "manager", "handler"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")


DOCSTRING = re.compile(r'(?:#[^\n]*\n)*r?"""[A-Z`]')
IMPORTED = re.compile(r"^[ \t]*from holdfast[\w.]* import (\([^)]*\)|[^\n#]*)", re.MULTILINE)
PRIVATE = re.compile(r"(?<!\bas )\b_(?!_version__)\w*")
WITH_A_MEMORY = re.compile(r"\b(AsksAbout|Counted)\(")
PARSER = re.compile(r"\b(tomllib\.loads?|yaml\.(safe_|full_)?load)\b")
# Ruff bans `print`; these are the other ways. A module that draws by itself is listed with its reason.
TO_THE_TERMINAL = re.compile(
    r"(typer\.(echo|secho|prompt|confirm)|click\.\w*echo|Console|(sys\.)?(stdout|stderr)(\.buffer)?\.write"
    r"|.*\bout\.write|.*_errors\.write|.*\bstdout\.buffer)"
)
DRAWING = {
    "src/holdfast/cli/terminal/output.py",  # the one module
    "src/holdfast/cli/terminal/style.py",  # renders to a string
    "src/holdfast/cli/doctor/command.py",  # a spinner
    "src/holdfast/cli/demo/tour.py",  # texts of our own
    "src/holdfast/cli/stdio_lines.py",  # a protocol, not a terminal
}


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file of the repository."""

    name: str
    text: str


@cache
def _modules(*patterns: str) -> tuple[Module, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(_module(name) for name in listed.stdout.splitlines() if (ROOT / name).exists())


@cache
def _module(name: str) -> Module:
    return Module(name, (ROOT / name).read_text("utf-8"))


def _sources() -> tuple[Module, ...]:
    return _modules("src/*.py")


def _all() -> tuple[Module, ...]:
    return _modules("src/*.py", "tests/*.py", "bench/*.py")


def test_a_file_is_one_noun_of_at_most_600_lines() -> None:
    too_long = [module.name for module in _all() if len(module.text.splitlines()) > LINES_MAX]
    assert not too_long, "split by noun"


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    folders = Counter(str(Path(module.name).parent) for module in _sources() if "__init__" not in module.name)
    assert folders["src/holdfast"] <= ROOT_MODULES_MAX, "the root is for what everything else is made of"
    assert [folder for folder, count in folders.items() if count > FOLDER_MODULES_MAX] == []


def test_a_file_opens_with_a_sentence_that_says_what_it_is_for() -> None:
    assert [module.name for module in _all() if not DOCSTRING.match(module.text)] == []


def test_the_name_of_a_file_says_something() -> None:
    assert [m.name for m in _all() if set(Path(m.name).stem.split("_")) & FORBIDDEN_NAME_PARTS] == []


def _broken_at_the_top(node: ast.stmt) -> Iterator[str]:
    """The rules that a statement of a module breaks."""
    match node:
        case (
            ast.Assign(value=ast.Dict() | ast.List() | ast.Set())
            | ast.AnnAssign(value=ast.Dict() | ast.List() | ast.Set())
        ) if not ast.unparse(node.value or node).strip("{}[]"):
            yield "a module-level container that grows is state outside the log"
        case _:
            pass


def _broken_anywhere(node: ast.AST, name: str) -> Iterator[str]:
    """The rules that a piece of code in this file breaks."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES_MAX:
                yield "a function fits on a screen"
        case ast.ExceptHandler(type=kind, body=[ast.Pass()]):
            if kind is None or ast.unparse(kind) in {"Exception", "BaseException"}:
                yield "no exception is swallowed"
        case ast.Call(func=ast.Name() | ast.Attribute()):
            is_terminal = name.startswith("src/holdfast/cli/") and name not in DRAWING
            if is_terminal and TO_THE_TERMINAL.fullmatch(ast.unparse(node.func)):
                yield "everything reaches the terminal through one module"
        case _:
            pass


def test_the_code_keeps_the_rules() -> None:
    """P11: text of any origin can hold escape sequences, which write to the clipboard or hide a line.

    All in one test, which reads each file once and keeps no tree: every garbage collection of every later
    test would go through it.
    """
    broken: list[str] = []
    classes: Counter[str] = Counter()
    for module in _sources():
        tree = ast.parse(module.text)
        classes.update(node.name for node in tree.body if isinstance(node, ast.ClassDef))
        found = [(node, rule) for node in tree.body for rule in _broken_at_the_top(node)]
        found += [(node, rule) for node in ast.walk(tree) for rule in _broken_anywhere(node, module.name)]
        broken += [f"{module.name}:{getattr(node, 'lineno', 0)} {rule}" for node, rule in found]
    assert broken == []
    public = {name for name, count in classes.items() if count > 1 and not name.startswith("_")}
    assert public <= SHARED_CLASS_NAMES, "a public class name means one thing"


def test_parsers_that_a_small_text_can_keep_busy_are_called_where_the_text_is_limited() -> None:
    """P3: TOML and YAML of any origin go through one function each."""
    assert {module.name for module in _sources() if PARSER.search(module.text)} == {
        "src/holdfast/config/toml.py",
        "src/holdfast/decisions/learned.py",  # a file that we ship
        "src/holdfast/tools/files/yaml_text.py",
    }


def test_nothing_is_left_unfinished() -> None:
    unfinished = [
        f"{module.name}:{number}"
        for module in _all()
        if module.name != "tests/test_tidy.py"
        for number, line in enumerate(module.text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert unfinished == []


def test_tests_use_public_names_only() -> None:
    private = [
        f"{module.name}: {found.group()}"
        for module in _modules("tests/*.py")
        for imported in IMPORTED.finditer(module.text)
        for found in PRIVATE.finditer(imported[1])
    ]
    assert private == []


def test_no_test_file_is_imported() -> None:
    """Shared code is in a file without `test_`, because an imported test runs twice."""
    imports = re.compile(r"^[ \t]*(from|import) (?!aiohttp)([\w.]*\.)?test_", re.MULTILINE)
    assert [m.name for m in _modules("tests/*.py", "bench/*.py") if imports.search(m.text)] == []


def test_no_judge_or_tool_with_a_memory_is_shared_by_tests() -> None:
    """Whatever one test allows for good, the next one would never be asked about."""
    shared: list[str] = []
    for module in _modules("tests/*.py"):
        if "AsksAbout(" not in module.text and "Counted(" not in module.text:
            continue
        kept = [node for node in ast.parse(module.text).body if isinstance(node, ast.Assign | ast.AnnAssign)]
        shared += [f"{module.name}:{node.lineno}" for node in kept if WITH_A_MEMORY.search(ast.unparse(node))]
    assert shared == []


def test_only_one_module_builds_the_answer_to_an_ask() -> None:
    """An interface that built its own could store something other than what people were shown."""
    built = re.compile(r"(?<!class )\b(?:Approval|Question)Answered\((?!\))")
    found = {module.name for module in _sources() if built.search(module.text)}
    # A parent's log repeats the answer in the sub-agent's own log.
    assert found == {"src/holdfast/runner/asks.py", "src/holdfast/agent/children.py"}


def test_texts_dont_read_like_a_translation() -> None:
    """New text has none of the wordings. Old text has ever fewer: lower a ceiling when you rewrite some."""
    found = Counter(
        match.name
        for module in _modules(*FILES)
        if module.name not in EXCEPT
        for match in matches(module.text)
    )
    over = [name for name, wording in WORDINGS.items() if found[name] > wording.ceiling]
    assert over == [], "rewrite what `python tests/plain_english.py $(git diff --name-only main)` prints"
    unused = {
        n: found[n] for n, wording in WORDINGS.items() if wording.ceiling - found[n] > UNUSED_CEILING_MAX
    }
    assert unused == {}, "lower these ceilings in tests/plain_english.py"


@for_each_row(
    "before, after",
    [
        ("What leaves it asks.", "Anything that leaves the sandbox needs your approval."),
        ("Unsigned. Whoever can't sign gets 401.", "Unsigned requests get 401. What now?"),
        ("The parent is told of it.", "The two can't be told apart, so the parent gets both."),
        ("It is tried again by itself.", "Holdfast retries automatically. Try again later."),
        ("Each has a key of\nits own, which is to be removed.", "Each has its own key, to be removed."),
    ],
)
def test_a_wording_is_found_and_its_better_form_is_not(before: str, after: str) -> None:
    assert list(matches(before))
    assert list(matches(after)) == []
