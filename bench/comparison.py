"""Twelve small tasks, written with Holdfast and with two other agent libraries, run and measured.

    python -m venv /tmp/peers && /tmp/peers/bin/pip install 'pydantic-ai-slim[openai]' openai-agents
    python bench/comparison.py --peers /tmp/peers/bin/python

It prints the tables of docs/comparison.md. The programs are in bench/comparison; the model is the bad model
server, on loopback. Without `--peers`, only Holdfast's programs run.
"""

import argparse
import ast
import asyncio
import datetime as dt
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from comparison_tasks import AS_IT_COMES, LIMIT_S, TASKS, Library, Measured, Task, with_cpu

PROGRAMS = Path(__file__).parent / "comparison"
AT_ONCE = 3
CPU_ROUNDS = 2
PEERS = {
    "pydantic-ai": ("with_pydantic_ai", "pydantic-ai-slim"),
    "Agents SDK": ("with_openai_agents", "openai-agents"),
}

Row = Mapping[str, Measured]


def lines_of(program: Path) -> int:
    """The lines of a program that aren't blank, imports, comments or its first docstring."""
    text = program.read_text()
    tree = ast.parse(text)
    left_out = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    not_counted = {
        number
        for node in (tree.body[0], *left_out)
        for number in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in not_counted
        for number, line in enumerate(text.splitlines(), 1)
    )


async def rows_of(tasks: Sequence[Task], libraries: Sequence[Library]) -> list[Row]:
    """Every task with every library, a few programs at once."""
    room = asyncio.Semaphore(AT_ONCE)

    async def measured(task: Task, library: Library) -> Measured:
        async with room:
            return await task.scene(library, task.program)

    async def row(task: Task) -> Row:
        results = await asyncio.gather(*(measured(task, library) for library in libraries))
        return dict(zip((library.name for library in libraries), results, strict=True))

    return await asyncio.gather(*(row(task) for task in tasks))


async def cpu_of(program: str, libraries: Sequence[Library]) -> dict[str, float]:
    """The least CPU seconds of a program in a few rounds, one program at a time."""
    (task,) = (task for task in TASKS if task.program == program)
    least: dict[str, float] = {}
    for library in [*libraries] * CPU_ROUNDS:
        result = await with_cpu(task.scene)(library, program)
        if not result.done:
            raise SystemExit(f"{library.name}: {program}: {result.what}")
        least[library.name] = min(result.cpu_s, least.get(library.name, result.cpu_s))
    return least


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table in Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(row) + " |")
    print()


def _cell(task: Task, result: Measured, lines: int | None) -> str:
    what = result.what
    if task.is_fault and result.seconds < LIMIT_S:
        what += f", after {result.seconds:.1f} s"
    return what if lines is None else f"{lines}: {what}"


def print_tasks(
    tasks: Sequence[Task], libraries: Sequence[Library], rows: Sequence[Row], *, lines: bool
) -> None:
    """One row a task, one column a library."""
    table = [
        [
            task.title,
            *(
                _cell(task, row[one.name], lines_of(one.folder / task.program) if lines else None)
                for one in libraries
            ),
        ]
        for task, row in zip(tasks, rows, strict=True)
    ]
    if lines:
        sums = [sum(lines_of(one.folder / task.program) for task in tasks) for one in libraries]
        table.append(["All twelve", *(str(total) for total in sums)])
    print_table(["task", *(library.name for library in libraries)], table)


def versions(libraries: Sequence[Library]) -> str:
    """Which release of each library, and of what it stands on, was measured."""
    packages = {"Holdfast": "holdfast", **{name: package for name, (_, package) in PEERS.items()}}
    parts: list[str] = []
    for library in libraries:
        code = (
            "import platform, sys, importlib.metadata as m; "
            "print(m.version(sys.argv[1]), 'on Python', platform.python_version())"
        )
        command = [str(library.python), "-c", code, packages[library.name]]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        parts.append(f"{packages[library.name]} {found}")
    return "; ".join(parts)


async def compare(libraries: Sequence[Library]) -> bool:
    """Run everything and print it; whether Holdfast's own programs did their tasks."""
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {platform.system()}: {versions(libraries)}\n")
    rows = await rows_of(TASKS, libraries)
    print_tasks(TASKS, libraries, rows, lines=True)
    print_tasks(AS_IT_COMES, libraries, await rows_of(AS_IT_COMES, libraries), lines=False)
    one, fifty = await cpu_of("hello.py", libraries), await cpu_of("fifty.py", libraries)
    cpu = [
        ["Start, and one run", *(f"{one[library.name]:.2f} s" for library in libraries)],
        ["Start, and 50 runs", *(f"{fifty[library.name]:.2f} s" for library in libraries)],
        [
            "Each further run",
            *(f"{(fifty[library.name] - one[library.name]) / 49 * 1000:.1f} ms" for library in libraries),
        ],
    ]
    print_table(["CPU time", *(library.name for library in libraries)], cpu)
    return all(row["Holdfast"].done for row in rows)


async def check(libraries: Sequence[Library]) -> bool:
    """Run each program once; say which did not do their tasks."""
    rows = await rows_of(TASKS, libraries)
    for task, row in zip(TASKS, rows, strict=True):
        for name, result in row.items():
            print(f"{name}: {task.program}: {result.what}")
    return all(result.done for row in rows for result in row.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=Path, help="the Python that has pydantic-ai-slim and openai-agents")
    parser.add_argument("--check", action="store_true", help="only run each program once")
    args = parser.parse_args()
    libraries = [Library("Holdfast", Path(sys.executable), PROGRAMS / "with_holdfast")]
    if args.peers:
        libraries += [Library(name, args.peers, PROGRAMS / folder) for name, (folder, _) in PEERS.items()]
    done = asyncio.run((check if args.check else compare)(libraries))
    sys.exit(0 if done else 1)


if __name__ == "__main__":
    main()
