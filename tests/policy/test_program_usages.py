"""The table of harmless options: what it must not hold, and what a rule makes of each of its entries."""

from holdfast.policy.extra_words import first_uncovered
from holdfast.policy.program_usages import USAGES
from holdfast.policy.shell.option_tables import usage

ENTRIES = [(name, sub, table) for name, tables in USAGES.items() for sub, table in tables.items()]
# Options that run a program, load code, or read or write elsewhere.
HARMFUL = {
    "git": "--output --ext-diff --textconv --exec --upload-pack --receive-pack --open-files-in-pager -O "
    "--template"
    " --show-signature --no-index -x --strategy -s --gpg-sign -S --git-dir --work-tree -c -C",
    "rg": "--pre --pre-glob --hostname-bin --search-zip -z --hidden --no-ignore -u --follow -L",
    "sort": "--compress-program -T --temporary-directory --files0-from",
    "make": "-C --directory -f --file --makefile -I --include-dir --eval -E -e --environment-overrides -o -W",
    "npm": "--script-shell --prefix --userconfig --globalconfig --node-options --ignore-path -C",
    "cargo": "--config --manifest-path -Z --out-dir --artifact-dir --lockfile-path --open --fix",
    "go": "-exec -toolexec -C -overlay -modfile -ldflags -gcflags -asmflags -vettool -fmt -w -u=x",
    "pip": "--index-url -i --extra-index-url --find-links -f --target -t --prefix --root "
    "--global-option --config-settings",
    "uv": "--index-url --with --with-editable --python -p --directory --project --config-file",
    "pytest": "-c -p -o --rootdir --confcutdir --basetemp --override-ini --pdbcls --log-file --pastebin -W",
    "ruff": "--config --cache-dir --add-noqa --stdin-filename",
    "mypy": "--config-file --python-executable --cache-dir --custom-typeshed-dir --install-types "
    "--any-exprs-report",
    "tsc": "--plugins --tsBuildInfoFile --generateTrace --init --locale",
    "node": "-e --eval -p --print -r --require --import --loader --experimental-loader "
    "--env-file --inspect -i",
    "python": "-c -m -X -W -i -x --check-hash-based-pycs",
    "jq": "-f --from-file -L --slurpfile --rawfile --args --jsonargs",
    "fd": "-x --exec -X --exec-batch --base-directory --search-path --ignore-file",
    "grep": "-R --dereference-recursive --devices -D",
    "tree": "-o --fromfile",
    "tail": "--pid",
    "cp": "-L --dereference -H -s -l --backup -b -S",
    "tar": "--to-command -I --use-compress-program --checkpoint-action",
}
# What is one of these in one subcommand of git, and harmless in another.
ELSEWHERE = {
    ("git", "log", "-S"), ("git", "show", "-S"), ("git", "restore", "-S"), ("git", "blame", "-s"),
    ("git", "status", "-s"), ("git", "shortlog", "-s"), ("git", "commit", "-s"), ("git", "restore", "-s"),
    ("git", "revert", "-s"), ("git", "ls-files", "-s"), ("git", "ls-files", "-x"), ("git", "cat-file", "-s"),
    ("git", "blame", "-C"), ("git", "grep", "-C"), ("git", "switch", "-C"), ("git", "switch", "-c"),
    ("git", "branch", "-c"), ("git", "grep", "-c"), ("git", "ls-files", "-c"), ("git", "cherry-pick", "-x"),
    ("git", "rev-parse", "--git-dir"), ("pip", "show", "-f"),
    ("cargo", "tree", "-e"), ("ruff", "check", "-e"),
}  # fmt: skip


def test_nothing_harmful_is_in_the_table() -> None:
    found = {
        (name, sub, option)
        for name, sub, table in ENTRIES
        for option in HARMFUL.get(name, "").split()
        if table.options.get(option, "named") != "named"
    }
    assert found <= ELSEWHERE, sorted(found - ELSEWHERE)


def test_a_rule_covers_no_option_that_the_table_does_not_know() -> None:
    for name, sub, _ in ENTRIES:
        argv = (name, *sub.split())
        # Two dashes are no option, and what follows them is none to the program.
        for more in (("--no-such-option",), ("--no-such-option=x",), ("-\u00e9",), ("--", "-x")):
            word = first_uncovered((*argv, *more), len(argv), is_ordinary=lambda _: True)
            assert word in more, (*argv, *more)


def test_a_rule_covers_no_file_elsewhere_that_an_option_names() -> None:
    found: dict[tuple[str, ...], str] = {}
    for name, sub, table in ENTRIES:
        argv = (name, *sub.split())
        for option in (option for option, value in table.options.items() if value in {"read", "write"}):
            joined = f"{option}=elsewhere" if option.startswith("--") or table.whole else f"{option}elsewhere"
            for words in ((*argv, option, "elsewhere"), (*argv, joined)):
                found[words] = first_uncovered(words, len(argv), is_ordinary=lambda _: False)
    assert len(found) > 100
    assert found == {words: words[-1] for words in found}


def test_letters_and_values_are_told_apart() -> None:
    table = usage("-ab --all", "-m", values={"number": "-j", "write": "-o", "named": "-f"}, numbers=True)
    assert table.options == {
        "--all": "none", "-a": "none", "-b": "none", "-m": "text", "-j": "number", "-o": "write",
        "-f": "named",
    }  # fmt: skip
    assert usage("-run -v", whole=True).options == {"-run": "none", "-v": "none"}


def test_which_word_is_the_first_that_is_not_covered() -> None:
    first_words = {
        ("git", 1): "",
        ("git push", 1): "",
        ("git push -f", 2): "-f",
        ("git push -f origin", 3): "",
        ("git --no-pager log", 1): "",
        ("git --paginate log", 1): "--paginate",
        ("git --paginate log", 2): "",
        ("git stash list", 1): "",
        ("git stash show -p", 2): "",
        ("git nothing x", 1): "nothing",
        ("git nothing x", 2): "x",
        ("make -j", 1): "",
        ("make -j8x9", 1): "-j8x9",
        ("make -j x", 1): "x",
        ("tool -x", 2): "",
        ("tool -x y", 2): "y",
        ("tool -x -y", 2): "-y",
        ("tool a b", 1): "a",
        ("tool a b", 3): "",
        ("python -m pytest -q", 3): "",
        ("python -m pytest -q", 2): "pytest",
        ("python -m pytest -p x", 3): "-p",
        ("uv run pytest -q x", 3): "",
        ("uv run git push -f", 3): "-f",
        ("uv run git nothing", 3): "nothing",
        ("ls --color=always", 1): "",
        ("ls --color=/x", 1): "--color=/x",
        ("rg a b c", 1): "",
        ("uname x", 1): "x",
        ("echo -z", 1): "-z",
        ("head -20 a", 1): "",
        ("cat -", 1): "",
    }
    found = {
        (argv, named): first_uncovered(tuple(argv.split()), named, is_ordinary=lambda _: True)
        for argv, named in first_words
    }
    assert found == first_words
