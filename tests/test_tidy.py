"""The rules of the house, as ordinary tests: each reads every file and names all that break it."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINES_MAX = 600
FUNCTION_LINES_MAX = 60
FOLDER_MODULES_MAX = 30
ROOT_MODULES_MAX = 12
# Public names of packages that people import on their own, where a prefix would only be noise.
SHARED_CLASS_NAMES = {"Gate", "Lifecycle"}
FORBIDDEN_NAME_PARTS = {"utils", "helpers", "common", "misc", "manager", "handler"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")


@dataclass(frozen=True)
class Module:
    """A Python file of the repository, read once, and parsed once if a rule is about its code."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)


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


def test_a_public_class_name_means_one_thing() -> None:
    names = Counter(
        node.name
        for module in _sources()
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} <= SHARED_CLASS_NAMES


def test_a_file_opens_with_a_sentence_that_says_what_it_is_for() -> None:
    sentences = {module.name: ast.get_docstring(module.tree) or "" for module in _all()}
    assert [name for name, text in sentences.items() if not (text[:1].isupper() or text[:1] == "`")] == []


def test_a_function_fits_on_a_screen() -> None:
    too_long = [
        f"{module.name}:{node.lineno} {node.name}"
        for module in _sources()
        for node in module.nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES_MAX
    ]
    assert too_long == []


def test_the_name_of_a_file_says_something() -> None:
    assert [m.name for m in _all() if set(Path(m.name).stem.split("_")) & FORBIDDEN_NAME_PARTS] == []


def test_no_exception_is_swallowed() -> None:
    swallowed = [
        f"{module.name}:{node.lineno}"
        for module in _sources()
        for node in module.nodes()
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
        and len(node.body) == 1
        and isinstance(node.body[0], ast.Pass)
    ]
    assert swallowed == []


def test_parsers_that_a_small_text_can_keep_busy_are_called_where_the_text_is_limited() -> None:
    """P3: TOML and YAML of any origin go through one function each."""
    parsers = {"tomllib.load", "tomllib.loads", "yaml.load", "yaml.safe_load", "yaml.full_load"}
    callers = {
        module.name
        for module in _sources()
        for node in module.nodes()
        if isinstance(node, ast.Call) and ast.unparse(node.func) in parsers
    }
    assert callers == {
        "src/holdfast/config/toml.py",
        "src/holdfast/decisions/silent_rejects.py",  # a file that we ship
        "src/holdfast/tools/files/yaml_text.py",
    }


def test_everything_reaches_the_terminal_through_one_module() -> None:
    """P11: text of any origin can hold escape sequences, which write to the clipboard or hide a line.

    Ruff bans `print`; these are the other ways. A module that draws by itself is listed with its reason.
    """
    drawing = {
        "terminal/output.py",  # the one module
        "terminal/style.py",  # renders to a string
        "doctor/command.py",  # a spinner
        "demo/screen.py",  # texts of our own
        "protocols/stdio_lines.py",  # a protocol, not a terminal
    }
    ways = re.compile(
        r"(typer\.(echo|secho|prompt|confirm)|click\.\w*echo|Console|(sys\.)?(stdout|stderr)(\.buffer)?\.write"
        r"|.*\bout\.write|.*_errors\.write|.*\bstdout\.buffer)"
    )
    found = [
        f"{module.name}:{node.lineno}"
        for module in _modules("src/holdfast/cli/*.py")
        if module.name.removeprefix("src/holdfast/cli/") not in drawing
        for node in module.nodes()
        if isinstance(node, ast.Call) and ways.fullmatch(ast.unparse(node.func))
    ]
    assert found == []


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
        f"{module.name}:{node.lineno} {alias.name}"
        for module in _modules("tests/*.py")
        for node in module.nodes()
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast")
        for alias in node.names
        if alias.name.startswith("_") and alias.name != "__version__"
    ]
    assert private == []


def test_module_level_containers_do_not_change() -> None:
    """A module-level dict, list or set that grows is state outside the log."""
    to_be_filled = [
        f"{module.name}:{node.lineno}"
        for module in _sources()
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Dict | ast.List | ast.Set)
        and not ast.unparse(node.value).strip("{}[]")
    ]
    assert to_be_filled == []


def test_only_one_module_builds_the_answer_to_an_ask() -> None:
    """An interface that built its own could store something other than what people were shown."""
    built = re.compile(r"(?<!class )\b(?:Approval|Question)Answered\((?!\))")
    found = {module.name for module in _sources() if built.search(module.text)}
    # A parent's log repeats the answer in the sub-agent's own log.
    assert found == {"src/holdfast/runner/asks.py", "src/holdfast/agent/child_asks.py"}
