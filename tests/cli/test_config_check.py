"""`holdfast config check` and the reference: what counts, where it comes from, no secret, no key left out."""

from pathlib import Path

import pytest

from config.given import FILE, TARGET, given, loaded
from holdfast.cli.configuration import check, report, trust
from holdfast.config.environment import SPECIAL, variables
from holdfast.config.load import load
from holdfast.config.reference import reference
from holdfast.config.validation import known_keys


def shown(lines: list[str], key: str) -> str:
    """The line of a key, with its blanks made single; of several sections, that of the first."""
    return " ".join(next(line for line in lines if line.startswith(f"{key} =")).split())


def test_every_value_is_shown_with_its_source() -> None:
    text = TARGET + "[server]\nmax_concurrent_runs = 5\n[agent]\ninstructions = 'Be brief.'\n"
    lines = list(report(load(given(text, environ={"HOLDFAST_HOST": "::1"}, flags={"port": 1}))))
    assert lines[0] == f"# {FILE}"
    assert shown(lines, "port") == "port = 1 # --port"
    assert shown(lines, "host") == 'host = "::1" # HOLDFAST_HOST'
    assert shown(lines, "max_concurrent_runs") == f"max_concurrent_runs = 5 # {FILE}, line 9"
    assert shown(lines, "durability") == 'durability = "power" # default'
    assert shown(lines, "api_keys") == "api_keys = (generated on the first start) # default"
    assert shown(lines, "instructions") == f'instructions = "Be brief." # {FILE}, line 11'
    assert shown(lines, "tokens") == "tokens = 0 # default"


def test_the_patience_that_counts_is_shown_for_each_target_and_so_is_the_mapping_from_hermes() -> None:
    local = TARGET.replace("https://models.example.com", "http://127.0.0.1")
    environ = {"HERMES_STREAM_STALE_TIMEOUT": "60", "HERMES_CODEX_TTFB_STRICT": "1"}
    lines = list(report(loaded(local, environ=environ)))
    assert shown(lines, "gap_s") == "gap_s = 60 # HERMES_STREAM_STALE_TIMEOUT (of hermes-agent)"
    assert shown(lines, "first_event_s") == "first_event_s = 300 # default"
    assert shown(lines, "first_progress_s") == "first_progress_s = 60 # default, bounded by gap_s"
    assert lines[-1] == "# HERMES_CODEX_TTFB_STRICT has no effect: no target uses the wire responses"
    assert shown(list(report(loaded(TARGET))), "first_event_s") == "first_event_s = 45 # default"


def test_no_key_is_shown_only_where_it_stands() -> None:
    text = (
        TARGET.replace("sk-of-main-target", "hunter2")
        + """headers = { A = "hunter2", B = "env:B" }
[server]
api_keys = ["env:HOLDFAST_API_KEY", "hunter2"]
[[mcp_servers]]
name = "x"
url = "https://x/mcp?key=hunter2"
headers = { A = "hunter2" }
"""
    )
    lines = list(report(loaded(text, environ={"B": "hunter2", "HOLDFAST_API_KEY": "hunter2"})))
    assert not [line for line in lines if "hunter2" in line]
    given = [" ".join(line.split()) for line in lines if not line.endswith("# default")]
    assert [line.partition(" #")[0] for line in given if line.startswith("api_key =")] == [
        "api_key = (hidden)"
    ]
    assert shown(lines, "api_keys").startswith('api_keys = ["env:HOLDFAST_API_KEY", (hidden)] #')
    assert [line.partition(" #")[0] for line in given if line.startswith("url =")] == [
        'url = "https://x/mcp?…"'
    ]
    assert any(line.startswith('headers = { A = (hidden), B = "env:B" }') for line in lines)


def test_what_a_command_is_given_as_a_key_is_hidden_too() -> None:
    words = ["y", "--api-key", "hunter2", "--token=hunter2", "--auth", "--port", "80", "A=b", "PASS=hunter2"]
    words += ["--header", "Authorization: hunter2", "--key-file", "/k", "--max-tokens", "9"]
    lines = list(report(loaded(f"[[mcp_servers]]\nname = 'y'\ncommand = {words}\n")))
    assert shown(lines[lines.index("[[mcp_servers]]") :], "command").startswith(
        'command = ["y", "--api-key", "(hidden)", "--token=(hidden)", "--auth", "--port", "80", "A=b", '
        '"PASS=(hidden)", "--header", "Authorization:(hidden)", "--key-file", "/k", "--max-tokens", "9"] #'
    )


def test_without_a_target_the_demo_model_is_announced() -> None:
    lines = list(report(loaded()))
    assert lines[0] == "# no holdfast.toml"
    assert any("the built-in demo model answers" in line for line in lines)


@pytest.fixture(name="clean")
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # pyright: ignore[reportUnusedFunction]
    for name in [
        *variables(),
        *SPECIAL,
        "XDG_CONFIG_HOME",
        "API_SERVER_KEY",
        "API_SERVER_HOST",
        "API_SERVER_PORT",
    ]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_reads_the_working_directory_and_the_environment(
    clean: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (clean / "holdfast.toml").write_text(TARGET + "[server]\napi_keys = ['short']\n")
    (clean / "holdfast.toml").chmod(0o600)
    assert trust(None) == 0
    capsys.readouterr()
    monkeypatch.setenv("HOLDFAST_PORT", "7")
    assert check({"host": None, "log_level": "debug"}) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert shown(lines, "port") == "port = 7 # HOLDFAST_PORT"
    assert shown(lines, "level") == 'level = "debug" # --log-level'
    assert shown(lines, "data_dir") == f'data_dir = "{clean}/home/.local/share/holdfast" # default'
    assert err == (
        f"holdfast: warning: {clean}/holdfast.toml, line 9: server.api_keys[0] has fewer than 16 characters\n"
    )


def test_the_command_fails_with_all_that_is_wrong(clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = clean / "mine.toml"
    path.write_text("[server]\nprot = 1\n[lgo]\n")
    assert check({"config": path}) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"holdfast: {path}, line 2: server.prot is not a setting; did you mean port?",
        f"holdfast: {path}, line 3: lgo is not a setting; did you mean log?",
    ]
    assert check({"config": clean / "none.toml"}) == 1
    assert "none.toml: file not found" in capsys.readouterr().err


def test_the_reference_names_every_table_key_and_variable_with_a_sentence() -> None:
    text = reference()
    for table, keys in known_keys().items():
        section = text.partition(f"## {table}\n")[2].partition("\n## ")[0]
        plain = [key for key in keys if f"[{table.strip('[]')}.{key}]" not in text]
        assert [key for key in plain if f"| `{key}` |" not in section] == [], table
    assert [name for name in (*variables(), *SPECIAL) if f"`{name}`" not in text] == []
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert all(row.rstrip(" |").endswith((".", ")", "`")) for row in rows)
