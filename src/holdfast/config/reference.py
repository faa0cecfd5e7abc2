"""The configuration reference as Markdown, generated from the settings."""

import json
from collections.abc import Iterator
from typing import cast

import msgspec
from msgspec import inspect

from holdfast.config.environment import HERMES_SERVER, HERMES_TARGETS, SPECIAL, variables
from holdfast.config.known_targets import KnownTargets, shipped_known
from holdfast.config.proxies import PROXY_VARIABLES
from holdfast.config.sources import KeyPath, dotted
from holdfast.config.validation import SETTINGS, list_beside, plain
from holdfast.decisions.deadlines import LOCAL, REMOTE

INTRO = """\
Flags override environment variables (`HOLDFAST_*`), which override `holdfast.toml`, which overrides the
defaults. To see the settings in effect and the source of each, run `holdfast config check`.

Holdfast reads the first of these files, once, at startup:

1. The file named by `--config` or `HOLDFAST_CONFIG`.
2. `holdfast.toml` in the working directory, if you trusted it with `holdfast config trust`. If the file
   changes, trust it again.
3. `~/.config/holdfast/holdfast.toml`.

An invalid key, type or value is an error that names the file, the line and the nearest valid key.

A secret is `env:NAME`, `file:PATH` (relative to the configuration file), or the text itself. Other relative
paths start from the working directory. A leading `~` is your home directory.

Agents' file tools never open the configuration file or the data directory. A command that names the
configuration file needs your approval.
"""
RULES_NOTE = """\
The first matching rule applies. A rule that allows a command covers the words in its `argv` plus harmless
words: files in the workspace (except secret files and git's own) and options known to be harmless. A word
that writes elsewhere, runs another program, reads settings from another file or reaches another host still
needs approval, and the request names it. To allow it, add it to `argv`. With `exact = true`, the rule covers
only the words in `argv`.

```toml
[[approvals.rules]]
allow = "shell"
argv = ["git", "log"]
```

This rule covers `git log --oneline -5 src/app.py`. It doesn't cover `git log --output=/home/you/.bashrc`.

Holdfast knows the harmless options of `git`, of programs that read (`ls`, `cat`, `grep`, `rg`, `sort`, `diff`
and so on) and of `cp`, `mv`, `rm`, `mkdir`, `make`, `npm`, `pnpm`, `yarn`, `cargo`, `go`, `pip`, `uv`,
`pytest`, `ruff`, `mypy`, `tsc`, `jq`, `node` and `python`. For common formatters and linters (`black`,
`eslint`, `prettier` and so on), a rule covers workspace files but no options. For any other program or
subcommand, it covers only the words it names, because any other word could be an instruction: `sqlite3 x.db
'.shell …'`, `git bisect run …`, `mvn exec:exec`.

A folder in the `paths` of an allow rule covers the ordinary files in it, but no secret file and no file that
programs run or obey later, such as `.git/hooks`, `AGENTS.md` or `.vscode`. To allow a file tool such a file,
name the file itself in `paths`. For the shell, only the sandbox or a rule without `argv` and `paths` does.

A deny or ask rule for `edit_file` or `write_file` also covers `apply_patch`, which some models get instead of
`edit_file`. A rule can name a tool of an MCP server, such as `mcp__tracker__close`, or `*` for all tools.

In every mode, a command that reads a secret file needs approval: `.env`, keys, tokens, `terraform.tfstate`,
`kubeconfig` and so on, but not `.env.example`. This includes commands that don't name the file: `grep -r`
above it, `git log -p` in a repository that has or had one, `git remote -v` if a URL contains a password.
Commands that the sandbox keeps from reading the file don't need approval.
"""
NOTES = {"[[approvals.rules]]": RULES_NOTE}
KNOWN_INTRO = """\
If you configure no target, Holdfast creates one for each of these variables that is set, in this order. The
first is the default. For some, a second variable sets another address. If none is set, Holdfast looks for
model servers on this machine ({local}).
If there are none, the built-in demo model answers.
"""
FOLDER = {"XDG_CONFIG_HOME": "Folder that contains `holdfast/holdfast.toml`, if not `~/.config`."}
_WORDS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.CustomType: "secret",
    inspect.FloatType: "number",
    inspect.IntType: "whole number",
    inspect.StrType: "text",
}


def reference() -> str:
    """Every table and key: type, default, variable and sentence."""
    lines = ["# Configuration reference", "", INTRO, *_tables(SETTINGS, (), header="")]
    lines += ["## Other variables", "", "| variable | description |", "| --- | --- |"]
    lines += [f"| `{name}` | {says} |" for name, says in (SPECIAL | FOLDER | PROXY_VARIABLES).items()]
    lines += ["", "## Default targets", "", *_known(shipped_known())]
    lines += ["", "## hermes-agent variables, used if the setting isn't set", ""]
    lines += ["| variable | setting |", "| --- | --- |"]
    lines += [f"| `{knob.variable}` | {knob.place} |" for knob in HERMES_TARGETS]
    lines += [f"| `{name}` | `{dotted(path)}` |" for name, path in HERMES_SERVER.items()]
    return "\n".join(lines) + "\n"


def _known(known: KnownTargets) -> Iterator[str]:
    yield KNOWN_INTRO.format(local=", ".join(f"{one.name} at `{one.base_url}`" for one in known.local))
    yield from ("| key | target | wire | address | model |", "| --- | --- | --- | --- | --- |")
    for one in known.known:
        other = f" or `{one.base_url_variable}`" if one.base_url_variable else ""
        there = f" (there `{one.wire_elsewhere}`)" if one.wire_elsewhere else ""
        place = f"`{one.base_url}`{other}{there}"
        yield f"| `{one.variable}` | {one.name} | `{one.wire}` | {place} | `{one.model}` |"


def _tables(kind: inspect.StructType, path: KeyPath, *, header: str) -> Iterator[str]:
    """The section of a table, then those of the tables in it."""
    by_path = {own: name for name, (own, _) in variables().items()}
    inner: list[tuple[KeyPath, inspect.StructType, str]] = []
    rows: list[str] = []
    for field in kind.fields:
        own: KeyPath = (*path, field.name)
        bare, _ = plain(field.type)
        item = plain(bare.item_type)[0] if isinstance(bare, inspect.VarTupleType) else bare
        if isinstance(item, inspect.StructType):
            name = dotted(own)
            inner.append((own, item, f"[{name}]" if item is bare else f"[[{name}]]"))
        else:
            variable = f"`{by_path[own]}`" if own in by_path else ""
            rows.append(
                f"| `{field.name}` | {_types(field.type)} | {_default(field)} | {variable} | {_says(field)} |"
            )
    if rows:
        yield f"## {header}"
        yield ""
        says = (kind.cls.__doc__ or "").partition(": ")[2]
        yield says[:1].upper() + says[1:]
        yield ""
        yield from ("| key | type | default | variable | |", "| --- | --- | --- | --- | --- |", *rows, "")
        yield from (NOTES[header],) if header in NOTES else ()
    for own, struct, name in inner:
        yield from _tables(struct, own, header=name)


def _types(kind: inspect.Type) -> str:
    beside = list_beside(kind)
    return _type(plain(kind)[0]) + (f" or {_type(beside)}" if beside else "")


def _type(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, inspect.VarTupleType):
        return f"list of {_type(plain(kind.item_type)[0])}s"
    if isinstance(kind, inspect.DictType):
        value = plain(kind.value_type)[0]
        is_list = isinstance(value, inspect.VarTupleType)
        return "table of texts or lists" if is_list else f"table of {_type(value)}s"
    return _WORDS[type(kind)]


def _default(field: inspect.Field) -> str:
    if field.required:
        return "(required)"
    if field.default is None and (remote := getattr(REMOTE, field.name, None)) is not None:
        return f"`{remote:g}`; `{getattr(LOCAL, field.name):g}` on a private address"
    if field.default is None:
        return "(absent)"
    if field.default is msgspec.NODEFAULT:
        return "`{}`"
    value = cast("object", field.default)
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{json.dumps(value)}`"


def _says(field: inspect.Field) -> str:
    assert isinstance(field.type, inspect.Metadata), f"{field.name} has no sentence"
    schema = cast("dict[str, str]", field.type.extra_json_schema or {})  # pyright: ignore[reportUnknownMemberType]
    return schema["description"]
