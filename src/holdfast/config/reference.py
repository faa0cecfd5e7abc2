"""The configuration reference as Markdown, generated from the settings."""

import json
from collections.abc import Iterator
from typing import cast

import msgspec
from msgspec import inspect

from holdfast.config.environment import HERMES_PATIENCE, HERMES_SERVER, SPECIAL, variables
from holdfast.config.known_targets import KnownTargets, shipped_known
from holdfast.config.proxies import PROXY_VARIABLES
from holdfast.config.sources import KeyPath, dotted
from holdfast.config.validation import SETTINGS, list_beside, plain
from holdfast.decisions.deadlines import LOCAL, REMOTE

INTRO = """\
Flags override the environment (`HOLDFAST_*`), the environment overrides `holdfast.toml`, and the file
overrides the defaults. Holdfast uses the file that `--config` or `HOLDFAST_CONFIG` names; otherwise
`holdfast.toml` in the working directory, if you have trusted it (`holdfast config trust`; if the file
changes, trust it again); otherwise `~/.config/holdfast/holdfast.toml`. It reads everything once, at the
start. A wrong key, type or value is an error that names the file, the line and the nearest valid key.
`holdfast config check` prints the settings in effect and where each one comes from. A secret is `env:NAME`,
`file:PATH` (relative to the configuration file), or the text itself. Other relative paths start from the
working directory; a leading `~` is your home directory. The file tools never open the configuration file or
the data directory, and Holdfast asks before a command that names the file.
"""
RULES_NOTE = """\
The first matching rule decides. A rule that allows a command covers the words in its `argv`, plus words
that can do no harm: files in the workspace (except secret files and git's own) and options that are known
to be harmless. Holdfast still asks about a word that writes elsewhere, runs another program, reads settings
from another file or reaches another host, and the question names that word. To allow it, add it to `argv`.
With `exact = true` the rule covers the words in `argv` and nothing else.

```toml
[[approvals.rules]]
allow = "shell"
argv = ["git", "log"]
```

This rule covers `git log --oneline -5 src/app.py`. It does not cover `git log --output=/home/you/.bashrc`.

Harmless options are known for `git`, for programs that read (`ls`, `cat`, `grep`, `rg`, `sort`, `diff` and
so on) and for `cp`, `mv`, `rm`, `mkdir`, `make`, `npm`, `pnpm`, `yarn`, `cargo`, `go`, `pip`, `uv`,
`pytest`, `ruff`, `mypy`, `tsc`, `jq`, `node` and `python`. For common formatters and linters (`black`,
`eslint`, `prettier` and so on), a rule covers files of the workspace, but no options. For every other program
or subcommand, it covers only the words it names, because any other word may be an instruction: `sqlite3 x.db
'.shell …'`, `git bisect run …`, `mvn exec:exec`.

In every mode, Holdfast asks before a command reads a secret file: `.env`, keys, tokens,
`terraform.tfstate`, `kubeconfig` and so on, but not `.env.example`. It also asks if the command does not
name the file: `grep -r` above such a file, `git log -p` in a repository that has or had one, `git remote
-v` if an address holds a password. Where the sandbox keeps a command from reading the file, it doesn't ask.
"""
NOTES = {"[[approvals.rules]]": RULES_NOTE}
KNOWN_INTRO = """\
If you configure no target, each of these keys that is set makes one, in this order; the first is the default.
A second variable can name another address, as in other programs. If none of them is set, Holdfast looks for
model servers on this machine ({local}).
If there are none, the built-in demo model answers.
"""
FOLDER = {"XDG_CONFIG_HOME": "The folder that contains `holdfast/holdfast.toml`, if not `~/.config`."}
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
    lines += ["## Other variables", "", "| variable | what it does |", "| --- | --- |"]
    lines += [f"| `{name}` | {says} |" for name, says in (SPECIAL | FOLDER | PROXY_VARIABLES).items()]
    lines += ["", "## Targets without a configuration", "", *_known(shipped_known())]
    lines += ["", "## Variables of hermes-agent, used if nothing else sets the setting", ""]
    lines += ["| variable | setting |", "| --- | --- |"]
    lines += [
        f"| `{knob.variable}` | `targets.patience.{knob.key}` ({', '.join(knob.wires)}) |"
        for knob in HERMES_PATIENCE
    ]
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
