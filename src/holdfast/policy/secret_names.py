"""Which files hold secrets, by their names.

A backup counts like the file that it was made from. An example (`.env.example`) holds no
secret, wherever it is, unless everything in its folder is one.
"""

import re
from collections.abc import Iterator

FILE_ONLY = "credentials"  # a secret if it is a file; packages have folders of this name
MAY_BE_PLAIN = frozenset((".npmrc",))  # many a repository has one without a token
# fmt: off
_PARTS = frozenset((
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", "keyrings", ".vault",
))
_TREES = (
    "/.config/gh/", "/.config/gcloud/", "/.config/hub/", "/.config/op/", "/.config/sops/",
    "/.docker/config.json/", "/.cargo/credentials/", "/.cargo/credentials.toml/",
    "/.terraform.d/credentials.tfrc.json/",
    "/.codex/auth.json/", "/.composer/auth.json/", "/.config/composer/auth.json/", "/.gem/credentials/",
)
_NAMES = frozenset((
    ".env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".npmrc", ".pypirc",
    ".git-credentials", ".htpasswd", ".dockercfg", ".dockerconfigjson", ".boto", ".s3cfg", ".terraformrc",
    "credentials.json", "credentials.tfrc.json", "credentials.db", "secrets.json", "secrets.toml",
    "secrets.yaml", "secrets.yml", ".secrets", "kubeconfig", "kubeconfig.yaml", "kubeconfig.yml",
    "vault.yml", "vault.yaml", ".vault-token", ".vault_pass", ".vault_pass.txt", ".vault_password",
    "vault_pass.txt", "vault_password.txt", ".bash_history", ".zsh_history", ".python_history",
    ".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history",
    "api-key",
))
_ENDINGS = (
    ".key", ".p12", ".pfx", ".kdbx", ".kdb", ".keystore", ".jks", ".ppk", ".ovpn", ".tfstate", ".agekey",
    ".kubeconfig",
)
# Certificates of authorities, which every program may read.
_PUBLIC = frozenset(("cacert.pem", "ca-bundle.pem", "ca-certificates.pem"))
_EXAMPLES = (".example", ".sample", ".template", ".tmpl", ".dist")
_EXAMPLE_ENV = frozenset(("example.env", "sample.env", "template.env", "dist.env"))
# fmt: on
_SHAPES = re.compile(
    r"\.env[._-].*|.*\.env"
    r"|.*\.pem"
    r"|.*\.tfvars(?:\.json)?|.*\.tfstate\..*"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:[._-].*)?(?<!\.pub)"
    r"|(?:.*[-_.])?service[-_]?account(?:[-_.].*)?\.json|client_secret.*\.json"
    r"|.*[-_.]credentials\.json",
    re.DOTALL,
)
_BACKUP = re.compile(r"(?:~|[._-](?:bak|old|orig|backup|save|saved|copy|tmp|swp|swo|\d{1,8}))$")
_BACKUPS_MAX = 3
_NAME_CHARS_MAX = 255  # no file has a longer name, so a longer text is none


def is_secret(path: str) -> bool:
    """Whether a path looks like a secret file."""
    # A disk may know no capitals.
    lower = path.lower()
    parts = lower.split("/")
    if lower.startswith("/proc/") or not _PARTS.isdisjoint(parts):
        return True
    if any(tree in f"{lower}/" for tree in _TREES):
        return True
    return len(parts[-1]) <= _NAME_CHARS_MAX and any(map(_names_secret, _made_of(parts[-1])))


def _made_of(name: str) -> Iterator[str]:
    """The name, and the names of the files that it may be a backup of."""
    yield name
    for _ in range(_BACKUPS_MAX):
        shorter = _BACKUP.sub("", name)
        if shorter == name:
            break
        name = shorter
        yield name
        yield name.removeprefix(".")  # an editor hides its copy
    yield name.strip("#")


def _names_secret(name: str) -> bool:
    if name.endswith(_EXAMPLES) or name in _EXAMPLE_ENV or name in _PUBLIC:
        return False
    return (
        name == FILE_ONLY or name in _NAMES or name.endswith(_ENDINGS) or _SHAPES.fullmatch(name) is not None
    )


def secret_globs(folder: str) -> Iterator[str]:
    """Globs, as ripgrep reads them, of most of what is secret below a folder, and of nothing that is not.

    They save the work of searching there; `is_secret` says what may be shown.
    """
    yield from sorted({*_NAMES, *_PARTS})
    yield from (f"*{ending}" for ending in _ENDINGS)
    for tree in _TREES:
        yield f"**{tree.rstrip('/')}"
        above, _, name = tree.rstrip("/").rpartition("/")
        if folder.lower().endswith(above):
            yield f"/{name}"
