"""Proxies from the environment and the file: which target goes through which, and what people see of it."""

from config.given import FILE, TARGET, given, loaded, refused
from holdfast.cli.configuration import report
from holdfast.config.files import ConfigFile
from holdfast.config.load import load
from holdfast.config.proxies import proxy_for
from holdfast.config.target_secrets import secrets_of
from tables import for_each_row

ENVIRON = {"HTTPS_PROXY": "http://proxy.example:3128"}
LOCAL = TARGET.replace("https://models.example.com", "http://localhost:11434")


def proxy_of(text: str, **environ: str) -> str:
    (target,) = loaded(text, environ=environ).settings.model_targets()
    return target.proxy


def line_of(text: str, **environ: str) -> str:
    """What `config check` says of it."""
    (line,) = [line for line in report(loaded(text, environ=environ)) if line.startswith("proxy =")]
    return " ".join(line.split())


def way_to(base_url: str, **environ: str) -> str:
    named = proxy_for(base_url, environ)
    return named.url if named else ""


def test_a_target_without_a_proxy_of_its_own_takes_that_of_the_environment() -> None:
    assert proxy_of(TARGET, **ENVIRON) == "http://proxy.example:3128"
    assert line_of(TARGET, **ENVIRON) == 'proxy = "http://proxy.example:3128" # HTTPS_PROXY'
    assert line_of(TARGET) == 'proxy = "" # default'


def test_so_does_a_target_that_a_known_key_made() -> None:
    it = loaded(environ=ENVIRON | {"OPENAI_API_KEY": "sk-1"})
    assert [target.proxy for target in it.settings.model_targets()] == ["http://proxy.example:3128"]


def test_what_the_file_says_comes_first_and_empty_is_none() -> None:
    assert proxy_of(TARGET + 'proxy = "http://own.example:1"\n', **ENVIRON) == "http://own.example:1"
    assert proxy_of(TARGET + 'proxy = ""\n', **ENVIRON) == ""
    assert line_of(TARGET + 'proxy = ""\n', **ENVIRON) == f'proxy = "" # {FILE}, line 8'


def test_a_proxy_may_stand_elsewhere_like_any_secret() -> None:
    text = TARGET + 'proxy = "env:OUR_PROXY"\n'
    assert proxy_of(text, OUR_PROXY="http://a:b@p.example:1") == "http://a:b@p.example:1"
    assert line_of(text, OUR_PROXY="http://a:b@p.example:1").startswith('proxy = "env:OUR_PROXY" #')


def test_user_and_password_are_never_shown() -> None:
    """P11."""
    secret = "http://ann:hunter2hunter2@proxy.example:3128"  # noqa: S105  # nobody's
    for it in (
        loaded(TARGET, environ={"HTTPS_PROXY": secret}),
        loaded(f'{TARGET}proxy = "{secret}"\n'),
    ):
        assert "hunter2" not in "\n".join(report(it))
        assert 'proxy = "http://…@proxy.example:3128"' in "\n".join(report(it))
        assert "hunter2" not in repr(it.settings)
        assert "hunter2" not in repr(it.settings.model_targets())
        assert "hunter2hunter2" in list(secrets_of(it.settings.model_targets()))


def test_a_file_that_holds_a_password_and_is_open_to_all_is_warned_of() -> None:
    keyless = LOCAL.replace('api_key = "sk-of-main-target"\n', "")
    text = f'{keyless}proxy = "http://a:b@p.example:1"\n'
    it = given(text)
    opened = load(type(it)(environ=it.environ, file=ConfigFile(FILE, text, open_to_all=True)))
    assert opened.warnings == (
        f"{FILE}: contains a key, and any user on this machine can read the file; run `chmod 600 {FILE}`",
    )


@for_each_row(
    "base_url",
    [
        "http://localhost:1/v1",
        "http://127.0.0.1:1",
        "http://[::1]:1/v1",
        "http://ollama.localhost/v1",
        "http://0.0.0.0:11434/v1",
        "http://[::]:1",
    ],
)
def test_this_machine_is_never_reached_through_a_proxy_of_the_environment(base_url: str) -> None:
    assert way_to(base_url, HTTP_PROXY="http://p", ALL_PROXY="http://p") == ""


def test_each_scheme_has_its_variable_and_all_proxy_stands_in() -> None:
    environ = {"HTTP_PROXY": "http://plain", "HTTPS_PROXY": "http://secure", "ALL_PROXY": "http://all"}
    assert way_to("http://a.example", **environ) == "http://plain"
    assert way_to("https://a.example", **environ) == "http://secure"
    assert way_to("https://a.example", ALL_PROXY="http://all") == "http://all"
    assert way_to("https://a.example", HTTP_PROXY="http://plain") == ""


def test_small_letters_count_first_also_if_they_say_nothing() -> None:
    assert way_to("https://a.example", https_proxy="http://small", HTTPS_PROXY="http://p") == "http://small"
    assert way_to("https://a.example", https_proxy="", HTTPS_PROXY="http://p") == ""


def test_a_proxy_without_a_scheme_is_an_http_one() -> None:
    assert way_to("https://a.example", HTTPS_PROXY="proxy.example:3128") == "http://proxy.example:3128"


def test_a_header_that_a_web_server_passes_on_is_no_proxy() -> None:
    assert way_to("http://a.example", HTTP_PROXY="http://evil", REQUEST_METHOD="GET") == ""
    assert way_to("http://a.example", http_proxy="http://own", REQUEST_METHOD="GET") == "http://own"


@for_each_row(
    ("no_proxy", "base_url"),
    [
        ("*", "https://a.example"),
        ("a.example", "https://a.example"),
        ("A.Example", "https://a.EXAMPLE./v1"),
        ("x.example, example", "https://b.a.example"),
        (".a.example", "https://b.a.example"),
        (".a.example", "https://a.example"),
        ("*.a.example", "https://b.a.example"),
        ("x b.a.example", "https://b.a.example"),
        ("a.example:443", "https://a.example"),
        ("a.example:8443", "https://a.example:8443/v1"),
        ("10.1.2.3", "http://10.1.2.3:8000"),
        ("10.0.0.0/8", "http://10.1.2.3:8000"),
        ("10.1.2.3:8000", "http://10.1.2.3:8000"),
        ("fd00::/8", "http://[fd00::1]:8000"),
        ("[fd00::1]", "http://[fd00::1]:8000"),
        ("[fd00::1]:8000", "http://[fd00::1]:8000"),
    ],
)
def test_what_no_proxy_names_is_reached_directly(no_proxy: str, base_url: str) -> None:
    assert way_to(base_url, ALL_PROXY="http://p", NO_PROXY=no_proxy) == ""


@for_each_row(
    ("no_proxy", "base_url"),
    [
        ("", "https://a.example"),
        (",, ,", "https://a.example"),
        ("a.example", "https://not-a.example"),
        ("b.a.example", "https://a.example"),
        ("a.example:8443", "https://a.example"),
        ("10.0.0.0/8", "http://11.0.0.1"),
        ("10.0.0.0/8", "http://a.example"),
        ("10.1.2.3:80", "http://10.1.2.3:8000"),
        (".", "https://a.example"),
    ],
)
def test_what_it_does_not_name_is_not(no_proxy: str, base_url: str) -> None:
    assert way_to(base_url, ALL_PROXY="http://p", NO_PROXY=no_proxy) == "http://p"


def test_a_socks_proxy_is_said_to_be_of_no_use_and_stops_nobody() -> None:
    it = loaded(TARGET, environ={"ALL_PROXY": "socks5h://127.0.0.1:1080"})
    assert it.settings.model_targets()[0].proxy == ""
    (warning,) = it.warnings
    assert warning.startswith(
        "ALL_PROXY is a SOCKS proxy, which Holdfast doesn't support, so models are called without"
    )
    assert loaded(LOCAL, environ={"ALL_PROXY": "socks5h://127.0.0.1:1080"}).warnings == ()


@for_each_row("url", ["proxy.example:3128", "socks5://p:1", "http://", "http://p:x", "http://p q"])
def test_a_proxy_that_can_be_none_is_an_error_that_names_its_place(url: str) -> None:
    """P12."""
    told = refused(given(f'{TARGET}proxy = "{url}"\n'))
    want = "must be a URL that starts with http:// or https:// and names a host"
    assert told == f'{FILE}, line 8: proxy of target "main" {want}'


def test_so_is_one_of_the_environment() -> None:
    """P12."""
    told = refused(given(TARGET, environ={"HTTPS_PROXY": "ftp://p"}))
    assert told.startswith('HTTPS_PROXY: proxy of target "main" must be a URL')


def test_a_password_that_was_not_written_as_a_url_wants_it_is_told_how() -> None:
    """P12: what follows the slash would be a path, and the rest of the password a host."""
    told = refused(given(TARGET + 'proxy = "http://ann/b@proxy.example:3128"\n'))
    assert "in a password, write @, / and # as %40, %2F and %23" in told
    assert "ann/b" not in told


@for_each_row("targets", ["targets = 1", "targets = [1]", "[[targets]]\nbase_url = 1"])
def test_targets_that_are_none_are_still_told_as_such(targets: str) -> None:
    assert "target" in refused(given(targets, environ=ENVIRON))
    assert way_to("https://[bad") == way_to("https://a:b:c") == way_to("nothing") == ""
