"""Files that other programs run or obey after the session: hooks, editor settings, instructions for agents.

A change to such a file takes effect when nobody is watching: at the next commit, when an editor opens the
folder, on a build server, when the next agent reads its instructions. So every mode asks about it.
Files that are built, tested and run all day are not listed (sources, `package.json`, `conftest.py`): letting
programs of the workspace run means trusting them.
"""

import re
from typing import TYPE_CHECKING

from holdfast.interfaces.workspace_paths import is_repository_file

if TYPE_CHECKING:
    from holdfast.policy.path_facts import PathFacts

HG_PROTECTED = ("hgrc", "hgrc-not-shared")  # files in .hg that can name programs to run
# fmt: off
# Folders of which every file counts, at any depth.
_FOLDERS = frozenset((
    ".husky", ".githooks", ".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".claude", ".agents",
    ".codex", ".cursor", ".gemini", ".windsurf", ".clinerules", ".roo", ".continue", ".kiro", ".circleci",
    ".buildkite", ".woodpecker", ".lefthook", ".direnv", ".opencode", ".junie", ".run", ".vs", ".vim",
    ".mise", ".qwen", ".crush", ".amazonq", ".augment", ".trae", ".openhands", ".factory", ".warp", ".qoder",
    ".kilocode", ".aiassistant", ".zencoder", ".copilot", ".semaphore", ".teamcity", ".buddy", ".builds",
    ".tekton", ".harness", ".dagger", ".azure-pipelines", ".azuredevops", ".gitpod", ".idx", ".codesandbox",
    ".nova", ".theia", ".helix", ".mvn", ".fossil-settings", ".flox",
    ".ipython", ".amp", ".holdfast",
))
# Folders that count only in this place.
_TREES = (
    ".github/workflows", ".github/actions", ".github/instructions", ".github/prompts", ".github/agents",
    ".github/chatmodes", ".github/hooks", ".github/skills", ".gitea/workflows", ".gitea/actions",
    ".forgejo/workflows", ".forgejo/actions", ".gitlab/ci", ".config/git",
    ".cargo/config", ".cargo/config.toml", ".config/mise", ".config/fish", ".config/autostart",
    ".config/systemd", ".yarn/releases", ".yarn/plugins", ".gradle/init.d", "gradle/wrapper",
    ".bundle/config", "fastlane/fastfile",
    # other version control: files that can name programs to run
    *(f".hg/{name}" for name in HG_PROTECTED), ".sl/config", ".jj/repo/config.toml", ".jj/config.toml",
    ".bzr/branch/branch.conf", "_darcs/prefs", ".pijul/config",
)
_NAMES = frozenset((
    # what agents are told
    "agents.md", "agents.override.md", "agent.md", "claude.md", "claude.local.md", "gemini.md", "qwen.md",
    "crush.md", "warp.md", "replit.md", "copilot-instructions.md", ".cursorrules", ".windsurfrules",
    ".clinerules", ".goosehints", ".rules", ".roomodes", ".roorules", ".kilocodemodes",
    ".augment-guidelines", ".openhands_instructions", ".mcp.json", "crush.json", ".crush.json",
    "opencode.json", "opencode.jsonc", ".aider.conf.yml", ".aider.conf.yaml", "conventions.md",
    # version control hooks
    ".gitattributes", ".gitmodules", ".gitconfig", ".lfsconfig", ".pre-commit-config.yaml",
    ".pre-commit-config.yml", ".pre-commit-hooks.yaml", ".pre-commit-hooks.yml", "prek.toml",
    ".overcommit.yml", ".hgrc", ".hgsub", ".mrconfig", ".arcconfig", ".arclint",
    # what build servers run
    ".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", ".travis.yaml", "azure-pipelines.yml",
    "azure-pipelines.yaml", "bitbucket-pipelines.yml", "bitbucket-pipelines.yaml", "jenkinsfile",
    ".drone.yml", ".drone.yaml", ".drone.jsonnet", ".drone.star", ".cirrus.yml", ".cirrus.yaml",
    ".cirrus.star", "appveyor.yml", "appveyor.yaml", ".appveyor.yml", ".appveyor.yaml", ".woodpecker.yml",
    ".woodpecker.yaml", "cloudbuild.yaml", "cloudbuild.yml", "cloudbuild.json", "circle.yml", "wercker.yml",
    "codemagic.yaml", "bitrise.yml", ".bitrise.yml", "buddy.yml", "buildspec.yml", "buildspec.yaml",
    "appspec.yml", "appspec.yaml", "amplify.yml", ".build.yml", "screwdriver.yaml", "shippable.yml",
    "codeship-services.yml", "codeship-steps.yml", "dagger.json", ".readthedocs.yml", ".readthedocs.yaml",
    "netlify.toml", "vercel.json", "render.yaml", "heroku.yml", "railway.json", "railway.toml",
    "nixpacks.toml", ".goreleaser.yml", ".goreleaser.yaml",
    # run when a folder, a shell or a debugger is opened
    ".autoenv", ".autoenv.zsh", "mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml",
    ".rtx.toml", ".tool-versions", ".rvmrc", ".ondirrc", ".powrc", ".powenv", "shell.nix", "flake.nix",
    "devenv.nix", "devbox.json", ".devcontainer.json", "devcontainer.json", ".gitpod.yml", ".replit",
    "replit.nix", "devfile.yaml", ".devfile.yaml",
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases",
    ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".kshrc",
    ".inputrc", ".exrc", ".vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".lazy.lua", ".emacs",
    ".dir-locals.el", ".dir-locals-2.el", ".ycm_extra_conf.py", ".vimspector.json", "coc-settings.json",
    ".gdbinit", ".lldbinit", ".pdbrc", ".pryrc", ".irbrc", ".byebugrc", ".rprofile", ".ghci", ".ocamlinit",
    ".sqliterc", ".psqlrc", ".tmux.conf", ".screenrc", ".ssh", ".xprofile", ".xinitrc", ".xsession",
    ".lvimrc", ".local.vimrc",
    # what starts in place of a known program, or with each of them
    ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", ".npmrc", "bunfig.toml", "rust-toolchain",
    "rust-toolchain.toml", "sitecustomize.py", "usercustomize.py", ".proverc", "init.gradle",
    # what a person starts by one word
    "makefile", "gnumakefile", "bsdmakefile", "makefile.toml", "justfile", ".justfile", "rakefile",
    "rakefile.rb", "taskfile.yml", "taskfile.yaml", "taskfile.dist.yml", "taskfile.dist.yaml",
    "vagrantfile", "procfile", "procfile.dev", "fabfile.py", "thorfile", "guardfile", "capfile", "tiltfile",
    "earthfile", "dangerfile", "mprocs.yaml", "process-compose.yml", "process-compose.yaml",
    "noxfile.py", "magefile.go", "snakefile",
    # what shells and downloads are told
    "config.fish", ".wgetrc", ".curlrc",
    # what names programs or code to start for file watchers and linters
    ".watchmanconfig", ".pylintrc", "pylintrc",
))
# Programs look for these only where they are started; elsewhere the names are common, or mean nothing.
_AT_THE_TOP = frozenset(("tasks.py", "dodo.py", "holdfast.toml"))
# fmt: on
_ENDINGS = (".code-workspace", ".sublime-project", ".pth", ".mk", ".just", ".bazelrc")
_BEGINNINGS = (
    ".envrc",
    "gulpfile.",
    "gruntfile.",
    ".lintstagedrc",
    "lint-staged.config.",
    ".huskyrc",
    "lefthook.",
    ".lefthook.",
    "lefthook-local.",
    ".lefthook-local.",
)
# Of git's own folder: what names programs, or says where the rest is.
GIT_PROTECTED = ("config", "config.worktree", "commondir", "gitdir", "hooks", "info", "modules")
GIT_ALTERNATES = "objects/info/alternates"
WORKTREE_PROTECTED = "config.worktree"
# Build programs write these into their output folders, where nobody starts them by one word.
_BUILT = frozenset(("makefile", "gnumakefile", "bsdmakefile"))
_BUILT_ENDINGS = (".mk", ".pth")
_ABOVE = frozenset(tree.partition("/")[0] for tree in _TREES)
_FOLDERS_OF_TREES = frozenset(
    tuple(tree.split("/")[:depth]) for tree in _TREES for depth in range(1, tree.count("/") + 1)
)
_PACKED = re.compile(r"(?:[._-]z|[.-]gz|\.(?:bz2?|xz|zstd?|lz4|lzma|lzo?|br))$", re.IGNORECASE)
# What a program that numbers its files adds to a name: more letters would take too many files.
_COUNTED = re.compile(r"[a-z0-9]{1,5}")


def is_autorun(path: str) -> bool:
    """Whether a change to this path, relative to the workspace, takes effect after the session."""
    lower = path.lower()
    parts = lower.split("/")
    name = parts[-1]
    if name in _NAMES or name.endswith(_ENDINGS) or name.startswith(_BEGINNINGS):
        return True
    if name in _AT_THE_TOP and lower.strip("/") == name:
        return True
    if is_repository_file(path):
        return True
    if not _FOLDERS.isdisjoint(parts):
        return True
    return not _ABOVE.isdisjoint(parts) and any(f"/{tree}/" in f"/{lower}/" for tree in _TREES)


def is_protected(path: str) -> bool:
    """Whether a sandboxed command may not change this path, relative to the workspace.

    As `is_autorun`, but git can do its work in its own folder, and build programs in theirs.
    """
    lower = path.lower()
    parts = lower.split("/")
    if ".git" in parts:
        after = parts[parts.index(".git") + 1 :]
        of_worktree = after[:1] == ["worktrees"] and after[2:] == [WORKTREE_PROTECTED]
        return not after or after[0] in GIT_PROTECTED or of_worktree or "/".join(after) == GIT_ALTERNATES
    if len(parts) > 1 and (parts[-1] in _BUILT or parts[-1].endswith(_BUILT_ENDINGS)):
        return not _FOLDERS.isdisjoint(parts)
    return is_autorun(path)


def is_protected_link(path: str) -> bool:
    """Whether a link at this path puts files where they are protected, whatever they are called elsewhere."""
    parts = path.lower().split("/")
    return any(tuple(parts[-len(folders) :]) == folders for folders in _FOLDERS_OF_TREES)


def may_become_autorun(path: str, ending: str = "") -> bool:
    """Whether a path becomes such a file once a counter and then this ending are added to its name."""
    name = path.lower().rpartition("/")[2]
    whole = [each.removeprefix(name) for each in _NAMES | _FOLDERS | {*_BEGINNINGS} if each.startswith(name)]
    # Of an ending, a part may stand there already.
    parts = [each[at:] for each in _ENDINGS for at in range(len(each)) if name.endswith(each[:at]) or at == 0]
    return any(
        rest.endswith(ending.lower()) and _COUNTED.fullmatch(rest[: len(rest) - len(ending)])
        for rest in (*whole, *parts)
    )


def may_hold_autorun(path: str) -> bool:
    """Whether a folder with this name has its own list of names."""
    return path.lower().rpartition("/")[2] in _ABOVE


def unpacked(path: str) -> str:
    """The name of a compressed file once it is unpacked."""
    return _PACKED.sub("", path)


def autorun_in(path: str, facts: "PathFacts") -> bool:
    """Whether a resolved path is such a file in the workspace; folders above the workspace do not count."""
    if is_repository_file(path):
        return True
    return facts.inside(path) and is_autorun(path[len(facts.workspace) :])


def makes_repository(path: str) -> bool:
    """Whether the file can make its folder a repository, in which git obeys `config` and `hooks`."""
    return path.lower().rpartition("/")[2] == "head"


def written_later(path: str) -> str:
    """The reason to ask about a change to such a file."""
    if is_repository_file(path):
        return f"{path} is one of git's own files."
    return f"{path} takes effect after this session: other programs read or run it later."
