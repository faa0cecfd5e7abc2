"""Recognizes files with secrets by their names.

A backup counts like the file that it was made from. An example (`.env.example`) holds no
secret, wherever it is, unless everything in its folder is one.
"""

import re
from collections.abc import Iterator

FILE_ONLY = "credentials"  # a secret if it is a file; packages have folders of this name
# Many of these hold no token; `holds_token` says whether one does.
MAY_BE_PLAIN = frozenset((".npmrc", ".yarnrc.yml", ".condarc", "nuget.config", "pip.conf", "pip.ini"))
# fmt: off
_PARTS = frozenset((
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", "keyrings", "kwalletd", ".vault", ".oci",
    ".bluemix", ".snowflake", ".snowsql", ".cloudflared", ".ngrok2", ".argocd", ".chef", ".talos", ".fly",
    ".mozilla", ".thunderbird", ".electrum", ".purple",
))
_TREES = (
    "/.config/gh/", "/.config/gcloud/", "/.config/hub/", "/.config/op/", "/.config/sops/",
    "/.config/rclone/", "/.config/glab-cli/", "/.config/github-copilot/", "/.config/tea/", "/.config/argocd/",
    "/.config/doctl/", "/.config/hcloud/", "/.config/linode-cli/", "/.config/netlify/", "/.config/stripe/",
    "/.config/configstore/", "/.config/ngrok/", "/.config/solana/", "/.config/helm/", "/.config/containers/",
    "/.config/io.datasette.llm/", "/.config/google-chrome/", "/.config/chromium/", "/.config/bravesoftware/",
    "/.config/bitwarden/", "/.config/1password/", "/.config/signal/", "/.config/remmina/",
    "/.wrangler/config/", "/.microsoft/usersecrets/", "/.subversion/auth/", "/.vnc/passwd/",
    "/.docker/config.json/", "/.cargo/credentials/", "/.cargo/credentials.toml/",
    "/.terraform.d/credentials.tfrc.json/", "/.ansible/galaxy_token/", "/.cache/huggingface/token/",
    "/.huggingface/token/", "/.dbt/profiles.yml/", "/.m2/settings.xml/", "/.m2/settings-security.xml/",
    "/.codex/auth.json/", "/.composer/auth.json/", "/.config/composer/auth.json/", "/.gem/credentials/",
    "/.vscode/sftp.json/", "/.idea/datasources.local.xml/", "/.idea/webservers.xml/",
)
_NAMES = frozenset((
    ".env", ".envrc", ".dev.vars", ".renviron", ".netrc", "_netrc", ".authinfo", ".pgpass", "pgpass.conf",
    ".pg_service.conf", ".my.cnf", ".mylogin.cnf", ".pypirc", ".pause", ".credentials", "auth.json",
    ".git-credentials", ".htpasswd", "htpasswd", ".htdigest", ".dockercfg", ".dockerconfigjson", ".boto",
    ".s3cfg", ".passwd-s3fs", ".terraformrc", ".databrickscfg", ".sentryclirc", ".transifexrc",
    ".clasprc.json", ".wakatime.cfg", ".claude.json", "oauth_creds.json", "kaggle.json", "rclone.conf",
    "credentials.json", "credentials.tfrc.json", "credentials.db", "credentials.xml", "secrets.json",
    "secrets.toml", "secrets.yaml", "secrets.yml", ".secrets", "kubeconfig", "kubeconfig.yaml",
    "kubeconfig.yml", "talosconfig", "token.json", "token.pickle", "local.settings.json",
    "vault.yml", "vault.yaml", ".vault-token", ".vault_pass", ".vault_pass.txt", ".vault_password",
    "vault_pass.txt", "vault_password.txt", ".vault-password", ".vault-pass", "age-key.txt",
    # settings of programs that hold a database's password
    "wp-config.php", "localsettings.php", "config.inc.php", "key.properties", "keystore.properties",
    "signing.properties", "sftp-config.json", ".ftpconfig", ".ftppass", ".remote-sync.json",
    "sitemanager.xml", "recentservers.xml", "filezilla.xml", ".dbeaver-data-sources.xml",
    # mail, keys and wallets
    ".msmtprc", ".fetchmailrc", ".mbsyncrc", ".offlineimaprc", ".cvspass", "secring.gpg", "wallet.dat",
    "otr.private_key",
    # histories
    ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history",
    ".mysql_history", ".sqlite_history", ".rediscli_history", ".irb_history", ".dbshell",
    "mongosh_repl_history",
    "api-key",
)) | MAY_BE_PLAIN
_ENDINGS = (
    ".key", ".p8", ".p12", ".pfx", ".pkcs12", ".pk8", ".snk", ".kdbx", ".kdb", ".psafe3", ".keystore", ".jks",
    ".bks", ".ppk", ".keytab", ".ovpn", ".nmconnection", ".tfstate", ".agekey", ".kubeconfig",
    ".publishsettings",
)
# Certificates of authorities, which every program may read.
_PUBLIC = frozenset(("cacert.pem", "ca-bundle.pem", "ca-certificates.pem"))
_EXAMPLES = (".example", ".sample", ".template", ".tmpl", ".dist")
_EXAMPLE_ENV = frozenset(("example.env", "sample.env", "template.env", "dist.env"))
# fmt: on
_SHAPES = re.compile(
    r"\.env[._-].*|.*\.env|\.dev\.vars\..*"
    r"|.*\.pem"
    r"|.*\.tfvars(?:\.json)?|.*\.tfstate\..*"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:[._-].*)?(?<!\.pub)"
    r"|(?:.*[-_])(?:rsa|dsa|ecdsa|ed25519)|ssh_host_.*_key|wg\d+\.conf|krb5cc_.*"
    r"|.*firebase-adminsdk.*\.json"
    r"|(?:.*[-_.])?service[-_]?account(?:[-_.].*)?\.json|client_secret.*\.json"
    r"|.*[-_.]credentials\.json",
    re.DOTALL,
)
_TREE_TOPS = frozenset(tree.split("/")[1] for tree in _TREES)
_TOKEN = re.compile(rb"_auth|password|secret|token|//[^/\s]*@", re.IGNORECASE)
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
    if not _TREE_TOPS.isdisjoint(parts) and any(tree in f"{lower}/" for tree in _TREES):
        return True
    return len(parts[-1]) <= _NAME_CHARS_MAX and any(map(_names_secret, _made_of(parts[-1])))


def holds_token(data: bytes) -> bool:
    """Whether settings that are often public hold a token or a password."""
    return _TOKEN.search(data) is not None


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
