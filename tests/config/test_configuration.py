"""The configuration: who wins, where the file is, and that any text is either understood or refused."""

import os
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from config.given import FILE, LONG_KEY, TARGET, given, loaded, refused
from holdfast.config.consistency import rules_of
from holdfast.config.environment import variables
from holdfast.config.files import FoundFiles, find_file
from holdfast.config.load import BadConfiguration, ConfigInputs, load
from holdfast.config.mcp_servers import mcp_config
from holdfast.config.secret_values import TextFile
from holdfast.config.trust import TrustedFiles
from holdfast.policy.tool_names import BUILT_IN, WITH_STORE
from holdfast.sandbox.profile import ServerAccess
from holdfast.tools.built_in import built_in_tools
from holdfast.tools.shell.background import Background
from holdfast.values import Budget
from tables import for_each_row


def test_without_anything_the_defaults_of_the_spec_hold() -> None:
    it = loaded()
    server = it.settings.server
    assert (server.host, server.port, server.api_keys, server.max_concurrent_runs) == (
        "127.0.0.1",
        8642,
        None,
        64,
    )
    assert it.settings.data_dir == Path("/home/u/.local/share/holdfast")
    assert it.settings.log_file == it.settings.data_dir / "holdfast.log"
    assert it.settings.spool_dir == it.settings.data_dir / "spool"
    assert (it.is_demo, it.warnings, it.file) == (True, (), None)
    assert it.settings.model_targets() == ()


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default() -> None:
    text = '[server]\nport = 3\nhost = "localhost"\nmax_concurrent_runs = 7\n[log]\nlevel = "error"\n'
    environ = {"HOLDFAST_PORT": "2", "HOLDFAST_HOST": "127.0.0.2", "HOLDFAST_LOG_LEVEL": "debug"}
    it = load(given(text, environ=environ, flags={"port": 1, "host": None}))
    server = it.settings.server
    assert (server.port, server.host, server.max_concurrent_runs) == (1, "127.0.0.2", 7)
    keys = ("port", "host", "max_concurrent_runs", "durability")
    assert [str(it.sources.of(("server", key))) for key in keys] == [
        "--port",
        "HOLDFAST_HOST",
        f"{FILE}, line 4",
        "default",
    ]
    assert it.settings.log.level == "debug"


def test_every_plain_key_has_a_variable_of_its_own() -> None:
    names = variables()
    assert names["HOLDFAST_DATA_DIR"][0] == ("server", "data_dir")
    assert names["HOLDFAST_AGENT_BUDGET_TOKENS"][0] == ("agent", "budget", "tokens")
    assert len({path for path, _ in names.values()}) == len(names)


def test_variables_are_read_as_what_their_key_wants() -> None:
    it = loaded(
        environ={
            "HOLDFAST_API_KEYS": f"{LONG_KEY}, {LONG_KEY}-2",
            "HOLDFAST_CORS_ORIGINS": "https://a.example",
            "HOLDFAST_AGENT_BUDGET_COST_USD": "1.5",
            "HOLDFAST_DATA_DIR": "~/data",
            "HOLDFAST_ON_RESTART": "",
        }
    )
    assert it.settings.server.api_keys == (LONG_KEY, f"{LONG_KEY}-2")
    assert it.settings.server.cors_origins == ("https://a.example",)
    assert it.settings.agent.run_budget() == Budget(cost_usd=1.5, turns=100)
    assert it.settings.data_dir == Path("/home/u/data")
    assert it.settings.server.on_restart == "resume"


def test_what_an_mcp_server_may_reach_is_part_of_its_table() -> None:
    server = '[[mcp_servers]]\nname = "x"\ncommand = ["x"]\n'
    more = '[mcp_servers.sandbox]\nnetwork = ["a.example:8443"]\nwrite = ["~/x"]\ncaches = true\n'
    (usual,) = loaded(TARGET + server).settings.mcp_servers
    assert mcp_config(usual).access == ServerAccess()
    (less,) = loaded(TARGET + server + more).settings.mcp_servers
    assert mcp_config(less).access == ServerAccess(
        network="hosts", hosts=("a.example:8443",), write=("/home/u/x",), caches=True
    )
    (off,) = loaded(TARGET + server + '[mcp_servers.sandbox]\nmode = "off"\n').settings.mcp_servers
    assert mcp_config(off).access is None


def test_a_key_takes_one_of_its_words_or_a_list() -> None:
    listed = loaded(TARGET + '[sandbox]\nnetwork = ["a.example"]\nwrite = ["~/x"]\n').settings.sandbox
    assert (listed.network, listed.write) == (("a.example",), ("/home/u/x",))
    assert loaded(TARGET + '[sandbox]\nnetwork = "on"\n').settings.sandbox.network == "on"
    hosts = ("a.example:8443", "*.b.example", "10.0.0.0/8")
    assert loaded(TARGET + f"[sandbox]\nnetwork = {[*hosts]}\n").settings.sandbox.network == hosts
    by_variable = loaded(TARGET, environ={"HOLDFAST_SANDBOX_NETWORK": "a.example, b.example"})
    assert by_variable.settings.sandbox.network == ("a.example", "b.example")
    off = loaded(TARGET, environ={"HOLDFAST_SANDBOX_NETWORK": "off"})
    assert off.settings.sandbox.network == "off"


def test_the_whole_example_is_understood() -> None:
    it = loaded(
        TARGET
        + """
[targets.patience]
connect_s = 10
gap_s = 0
strict = true
[targets.retry]
attempts_max = 4
[server]
api_keys = ["env:HOLDFAST_API_KEY"]
[agent]
instructions = "file:prompt.md"
budget = { tokens = 5 }
[approvals]
mode = "allow-workspace"
rules = [{ allow = "shell", argv = ["git", "status"] }, { deny = "write_file", paths = ["~/x"] }]
[[mcp_servers]]
name = "files"
command = ["mcp-server-files", "/data"]
env = { TOKEN = "env:T" }
""",
        environ={"HOLDFAST_API_KEY": LONG_KEY, "T": "t"},
        files={"/etc/hf/prompt.md": TextFile("Be brief.\nAnd kind.\n")},
    )
    (target,) = it.settings.model_targets()
    assert (target.name, target.api_key, target.retry.attempts_max) == ("main", "sk-of-main-target", 4)
    assert (target.patience.connect_s, target.patience.gap_s, target.patience.upload_s) == (10, 0, None)
    assert it.settings.agent.instructions == "Be brief.\nAnd kind.\n"
    allow, deny = rules_of(it.settings.approvals)
    assert (allow.verdict, allow.tool, allow.argv) == ("allow", "shell", ("git", "status"))
    assert (deny.verdict, deny.paths) == ("deny", ("/home/u/x",))
    assert it.settings.mcp_servers[0].env == {"TOKEN": "t"}


def test_hedging_with_one_target_is_a_warning() -> None:
    it = loaded(TARGET + "retry = { hedge = true }\n")
    assert it.warnings == (f'{FILE}, line 8: retry.hedge of target "main" needs a second target',)


def test_the_target_for_titles_must_be_known() -> None:
    assert loaded(TARGET + '[agent]\ntitle_target = "main"\n').settings.agent.title_target == "main"
    assert loaded('[agent]\ntitle_target = "off"\n').warnings == ()
    told = refused(given(TARGET + '[agent]\ntitle_target = "mian"\n'))
    assert 'agent.title_target names no target; use "off" or one of these: main' in told


def test_the_target_that_describes_images_must_see_them_and_be_of_use() -> None:
    here = '[agent]\nvision_target = "{}"\n'
    told = refused(given(TARGET + "vision = false\n" + here.format("main")))
    assert "agent.vision_target names no target that sees images; use one of these: none" in told
    (warned,) = loaded(TARGET + here.format("main")).warnings
    assert "agent.vision_target has no effect, because no target has `vision = false`" in warned


def test_speech_takes_a_command_or_a_target_with_a_key() -> None:
    here = '[speech]\ntarget = "{}"\n'
    assert loaded(TARGET + here.format("main")).settings.speech.is_on
    told = refused(given(TARGET + here.format("mian")))
    assert "speech.target names no target; use one of these: main" in told
    told = refused(given(TARGET + here.format("main") + 'command = ["hear"]\n'))
    assert "speech.target can't be combined with `command`" in told
    signed_in = '[[targets]]\nname = "codex"\nwire = "responses"\nbase_url = "https://x.y/v1"\nmodel = "m"\n'
    told = refused(given(TARGET + signed_in + 'auth = "codex"\n' + here.format("codex")))
    assert "speech.target needs a target with an API key" in told


def test_a_variable_that_looks_like_ours_and_sets_nothing_is_a_warning() -> None:
    it = loaded(
        "[server]\napi_keys=['env:HOLDFAST_MINE']\n",
        environ={"HOLDFAST_PROT": "1", "HOLDFAST_MINE": LONG_KEY},
    )
    assert it.warnings == ("HOLDFAST_PROT is not a setting; did you mean HOLDFAST_PORT?",)


def test_the_file_is_looked_for_where_it_is_named_then_here_then_at_home(tmp_path: Path) -> None:
    named, here, home = (tmp_path / name for name in ("named.toml", "here", "home"))
    environ = {"HOME": str(home)}
    assert find_file(None, environ, directory=here) == FoundFiles()
    user = home / ".config" / "holdfast" / "holdfast.toml"
    other = tmp_path / "xdg" / "holdfast" / "holdfast.toml"
    for path in (user, other, here / "holdfast.toml"):
        path.parent.mkdir(parents=True)
    found: list[Path] = []
    for path in (user, other, here / "holdfast.toml", named):
        path.write_text("")
        environ["XDG_CONFIG_HOME"] = str(tmp_path / "xdg") if path != user else ""
        TrustedFiles(tmp_path / "xdg" / "holdfast").trust(here / "holdfast.toml", "")
        file = find_file(named if path == named else None, environ, directory=here).file
        found += [file.path] if file else []
    assert found == [user, other, here / "holdfast.toml", named]
    by_variable = find_file(None, {"HOLDFAST_CONFIG": str(named)}, directory=here).file
    assert by_variable is not None
    assert by_variable.path == named


def test_a_named_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "large").write_bytes(b"#" * 1_048_577)
    expected = {
        "none": "file not found",
        "binary": "is not UTF-8 text",
        "large": "larger than 1 MiB",
        "": "can't read",
    }
    for name, words in expected.items():
        with pytest.raises(BadConfiguration, match=re.escape(words)):
            find_file(tmp_path / name, {}, directory=tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_bytes(b"\xef\xbb\xbf[server]\r\nport = 1\r\n")
    file = find_file(path, {}, directory=tmp_path).file
    assert file is not None
    assert load(ConfigInputs(file=file, environ={"HOME": "/home/u"})).settings.server.port == 1


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_a_named_file_may_be_named_from_home_where_no_shell_says_which(tmp_path: Path, by: str) -> None:
    (tmp_path / "mine.toml").write_text("")
    named = Path("~/mine.toml")
    environ = {"HOME": str(tmp_path)} | ({"HOLDFAST_CONFIG": str(named)} if by == "variable" else {})
    file = find_file(named if by == "flag" else None, environ, directory=tmp_path).file
    assert file is not None
    assert file.path == tmp_path / "mine.toml"


@pytest.mark.parametrize("named", ["~bob/mine.toml", "$HOME/mine.toml"])
def test_a_named_file_that_only_a_shell_could_find_is_told_as_such(tmp_path: Path, named: str) -> None:
    first = re.escape(named.partition("/")[0])
    with pytest.raises(BadConfiguration, match=f"^--config: .* starts with {first}"):
        find_file(Path(named), {"HOME": str(tmp_path)}, directory=tmp_path)
    with pytest.raises(BadConfiguration, match=f"^HOLDFAST_CONFIG: .* starts with {first}"):
        find_file(None, {"HOME": str(tmp_path), "HOLDFAST_CONFIG": named}, directory=tmp_path)


def test_a_pipe_that_lies_in_the_directory_keeps_nobody_waiting(tmp_path: Path) -> None:
    """P3: nobody may ever write to it."""
    os.mkfifo(tmp_path / "holdfast.toml")
    found = find_file(None, {"HOME": str(tmp_path)}, directory=tmp_path)
    assert str(found.ignored) == f"{tmp_path / 'holdfast.toml'} is ignored: it is not a regular file"


def test_a_model_without_a_target_to_ask_for_it_is_a_warning() -> None:
    for it in (load(given(flags={"model": "m"})), loaded(environ={"HOLDFAST_MODEL": "m"})):
        (warning,) = it.warnings
        assert warning.endswith("has no effect: no target is configured, so the built-in demo model answers")
    assert loaded(TARGET, environ={"HOLDFAST_MODEL": "m"}).warnings == ()


def test_the_mark_of_a_tool_is_no_setting() -> None:
    assert loaded(environ={"HOLDFAST_RUN": "run_1:call_1:00:foreground"}).warnings == ()


def test_apps_and_extensions_have_origins_of_their_own() -> None:
    origins = ("tauri://localhost", "chrome-extension://abcdef", "http://localhost:3000")
    text = f"[server]\ncors_origins = {list(origins)}\n"
    assert loaded(text).settings.server.cors_origins == origins


def test_the_tools_that_a_rule_can_name_are_those_in_the_box(tmp_path: Path) -> None:
    box = built_in_tools({}, background=Background(tmp_path, now_ms=lambda: 0))
    assert (*(tool.spec.name for tool in box), *WITH_STORE) == tuple(BUILT_IN)
    rules = "".join(f"[[approvals.rules]]\nask = '{tool}'\n" for tool in (*BUILT_IN, "*", "mcp__files__read"))
    assert len(loaded(rules).settings.approvals.rules) == len(BUILT_IN) + 2


def test_nesting_without_end_is_refused() -> None:
    assert "the tables are nested too deeply" in refused(given("a = " + "[" * 50_000))


@for_each_row(
    "text",
    [
        ".".join("a" * 60_000) + " = 1",
        f"[{'.'.join('a' * 30_000)}]\n" + "".join(f"b{nth} = 1\n" for nth in range(10_000)),
        "a = { " + " . ".join(['"\\""', "'b'"] * 20_000) + " = 1 }",
        "a = 1\n" * 50_000,
    ],
    ids=["dotted key", "header", "quoted in an inline table", "length"],
)
def test_a_file_that_would_take_minutes_to_parse_is_refused_at_once(text: str) -> None:
    """P3: TOML's parser takes quadratic time for dotted keys; reaching the end is the proof."""
    assert "more than" in refused(given(text))
    prose = "Be brief. See www.example.org. " * 2_000
    assert loaded(f"[agent]\ninstructions = '{prose}'").settings.agent.instructions == prose


PLAIN_KEYS = sorted({str(step) for path, _ in variables().values() for step in path})
TARGET_KEYS = [
    "targets",
    "name",
    "wire",
    "base_url",
    "model",
    "api_key",
    "headers",
    "patience",
    "retry",
    "gap_s",
]
OTHER_KEYS = ["mcp_servers", "command", "url", "env", "rules", "allow", "argv", "nonsense"]
KEYS = st.sampled_from([*PLAIN_KEYS, *TARGET_KEYS, *OTHER_KEYS])
SCALARS = st.one_of(
    st.integers().map(str),
    st.floats().map(lambda number: repr(number) if "e" not in repr(number) else "1e400"),
    st.sampled_from(
        [
            "true",
            "'chat'",
            "'https://x/v1'",
            "'env:A'",
            "'file:x'",
            "'ask'",
            "2020-01-01",
            "''",
            "0x" + "f" * 400,
        ]
    ),
    st.text(st.characters(exclude_characters="'\n\r", exclude_categories=["Cc", "Cs"])).map(
        lambda text: f"'{text}'"
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(KEYS, inner, max_size=3).map(
            lambda table: "{" + ", ".join(f"{key} = {value}" for key, value in table.items()) + "}"
        ),
    ),
    max_leaves=6,
)
STATEMENTS = st.one_of(
    st.builds("{} = {}".format, KEYS, VALUES),
    st.builds("{}.{} = {}".format, KEYS, KEYS, VALUES),
    st.builds("[{}]".format, KEYS),
    st.builds("[[{}]]".format, KEYS),
    st.builds("[{}.{}]".format, KEYS, KEYS),
    st.text(max_size=10),
)


@for_all(
    st.lists(STATEMENTS, max_size=8).map("\n".join),
    st.dictionaries(st.sampled_from(list(variables())), st.text(max_size=8), max_size=3),
)
def test_any_text_gives_settings_or_a_refusal_and_nothing_else(text: str, environ: dict[str, str]) -> None:
    try:
        settings = load(given(text, environ=environ)).settings
    except BadConfiguration as error:
        said = error.lines
    else:
        tomllib.loads(text)
        said = [type(settings).__name__]
    assert said
    assert all(said)
