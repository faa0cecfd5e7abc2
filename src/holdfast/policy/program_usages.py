"""The harmless options of programs, as data: program, subcommand, option, and what the option's value is.

It says which further words a rule for a program covers, and which a grant for similar commands covers. An
option that is not listed may write elsewhere, run a program or read its settings from another file. A program
or subcommand without an entry is covered only word by word.
"""

from collections.abc import Mapping
from types import MappingProxyType

from holdfast.policy.shell.option_tables import READERS, ProgramUsage, Value, usage
from holdfast.policy.shell.read_only_programs import GIT_READERS

# Formatters and checkers: every word that is no option is a file, and no option is known to be harmless.
_CHECKERS = (
    *("black", "isort", "flake8", "pylint", "pyflakes", "pycodestyle", "pyright", "basedpyright", "yamllint"),
    *("eslint", "prettier", "stylelint", "markdownlint", "gofmt", "rustfmt", "clang-format", "shellcheck"),
    *("shfmt", "hadolint", "rubocop"),
)
_BRANCHES = "-qvf --quiet --verbose --progress --no-progress"
_GIT_CHANGES: dict[str, ProgramUsage] = {
    "add": usage(
        "-AnuvpNf --all --update --dry-run --verbose --intent-to-add --force --renormalize",
        similar="-AnuvN --all --update --dry-run --verbose --intent-to-add",
        covers="git add src/other.py",
        asks="git add --force src/other.py",
    ),
    "apply": usage("-Rv --check --stat --index --cached --reverse --verbose --3way"),
    "branch": usage(
        "-arvdmMDcl --all --remotes --list --verbose --show-current --no-color --delete --move "
        "--copy --force",
        "--sort --format --contains --merged --no-merged --points-at -u --set-upstream-to",
        similar="",
        covers="git branch other-name",
        asks="git branch -D other-name",
    ),
    "checkout": usage(f"{_BRANCHES} -b --track --no-track --ours --theirs --detach", "-B --orphan"),
    "cherry-pick": usage("-nxe --no-commit --abort --continue --quit --skip --ff"),
    "clean": usage("-ndfq --dry-run --force --quiet", "-e --exclude", values={"named": "-xXi"}),
    "commit": usage(
        "-aqvns --all --amend --no-edit --allow-empty --quiet --verbose --signoff --dry-run --no-verify "
        "--no-gpg-sign --short --porcelain",
        "-m --message --author --date --fixup --squash",
        values={"read": "-F --file"},
        similar="-aqvsmF --all --quiet --verbose --signoff --allow-empty --dry-run --message --file",
        covers="git commit -m 'Another message'",
        asks="git commit --amend",
    ),
    "fetch": usage(
        f"{_BRANCHES} -pt --all --prune --tags --no-tags --dry-run --unshallow", operands="remote"
    ),
    "init": usage("-q --quiet", "-b --initial-branch"),
    "merge": usage("-nqv --no-commit --no-ff --ff --ff-only --squash --abort --continue --stat", "-m"),
    "mv": usage("-fknv --force --dry-run --verbose"),
    "pull": usage(
        f"{_BRANCHES} -r --rebase --no-rebase --ff-only --no-ff --tags --prune --all", operands="remote"
    ),
    "push": usage(
        "-qvnu --quiet --verbose --dry-run --set-upstream --tags --follow-tags --progress",
        values={"named": "-fd --force --force-with-lease --delete --mirror --all --prune --no-verify"},
        operands="remote",
    ),
    "rebase": usage(
        "-qv --abort --continue --skip --quit --autostash --no-autostash --quiet --verbose",
        "--onto",
        values={"named": "-ir --interactive --rebase-merges --autosquash"},
    ),
    "reset": usage("-qN --soft --mixed --hard --keep --merge --quiet --no-refresh"),
    "restore": usage("-SWq --staged --worktree --quiet --ours --theirs", "-s --source"),
    "revert": usage("-ns --no-commit --no-edit --signoff --abort --continue --quit --skip"),
    "rm": usage("-frnq --cached --force --dry-run --quiet --ignore-unmatch"),
    "stash": usage("-uakq --include-untracked --all --keep-index --quiet", "-m --message"),
    "switch": usage(f"{_BRANCHES} -d --detach --guess --no-guess", "-cC --create --force-create --orphan"),
    "tag": usage(
        "-alfdn --annotate --list --force --delete",
        "-m --message --sort --format --contains",
        similar="-am --annotate --message",
        covers="git tag -a v2 -m 'Second release'",
        asks="git tag -d v2",
    ),
    "worktree": usage("-fd --force --detach", "-bB"),
}
_NODE = "-s --silent --if-present --offline --prefer-offline --json --workspaces --ignore-scripts"
_NODE_PATHS: Mapping[Value, str] = MappingProxyType({"read": "-w --workspace"})
_PACKAGES = "-DEP --save-dev --save-exact --no-save --save --omit --no-audit --no-fund --frozen-lockfile"
_NPM: dict[str, ProgramUsage] = {
    "": usage("-v --version"),
    **dict.fromkeys(("test", "start", "run", "run-script", "stop", "t"), usage(_NODE, values=_NODE_PATHS)),
    **dict.fromkeys(
        ("ci", "install", "i", "ls", "list", "audit", "outdated", "prune"),
        usage(f"{_NODE} {_PACKAGES}", values=_NODE_PATHS, operands="none"),
    ),
}
_CARGO_FLAGS = (
    "-qvr --quiet --verbose --release --all --workspace --all-targets --lib --bins --tests "
    "--examples --benches "
    "--all-features --no-default-features --locked --offline --frozen --keep-going --no-run "
    "--no-fail-fast --doc"
)
_CARGO_VALUED = (
    "-pF --package --exclude --features --bin --test --example --bench --profile --message-format --color"
)
_CARGO = usage(_CARGO_FLAGS, _CARGO_VALUED, values={"number": "-j --jobs", "write": "--target-dir"})
_CARGO_ALL: dict[str, ProgramUsage] = {
    "": usage("-V --version --list"),
    **dict.fromkeys(
        ("build", "b", "check", "c", "test", "t", "run", "r", "bench", "clippy", "doc", "clean"), _CARGO
    ),
    "fmt": usage("-v --all --check --verbose", "-p --package"),
    "metadata": usage("--no-deps --locked --offline", "--format-version"),
    "tree": usage(
        "--all-features --locked --offline -d --duplicates", "-pie --package --invert --edges --depth"
    ),
}
_GO_BUILD = usage(
    "-v -x -n -a -race -cover -short -json -failfast -i -trimpath",
    "-run -bench -skip -tags -timeout -covermode",
    values={"number": "-count -p -parallel -cpu", "write": "-o -coverprofile"},
    whole=True,
    operands="local",
)
_GO: dict[str, ProgramUsage] = {
    **dict.fromkeys(("build", "test", "run"), _GO_BUILD),
    "vet": usage("-v -n -x -json", "-tags", whole=True, operands="local"),
    "fmt": usage("-n -x", whole=True, operands="local"),
    "list": usage("-json -deps -test -e", "-f -tags", whole=True, operands="local"),
    "version": usage("-m -v", whole=True),
    "env": usage("-json", whole=True, operands="text"),
    "doc": usage("-all -short -src -u", whole=True, operands="text"),
}
_PIP: dict[str, ProgramUsage] = {
    "": usage("-V --version"),
    "list": usage("-l --local --not-required", "--format", operands="none"),
    "freeze": usage("-l --local --all", operands="none"),
    "show": usage("-fv --files --verbose", operands="text"),
    "check": usage("-qv --verbose --quiet", operands="none"),
    "install": usage(
        "-qvU --quiet --verbose --upgrade --no-deps --no-cache-dir --require-hashes --dry-run",
        values={"read": "-re --requirement --editable"},
        operands="none",
    ),
}
_UV: dict[str, ProgramUsage] = {
    "": usage("-V --version"),
    "sync": usage(
        "-qv --frozen --locked --all-extras --all-groups --no-dev --dry-run",
        "--extra --group",
        operands="none",
    ),
    "lock": usage("-qv --check --dry-run --offline", operands="none"),
    "tree": usage("-q --frozen --invert", "--depth --package", operands="none"),
    "build": usage("-qv --sdist --wheel", values={"write": "-o --out-dir"}),
    "version": usage("--short", operands="none"),
}
_MAKE = usage(
    "-sknBiqrRw --silent --quiet --keep-going --dry-run --just-print --always-make --ignore-errors "
    "--no-print-directory --print-directory --no-builtin-rules --question --trace --output-sync",
    values={"number": "-jl --jobs --load-average"},
    operands="targets",
)
_PYTEST = usage(
    "-qvsxlh --quiet --verbose --exitfirst --lf --last-failed --ff --failed-first --nf "
    "--new-first --sw --stepwise "
    "--collect-only --co --no-header --no-summary --strict-markers --runxfail "
    "--disable-warnings --version --fixtures "
    "--showlocals --cache-clear --no-cov --help --markers",
    "-kmrn --tb --color --durations-min --capture --dist --import-mode --show-capture --timeout",
    values={
        "number": "--maxfail --durations --numprocesses --randomly-seed",
        "read": "--ignore --deselect --cov",
        "write": "--junitxml --junit-xml --cov-report",
    },
)
_RUFF: dict[str, ProgramUsage] = {
    "": usage("-V --version"),
    "check": usage(
        "-qves --fix --no-fix --diff --show-files --show-settings --statistics --exit-zero "
        "--quiet --verbose --watch "
        "--no-cache --isolated --unsafe-fixes --preview --exit-non-zero-on-fix",
        "--select --ignore --extend-select --output-format --target-version --line-length --per-file-ignores",
        values={"write": "-o --output-file"},
    ),
    "format": usage(
        "-qv --check --diff --quiet --verbose --no-cache --isolated --preview",
        "--line-length --target-version",
    ),
    "rule": usage("--all", "--output-format", operands="text"),
}
_MYPY = usage(
    "-v --verbose --strict --version --pretty --no-pretty --show-error-codes "
    "--no-error-summary --ignore-missing-imports "
    "--no-incremental --check-untyped-defs --warn-unused-ignores --namespace-packages "
    "--explicit-package-bases --stats",
    "-mp --module --package --python-version --platform --exclude --follow-imports --disable-error-code "
    "--enable-error-code",
)
_TSC = usage(
    "-bwv --build --watch --noEmit --strict --pretty --listFiles --skipLibCheck --version "
    "--incremental --declaration "
    "--sourceMap --noUnusedLocals --noUnusedParameters --force --clean --dry --verbose",
    "--target --module --jsx --lib --moduleResolution",
    values={"read": "-p --project --rootDir", "write": "--outDir --outFile"},
)
_FILES: dict[str, ProgramUsage] = {
    "rm": usage("-firRvdI --force --interactive --recursive --verbose --dir"),
    "rmdir": usage(
        "-pv --parents --verbose",
        similar="-v --verbose",
        covers="rmdir other/folder",
        asks="rmdir /tmp/folder",
    ),
    "mkdir": usage(
        "-pv --parents --verbose",
        "-m --mode",
        similar="-pv --parents --verbose",
        covers="mkdir -p other/folder",
        asks="mkdir /tmp/folder",
    ),
    "touch": usage(
        "-acm --no-create",
        "-dt --date",
        values={"read": "-r --reference"},
        similar="-acm --no-create",
        covers="touch other.txt",
        asks="touch AGENTS.md",
    ),
    "cp": usage(
        "-aRrpvfinuTPd --recursive --verbose --force --no-clobber --update --archive",
        values={"write": "-t --target-directory"},
        similar="-aRrpvinuTPdt --recursive --verbose --no-clobber --update --archive --target-directory",
        covers="cp old.txt new.txt",
        asks="cp old.txt /tmp",
    ),
    "mv": usage(
        "-vfinuT --verbose --force --no-clobber --update",
        values={"write": "-t --target-directory"},
        similar="-vinuTt --verbose --no-clobber --update --target-directory",
        covers="mv old.txt new.txt",
        asks="mv old.txt AGENTS.md",
    ),
    "ln": usage("-sfvnrT --symbolic --force --verbose --relative"),
    "chmod": usage("-Rcvf --recursive --changes --verbose --quiet"),
    "tee": usage("-ai --append"),
    "gzip": usage("-dkfvc123456789 --decompress --keep --force --stdout"),
    "gunzip": usage("-kfvc --keep --force --stdout"),
}
_FD = usage(
    "-HIaglsu0pFi --hidden --no-ignore --absolute-path --glob --list-details --case-sensitive --ignore-case "
    "--full-path --follow --print0",
    "-tedEcS --type --extension --max-depth --min-depth --exclude --color --size --changed-within",
    operands="pattern",
)

USAGES: Mapping[str, Mapping[str, ProgramUsage]] = MappingProxyType(
    {
        **{name: {"": table} for name, table in READERS.items()},
        **{name: {"": table} for name, table in _FILES.items()},
        "git": {
            "": usage("-P --no-pager --no-optional-locks --literal-pathspecs --version"),
            **GIT_READERS,
            **_GIT_CHANGES,
        },
        "fd": {"": _FD},
        "fdfind": {"": _FD},
        "make": {"": _MAKE},
        "gmake": {"": _MAKE},
        "npm": _NPM,
        "pnpm": _NPM,
        "yarn": _NPM,
        "cargo": _CARGO_ALL,
        "go": _GO,
        "pip": _PIP,
        "uv": _UV,
        "pytest": {"": _PYTEST},
        "py.test": {"": _PYTEST},
        "ruff": _RUFF,
        "mypy": {"": _MYPY},
        "tsc": {"": _TSC},
        "node": {"": usage("-vhc --version --check --test --help --enable-source-maps", operands="script")},
        "python": {"": usage("-VhBEIOPsSuvbdq --version --help", operands="script")},
        **{name: {"": usage()} for name in _CHECKERS},
    }
)
# Behind these words stands the program that really runs, with words of its own.
RUNS_ANOTHER: frozenset[tuple[str, str]] = frozenset(
    (
        ("python", "-m"),
        ("uv", "run"),
        ("poetry", "run"),
        ("pdm", "run"),
        ("pipenv", "run"),
        ("bundle", "exec"),
    )
)
# Programs that build and test: they run code of the workspace, so only a sandbox makes them harmless.
RUNNERS: frozenset[tuple[str, ...]] = frozenset(
    (
        *((name,) for name in ("make", "gmake", "pytest", "py.test", "mypy", "tsc")),
        *((name, sub) for name in ("npm", "pnpm", "yarn") for sub in ("test", "t", "run", "run-script")),
        *(
            ("cargo", sub)
            for sub in ("build", "b", "check", "c", "test", "t", "bench", "clippy", "doc", "fmt")
        ),
        *(("go", sub) for sub in ("build", "test", "vet", "fmt")),
        *(("ruff", sub) for sub in ("check", "format")),
    )
)
