"""Which files count as secret by their names."""

from holdfast.policy.secret_names import holds_token, is_secret

# fmt: off
SECRET = (
    "wp-config.php", "AuthKey_1.p8", "rclone.conf", ".config/rclone/x", "keys/deploy_ed25519", "db.keytab",
    ".dev.vars", ".dev.vars.staging", "auth.json", "wp-config.php.bak", "app-firebase-adminsdk-1.json",
    ".m2/settings.xml", ".vscode/sftp.json", "local.settings.json", "key.properties", ".Renviron", "wg0.conf",
    "home/.mozilla/x/logins.json", ".Config/Chromium/Default/Cookies", "ssh_host_rsa_key", "token.json",
)
ORDINARY = (
    "wp-config-sample.php", "settings.xml", "deploy_ed25519.pub", "src/rsa.py", "tests/test_ecdsa.py",
    "keys.md", "tokens.json", "config.toml", "sftp.json", "rsa", ".config/x", "publickey",
)
# fmt: on


def test_a_well_known_secret_file_is_secret() -> None:
    """P11, P13."""
    assert [name for name in SECRET if not is_secret(f"/{name}")] == []


def test_a_file_with_a_similar_name_is_not() -> None:
    assert [name for name in ORDINARY if is_secret(f"/{name}")] == []


def test_settings_are_secret_if_they_hold_a_token() -> None:
    settings = {
        "save-exact=true": False,
        "//registry.example/:_authToken=x": True,
        '<add key="ClearTextPassword" value="x" />': True,
        "index-url = https://user:x@packages.example/simple": True,
        "index-url = https://packages.example/simple": False,
    }
    assert {text: holds_token(text.encode()) for text in settings} == settings
