"""What is wrong is named with file, line and what would be right, all of it at once."""

from config.given import FILE, TARGET, given, refused
from tables import for_each_row

# Each line: the text, then the line and the words of the refusal.
CLAUDE = """[[targets]]
name = 'a'
wire = 'anthropic'
base_url = 'https://api.anthropic.com'
model = 'm'
"""
WRONG = [
    ("[server]\nprot = 1\n", 2, "server.prot is not a setting; did you mean port?"),
    ("port = 1\n", 1, "port is not a setting; it belongs in [server]"),
    ("[sever]\n", 1, "sever is not a setting; did you mean server?"),
    ("[log]\nxyz = 1\n", 2, "log.xyz is not a setting; the settings here are file, level"),
    ("\n[server]\n# why\nport = '1'\n", 4, "server.port must be a whole number, not text"),
    ("[server]\nport = true\n", 2, "server.port must be a whole number, not true or false"),
    ("[server]\nport = 1.0\n", 2, "server.port must be a whole number, not a number"),
    ("[server]\nport = 70000\n", 2, "server.port must be 65535 or less"),
    ("[server]\nport = -1\n", 2, "server.port must be 0 or more"),
    ("[server]\nmax_concurrent_runs = 0\n", 2, "server.max_concurrent_runs must be 1 or more"),
    ("[server]\nhost = 1\n", 2, "server.host must be text, not a whole number"),
    ("[server]\nhost = 2020-01-01\n", 2, "server.host must be text, not a date or a time"),
    ("[server]\nhost = 'a:80'\n", 2, "server.host must be an address or a host name"),
    ("[server]\nhost = ''\n", 2, "server.host must be an address or a host name"),
    ("[server]\napi_keys = 'k'\n", 2, "server.api_keys must be a list, not text"),
    (
        "[[mcp_servers]]\nname = 'x'\ncommand = ['x']\n[mcp_servers.sandbox]\nnetwork = ['a b']\n",
        5,
        "'a b' is not a host",
    ),
    ("[server]\napi_keys = [\n1]\n", 3, "server.api_keys[0] must be text, not a whole number"),
    ("[server]\non_restart = 'resum'\n", 2, "must be one of interrupt, resume; did you mean resume?"),
    (
        "[server]\n[server.blob_store]\nbucket = 'b'\n",
        3,
        "server.blob_store.bucket needs a Postgres database in server.store",
    ),
    ("[server.blob_store]\nprefix = 'a'\n", 1, "server.blob_store.bucket must not be empty"),
    (
        "[server]\nstore = 'postgresql://db/x'\n[server.blob_store]\nbucket = 'b'\naccess_key_id = 'k'\n",
        3,
        "server.blob_store.secret_access_key must not be empty",
    ),
    ("[server.blob_store]\nendpoint = 's3.example.com'\n", 2, "server.blob_store.endpoint must be a URL"),
    ("[server]\nlimits = 3\n", 2, "server.limits must be a table, not a whole number"),
    ("[server.limits]\nbody_s = -0.5\n", 2, "server.limits.body_s must be 0 or more"),
    ("[server]\ncors_origins = ['https://a.example/']\n", 2, "server.cors_origins[0] must be an origin"),
    ("[server]\ncors_origins = ['null']\n", 2, "server.cors_origins[0] must be an origin"),
    ("[server]\ncors_origins = ['https://A.example']\n", 2, "must be in lower case"),
    ("[server]\nhosts = ['a b']\n", 2, "server.hosts[0] must be a host name"),
    ("[agent]\nbudget = { tokns = 1 }\n", 2, "agent.budget.tokns is not a setting; did you mean tokens?"),
    ("agent.turns_max = 'x'\n", 1, "agent.turns_max must be a whole number, not text"),
    (
        "[agent]\ninstructions = 'file:none.md'\n",
        2,
        "names the file /etc/hf/none.md, which can't be read: No such",
    ),
    (CLAUDE + "temperature = 0.5\n", 6, "isn't accepted by api.anthropic.com"),
    (CLAUDE + "reasoning_effort = 'Very High'\n", 6, "must be a level such as low"),
    ("[approvals]\nmode = 'yolo'\n", 2, "approvals.mode must be one of allow-workspace, ask, edits, plan"),
    ("[sandbox]\nnetwork = 'of'\n", 2, "sandbox.network must be one of off, on, or a list: write"),
    ("[sandbox]\nnetwork = ['a b']\n", 2, "sandbox.network 'a b' is not a host"),
    (
        "[[mcp_servers]]\nname = 'x'\ncommand = ['x']\n[mcp_servers.sandbox]\nnetwork = ['a b']\n",
        5,
        "'a b' is not a host",
    ),
    ("[sandbox]\nnetwork = 1\n", 2, "sandbox.network must be text, not a whole number"),
    ("[approvals]\nexpires_s = -1\n", 2, "approvals.expires_s must be 0 or more"),
    (
        "[approvals]\nrules = [{ argv = ['x'] }]\n",
        2,
        "approvals.rules[0] is not valid: A rule needs exactly one",
    ),
    (
        "[approvals]\nrules = [{ allow = 'shell', argv = [] }]\n",
        2,
        "argv must be a non-empty list of strings",
    ),
    (
        "[[approvals.rules]]\nallow = 'a'\nalow = 'b'\n",
        3,
        "rules[0].alow is not a setting; did you mean allow?",
    ),
    ("[[mcp_servers]]\nname = 'a'\n", 1, 'MCP server "a" needs either a command or a url'),
    (
        "[[mcp_servers]]\nname='a'\nurl='ftp://x'\n",
        3,
        'url of MCP server "a" must be a URL that starts with http',
    ),
    (
        "[[mcp_servers]]\nname='a'\nurl='http://x'\nenv={A='1'}\n",
        4,
        "only works with a command; use headers with a url",
    ),
    (
        "[[mcp_servers]]\nname='a'\ncommand=['x']\nheaders={A='1'}\n",
        4,
        "only work with a url; use env with a command",
    ),
    ("[[mcp_servers]]\nname='a'\nurl='http://x'\nheaders={'A B'='1'}\n", 4, "is not the name of a header"),
    ("[[mcp_servers]]\nname='a'\ncommand=['']\n", 3, "must start with the name of a program"),
    ("[[mcp_servers]]\nname='a'\ncommand=['x']\nenv={'A=B'='1'}\n", 4, "is not the name of an environment"),
    ("[server]\nhost = '[::1]'\n", 2, "without a port or brackets"),
    ("[agent]\nbudget.minutes = 0x" + "f" * 400, 2, "agent.budget.minutes must be a finite number"),
    ("[targets]\nname = 'x'\n", 1, "targets must be a list of tables: write [[targets]]"),
    ("[[targets]]\n", 1, "target number 1 needs a model"),
    ("[[targets]]\nname='a'\n", 1, 'target "a" needs a wire: one of anthropic, chat, responses'),
    (TARGET + "wrie = 'x'\n", 8, 'wrie of target "main" is not a setting; did you mean wire?'),
    (TARGET + TARGET, 10, 'name of target "main" is used twice; names must be unique'),
    (TARGET.replace("https", "ftp"), 5, 'base_url of target "main" must be a URL that starts with http'),
    (TARGET.replace(".com", ".com:99999"), 5, "must be a URL that starts with http"),
    (TARGET.replace('"m"', '" m"'), 6, "must be at most 256 printable characters without leading"),
    (TARGET.replace("models.", "u:pw@models."), 5, "must not contain a user or password"),
    (TARGET.replace("/v1", "/v1?a=b"), 5, "must not contain ? or #"),
    (TARGET.replace('"m"', '""'), 6, 'model of target "main" must not be empty'),
    (
        TARGET.replace("sk-of-main-target", "env:NOPE"),
        7,
        'api_key of target "main" names the environment variable NOPE',
    ),
    (
        TARGET.replace("sk-of-main-target", "file:/no"),
        7,
        "names the file /no, which can't",
    ),
    (TARGET.replace("sk-of-main-target", "a b"), 7, "must be printable ASCII characters without spaces"),
    (TARGET + "api_keys = ['sk-of-a-pool']\n", 8, "can't be combined with api_key; list all keys here"),
    (
        TARGET.replace("api_key =", "api_keys =").replace('"sk-of-main-target"', "['k-1', 'k-1']"),
        7,
        "repeats a key",
    ),
    (TARGET + "context_window = 0\n", 8, 'context_window of target "main" must be 1 or more'),
    (TARGET + "[targets.patience]\ngap_s = -1\n", 9, 'patience.gap_s of target "main" must be 0 or more'),
    (
        TARGET + "[targets.patience]\ngap_s = nan\n",
        9,
        'patience.gap_s of target "main" must be a finite number',
    ),
    (TARGET + "[targets.patience]\ngaps = 1\n", 9, "is not a setting; did you mean gap_s?"),
    (
        TARGET + "[targets.retry]\nattempts_max = 0\n",
        9,
        'retry.attempts_max of target "main" must be 1 or more',
    ),
    (
        TARGET + "[targets.retry]\nbackoff_base_s = 30\n",
        9,
        "must not be more than backoff_max_s, which is 20",
    ),
    ("[server]\nport = = 1\n", 2, "not valid TOML: Invalid value"),
    ("[server\n", 1, "not valid TOML: Expected ']'"),
    ("[server]\nhost = localhost\n", 2, 'Invalid value; text needs quotes: host = "…"'),
    ("[server]\r\nhost = localhost\r\n", 2, 'Invalid value; text needs quotes: host = "…"'),
    ("[server]\nhost = “localhost”\n", 2, "it has curly quotes"),
    ('[server]\nhost = "localhost\n', 2, "the closing quote is missing"),
    ("[server]\nport: 80\n", 2, "; write key = value"),
    ('{"server": {"port": 80}}\n', 1, "it looks like JSON"),
    ("[server]\nport = 1\nport = 2\n", 3, "this key or table appears twice: keep one of them"),
    ("[server]\n[log]\n[server]\n", 3, "the table [server] appears twice"),
    ("[[targets]]\n[targets.retry]\n[targets.retry]\n", 3, "the table [targets.retry] appears twice"),
    ("[[targets]]\n[targets]\n", 2, "start each of them with [[targets]]"),
    ("[targets]\n[[targets]]\n", 2, "start each of them with [[targets]]"),
    ("[[targets]]\nretry = { hedge = True }\n", 2, "write true and false in lower case"),
    ('[server]\ndata_dir = "C:\\data"\n', 2, "put the text in single quotes"),
    ('[server]\ndata_dir = "C:\\Users"\n', 2, "put the text in single quotes"),
    ('instructions = """\nNote: use C:\\path\n"""\n', 2, "put the text in single quotes"),
    ('instructions = """\nuse “C:\\path”\n"""\n', 2, "put the text in single quotes"),
    ("server = { port = 1, port = 2 }\n", 1, "this key or table appears twice: keep one of them"),
    ("[server]\ndata_dir = ''\n", 2, "server.data_dir must not be empty"),
    ("[server]\ndata_dir = '$HOME/x'\n", 2, "starts with $HOME, which isn't expanded here"),
    ("[agent]\nworkspace = '~bob/x'\n", 2, "starts with ~bob; only ~ is expanded, to your home"),
    ("[[approvals.rules]]\ndeny = 'shel'\n", 2, "rules[0].deny is not a tool; did you mean shell?"),
    (
        "[[approvals.rules]]\ndeny = 'mcp__tracker__*'\n",
        2,
        "rules[0].deny is not a tool; a rule names one tool, or all with *",
    ),
    ("[[approvals.rules]]\nallow = 'bash'\n", 2, "rules[0].allow is not a tool; the tools are shell, "),
    (
        TARGET.replace("sk-of-main-target", "$MAIN_KEY"),
        7,
        "looks like a shell variable, which isn't expanded here",
    ),
    (TARGET.replace("sk-of-main-target", "${main_key}"), 7, "isn't expanded here; write env:main_key"),
    (TARGET.replace("sk-of-main-target", "ENV:MAIN_KEY"), 7, "isn't expanded here; write env:MAIN_KEY"),
    (TARGET.replace("/v1", "/v1/chat/completions/"), 5, "must not include /chat/completions, which every"),
    (TARGET.replace("/v1", "/responses").replace('"chat"', '"responses"'), 5, "must not include /responses"),
    ("[[mcp_servers]]\nname='a'\nurl='http://x'\nheaders={A='é'}\n", 1, "header 'A' can't be sent"),
    (f"[[mcp_servers]]\nname='{'n' * 65}'\nurl='http://x'\n", 1, "a printable name of 1 to 64 characters"),
]


@for_each_row(("text", "line", "words"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_key_type_or_value_is_named_with_file_line_and_what_would_be_right(
    text: str, line: int, words: str
) -> None:
    lines = refused(given(text)).splitlines()
    assert any(told.startswith(f"{FILE}, line {line}: ") and words in told for told in lines), lines


def test_a_last_line_without_a_line_end_gets_its_hint_too() -> None:
    told = refused(given("[server]\nport = 1\nport = 2"))
    assert told.startswith(f"{FILE}, at the end: not valid TOML: ")
    assert told.endswith("; this key or table appears twice: keep one of them")
    assert "curly" not in refused(given('instructions = """\nsay “hi”'))


def test_all_that_is_wrong_is_told_at_once_from_top_to_bottom() -> None:
    text = TARGET.replace("chat", "chatt") + "[server]\nprot = 1\nport = 'x'\n[log]\nlevel = 1\n"
    lines = refused(given(text, environ={"HOLDFAST_MAX_CONCURRENT_RUNS": "many"})).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "HOLDFAST_MAX_CONCURRENT_RUNS",
        *(f"{FILE}, line {number}" for number in (4, 9, 10, 12)),
    ]


def test_a_table_that_is_none_is_named_even_if_a_variable_sets_a_key_of_it() -> None:
    told = refused(given("server = 5\n", environ={"HOLDFAST_PORT": "1"}))
    assert told == f"{FILE}, line 1: server must be a table, not a whole number"
    long = "port = " + "9" * 5000
    assert refused(given(long)).startswith(f"{FILE}: not valid TOML: Exceeds the limit")


def test_a_flood_of_faults_is_cut_short() -> None:
    lines = refused(given("".join(f"k{number} = 1\n" for number in range(60)))).splitlines()
    assert len(lines) == 51
    assert lines[-1] == "and 10 more"


@for_each_row(
    ("flags", "environ", "words"),
    [
        ({"port": 99_999}, {}, "--port: server.port must be 65535 or less"),
        ({"agent_workspace": "$HOME/x"}, {}, "--workspace: agent.workspace starts with $HOME, which"),
        ({"log_level": "loud"}, {}, "--log-level: log.level must be one of"),
        ({"no_auth": False, "host": "::"}, {}, "--host: server.host is not loopback"),
        ({}, {"HOME": ""}, "server.data_dir starts with ~, but HOME is not set"),
        ({}, {"HOLDFAST_PORT": "x"}, "HOLDFAST_PORT: server.port must be a whole number, not text"),
        ({}, {"HOLDFAST_NO_AUTH": "maybe"}, "HOLDFAST_NO_AUTH: must be 1 or 0"),
        ({}, {"HOLDFAST_DATA_DIR": "$HOME/x"}, "HOLDFAST_DATA_DIR: server.data_dir starts with $HOME"),
        ({}, {"HOLDFAST_API_KEYS": ","}, "HOLDFAST_API_KEYS: server.api_keys must be a list, not text"),
        ({}, {"HOLDFAST_HOST": "0.0.0.0"}, "HOLDFAST_HOST: server.host is not loopback"),  # noqa: S104
        (
            {"no_auth": True, "host": "::"},
            {},
            "--no-auth: server.api_keys can be empty only on loopback",
        ),
    ],
)
def test_a_wrong_flag_or_variable_is_named_as_such(
    flags: dict[str, object], environ: dict[str, str], words: str
) -> None:
    text = "[server]\nport = 1\n"
    assert words in refused(given(text, environ=environ, flags=flags))
