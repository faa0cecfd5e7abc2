"""Keys: who may come in, where secrets come from, and that they get out nowhere."""

from pathlib import Path

from config.given import FILE, LONG_KEY, TARGET, given, loaded, refused
from holdfast.config.load import ConfigFile, ConfigInputs, load
from holdfast.config.secret_values import TextFile
from holdfast.config.settings import Secret
from holdfast.config.target_secrets import is_secret_header, names_secret
from tables import for_each_row


@for_each_row("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_on_loopback_no_key_is_needed_and_a_short_one_is_a_warning(host: str) -> None:
    assert loaded(f"[server]\nhost = '{host}'\n").settings.server.api_keys is None
    assert loaded(f"[server]\nhost = '{host}'\napi_keys = []\n").settings.server.api_keys == ()
    it = loaded(f"[server]\nhost = '{host}'\napi_keys = ['sk-secret']\n")
    assert it.warnings == (f"{FILE}, line 3: server.api_keys[0] has fewer than 16 characters",)


@for_each_row("host", ["0.0.0.0", "::", "192.168.1.2", "box.example.com"])  # noqa: S104
@for_each_row(
    ("keys", "words"),
    [
        ("", "line 2: server.host is not loopback, so api_keys needs a key"),
        ("api_keys = []", "line 3: server.api_keys can be empty only on loopback"),
        ("api_keys = ['sk-secret']", "line 3: server.api_keys[0] has fewer than 16 characters"),
        ("api_keys = ['']", "line 3: server.api_keys[0] must not be empty"),
    ],
)
def test_elsewhere_a_key_of_some_length_is_needed(host: str, keys: str, words: str) -> None:
    assert words in refused(given(f"[server]\nhost = '{host}'\n{keys}\n"))
    assert load(given(f"[server]\nhost = '{host}'\napi_keys = ['{LONG_KEY}']\n")).warnings == ()


def test_an_open_server_does_not_let_every_web_page_in() -> None:
    text = "[server]\napi_keys = []\ncors_origins = ['*']\n"
    assert "line 3: server.cors_origins must not be * while api_keys is empty" in refused(given(text))


def test_an_empty_variable_never_opens_the_server() -> None:
    it = loaded(environ={"HOLDFAST_API_KEYS": " ", "HOLDFAST_NO_AUTH": "0"})
    assert it.settings.server.api_keys is None
    assert loaded(environ={"HOLDFAST_NO_AUTH": "1"}).settings.server.api_keys == ()
    both = loaded(environ={"HOLDFAST_NO_AUTH": "1", "HOLDFAST_API_KEYS": LONG_KEY})
    assert both.settings.server.api_keys == (LONG_KEY,)


def test_a_variable_with_one_key_counts_where_no_list_is_given() -> None:
    environ = {"HOLDFAST_API_KEY": LONG_KEY}
    assert loaded(environ=environ).settings.server.api_keys == (LONG_KEY,)
    assert loaded("[server]\napi_keys = []\n", environ=environ).settings.server.api_keys == ()


def test_a_secret_comes_from_a_variable_from_the_first_line_of_a_file_or_as_it_stands() -> None:
    text = """
[server]
api_keys = ["env:A", "file:keys/b", "file:~/c", "the text itself, not"]
""".replace("the text itself, not", LONG_KEY)
    files = {
        "/etc/hf/keys/b": TextFile(f"{LONG_KEY}-b\nmore\n"),
        "/home/u/c": TextFile(f"  {LONG_KEY}-c", open_to_all=True),
    }
    it = loaded(text, environ={"A": f"{LONG_KEY}-a\n"}, files=files)
    assert it.settings.server.api_keys == tuple(f"{LONG_KEY}{end}" for end in ("-a", "-b", "-c", ""))
    assert it.warnings == (
        (
            f"{FILE}, line 3: server.api_keys[2] is in /home/u/c, which any user on this machine can read; "
            "run `chmod 600` on it"
        ),
    )


def test_a_file_that_a_variable_names_is_looked_for_where_we_are() -> None:
    """What the configuration file names lies beside it."""
    keys = {"key": TextFile(f"{LONG_KEY}-here"), "/etc/hf/key": TextFile(f"{LONG_KEY}-beside")}
    text = "[server]\napi_keys = ['file:key']\n"
    assert loaded(text, files=keys).settings.server.api_keys == (f"{LONG_KEY}-beside",)
    by_variable = loaded(text, environ={"HOLDFAST_API_KEYS": "file: key"}, files=keys)
    assert by_variable.settings.server.api_keys == (f"{LONG_KEY}-here",)


@for_each_row(
    ("key", "words"),
    [
        ("env:EMPTY", "names the environment variable EMPTY, which is empty"),
        ("file:empty", "names the file /etc/hf/empty, which is empty"),
    ],
)
def test_a_reference_to_nothing_is_refused(key: str, words: str) -> None:
    text = TARGET.replace("sk-of-main-target", key)
    environ, files = {"EMPTY": " "}, {"/etc/hf/empty": TextFile("\n")}
    assert words in refused(given(text, environ=environ, files=files))


def test_no_secret_is_in_a_repr_or_a_refusal() -> None:
    text = """
[server]
host = "0.0.0.0"
api_keys = ["hunter2"]
port = "hunter2"
[[targets]]
name = "main"
wire = "hunter2"
base_url = "https://hunter2@x/hunter2"
model = "m"
api_key = "hunter2 hunter2"
headers = { A = "hunter2", B = "hunter2\\u0007hunter2" }
[[mcp_servers]]
name = "a"
url = "http://hunter2:hunter2@x"
env = { A = "hunter2" }
"""
    told = refused(given(text))
    assert len(told.splitlines()) == 6
    assert "hunter2" not in told
    it = loaded(TARGET.replace("sk-of-main-target", "hunter2") + "headers = { A = 'hunter2' }\n")
    assert "hunter2" not in repr(it)
    assert "hunter2" not in repr(it.settings.model_targets())
    assert "hunter2" not in repr(given(TARGET + "# hunter2", environ={"A": "hunter2"}))
    assert f"{Secret('hunter2')!r}" == "Secret('…')"


def test_a_key_on_an_unencrypted_way_and_a_target_without_one_are_warnings() -> None:
    it = loaded(TARGET.replace("https", "http"))
    assert it.warnings == (
        f'{FILE}, line 5: base_url of target "main" uses http, so the key is sent unencrypted',
    )
    it = loaded(TARGET.replace("sk-of-main-target", ""))
    assert it.warnings == (f'{FILE}, line 2: target "main" has no api_key',)
    local = TARGET.replace("https://models.example.com", "http://192.168.1.9")
    assert loaded(local).warnings == ()


def test_real_files_are_read_next_to_the_configuration_and_their_mode_is_looked_at(tmp_path: Path) -> None:
    for name, mode in (("open", 0o644), ("kept", 0o600)):
        (tmp_path / name).write_text(f"{LONG_KEY}\n")
        (tmp_path / name).chmod(mode)
    file = ConfigFile(tmp_path / "holdfast.toml", "[server]\napi_keys = ['file:open', 'file:kept']\n")
    it = load(ConfigInputs(file=file, environ={"HOME": "/h"}))
    assert it.settings.server.api_keys == (LONG_KEY, LONG_KEY)
    where = f"{file.path}, line 2: server.api_keys[0] is in {tmp_path}/open"
    assert it.warnings == (f"{where}, which any user on this machine can read; run `chmod 600` on it",)
    (tmp_path / "open").write_bytes(b"\xff")
    for text in ("file:open", "file:a\\u0000b", "file:."):
        file = ConfigFile(tmp_path / "holdfast.toml", f'[server]\napi_keys = ["{text}"]\n')
        assert "can't be read" in refused(ConfigInputs(file=file, environ={"HOME": "/h"}))


def test_what_is_called_like_a_secret_is_told_from_what_only_sounds_like_one() -> None:
    """P11: a word that is no secret would be cut out of every answer."""
    told = "API_KEY apikey X-Api-Key GITHUB_TOKEN API_TOKENS DB_PASSWORD PGPASS MYSQL_PWD Authorization"
    plain = "KEYBOARD_LAYOUT MAX_TOKENS maxTokens TOKENIZER COMPASS PASSENGERS GIT_AUTHOR_NAME"
    more = "OAUTH_SECRET Cookie COMPASSWORD SENTRY_DSN AWS_ACCESS_KEY_ID --token AUTHORISATION DAEMONKEY"
    less = "PASSWORD_FILE AUTH_METHOD SSH_AUTH_SOCK XAUTHORITY --key-file Accept toolset"
    assert [name for name in f"{told} {more}".split() if not names_secret(name)] == []
    assert [name for name in f"{plain} {less}".split() if names_secret(name)] == []


def test_a_header_with_an_unknown_name_and_a_long_word_is_a_secret() -> None:
    """P11: providers call the header of their key whatever they like."""
    word = "0123456789abcdef"
    told = ["X-Extra", "X-Plain", "Ocp-Apim-Subscription", "X-Goog-User"]
    plain = ["Accept", "HTTP-Referer", "User-Agent", "anthropic-version", "anthropic-beta", "X-Site-URL"]
    assert [name for name in told if not is_secret_header(name, word)] == []
    assert [name for name in plain if is_secret_header(name, word)] == []
    assert not is_secret_header("X-Extra", "a short one")
    assert not is_secret_header("X-Extra", "some words that are no key")


def test_a_key_written_into_a_file_that_everybody_may_read_is_a_warning() -> None:
    file = ConfigFile(FILE, TARGET, open_to_all=True)
    assert load(ConfigInputs(file=file, environ={"HOME": "/h"})).warnings == (
        f"{FILE}: contains a key, and any user on this machine can read the file; run `chmod 600 {FILE}`",
    )
    mcp = "[[mcp_servers]]\nname = 'a'\n"
    for text, is_key in (
        (f"{mcp}url = 'http://a'\nheaders = {{ Authorization = 'Bearer x' }}\n", True),
        (f"{mcp}url = 'http://a'\nheaders = {{ X-Title = 'x' }}\n", False),
        (f"{mcp}command = ['a']\nenv = {{ GITHUB_TOKEN = 'x' }}\n", True),
        (f"{mcp}command = ['a']\nenv = {{ GITHUB_TOKEN = 'env:K', MODE = 'x' }}\n", False),
    ):
        file = ConfigFile(FILE, text, open_to_all=True)
        assert bool(load(ConfigInputs(file=file, environ={"HOME": "/h", "K": "k"})).warnings) is is_key, text
    kept = ConfigFile(FILE, TARGET.replace("sk-of-main-target", "env:K"), open_to_all=True)
    assert load(ConfigInputs(file=kept, environ={"HOME": "/h", "K": "k"})).warnings == ()
