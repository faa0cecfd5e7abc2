"""Change the core in small wrong ways, one at a time, and count how many of them its tests notice.

.venv/bin/python scripts/mutants.py --count 300 --seed 1

Each mutant is one changed operator, constant, condition or statement in a file that scripts/core-files lists.
The same seed gives the same sample as long as those files don't change. Survivors are listed with their line.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
HANGS_CPU_S = 120  # the tests take 15
OPPOSITE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A changed source file."""

    path: Path
    line: int
    what: str
    source: str


def changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    """The wrong ways to write a node, each with a function that makes a copy of it wrong."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in OPPOSITE:
            other = OPPOSITE[type(op)]
            yield f"{type(op).__name__} -> {other.__name__}", lambda it: setattr(it, "ops", [other()])
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in OPPOSITE:
            other = OPPOSITE[type(op)]
            yield f"{type(op).__name__} -> {other.__name__}", lambda it: setattr(it, "op", other())
        case ast.Constant(value=bool(value)):
            yield f"{value} -> {not value}", lambda it: setattr(it, "value", not value)
        case ast.Constant(value=int(value)):
            yield f"{value} -> {value + 1}", lambda it: setattr(it, "value", value + 1)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            negated = ast.UnaryOp(ast.Not(), copy.deepcopy(test))
            yield "condition negated", lambda it: setattr(it, "test", negated)
        case ast.Return(value=ast.expr()):
            yield "returns None", lambda it: setattr(it, "value", ast.Constant(None))
        case _:
            pass


def skipped(tree: ast.Module) -> set[int]:
    """Nodes that don't change behavior: annotations, decorators, assertions and raised errors."""
    hidden: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        match node:
            case ast.AnnAssign():
                parts = [node.annotation]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                parts = [
                    node.returns,
                    *(each.annotation for each in ast.walk(node.args) if isinstance(each, ast.arg)),
                ]
                parts += node.decorator_list
            case ast.ClassDef():
                parts = [*node.decorator_list, *node.keywords]
            case ast.Assert() | ast.Raise():
                parts = [node]
            case _:
                pass
        hidden |= {id(inner) for part in parts if part is not None for inner in ast.walk(part)}
    return hidden


def mutants_of(path: Path) -> Iterator[Callable[[], Mutant]]:
    """All mutants of a file, each built when it's needed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = skipped(tree)
    for nth, node in enumerate(ast.walk(tree)):
        if id(node) in hidden:
            continue
        for way, (what, _) in enumerate(changes(node)):
            yield lambda nth=nth, way=way, what=what: _made(path, tree, nth, way, what)


def _made(path: Path, tree: ast.Module, nth: int, way: int, what: str) -> Mutant:
    wrong = copy.deepcopy(tree)
    node = list(ast.walk(wrong))[nth]
    list(changes(node))[way][1](node)
    return Mutant(path, getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(wrong)))


def is_noticed(mutant: Mutant, tests: Sequence[str]) -> bool:
    """Whether the tests fail with the mutant in place of its file; a hang counts as a failure."""
    with TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("web"))
        (Path(folder) / mutant.path.relative_to(ROOT / "src")).write_text(mutant.source, encoding="utf-8")
        pytest = [ROOT / ".venv/bin/pytest", "-x", "-qq", "-p", "no:cacheprovider", "--timeout=0"]
        environment = {**os.environ, "PYTHONPATH": folder}  # noqa: TID251  # a tool is an edge
        # On a busy machine the tests take long; only one that uses much CPU time hangs.
        limited = ["prlimit", f"--cpu={HANGS_CPU_S}", *pytest, "-o", "faulthandler_timeout=0", *tests]
        run = subprocess.run(
            limited,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return run.returncode != 0


def core_tests() -> list[str]:
    """The core's own tests, as scripts/check names them."""
    text = (ROOT / "scripts" / "check").read_text(encoding="utf-8")
    return text.partition("core=(")[2].partition(")")[0].split()


def core_files() -> list[Path]:
    """The files of the core."""
    patterns = (ROOT / "scripts" / "core-files").read_text(encoding="utf-8").split()
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.suffix == ".py"})


def main() -> int:
    """Print the survivors and the share of mutants that were noticed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    every = [make for path in core_files() for make in mutants_of(path)]
    source = random.Random(options.seed)  # noqa: S311  # a sample is no secret
    sample = source.sample(every, min(options.count, len(every)))
    tests = core_tests()
    made = [make() for make in sample]
    for path in {mutant.path for mutant in made}:
        rewritten = ast.unparse(ast.parse(path.read_text(encoding="utf-8")))
        if is_noticed(Mutant(path, 0, "nothing", rewritten), tests):
            sys.exit(f"The core's tests fail without any mutant in {path}.")
    noticed = 0
    with ThreadPoolExecutor(options.processes) as pool:
        for mutant, was_noticed in zip(made, pool.map(lambda one: is_noticed(one, tests), made), strict=True):
            noticed += was_noticed
            if not was_noticed:
                print(f"survived: {mutant.path.relative_to(ROOT)}:{mutant.line} {mutant.what}", flush=True)
    print(f"{noticed} of {len(sample)} mutants were noticed ({100 * noticed / len(sample):.1f} %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
