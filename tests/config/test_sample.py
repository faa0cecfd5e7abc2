"""A holdfast.toml that says everything: it starts, and says what the defaults are."""

from config.given import LONG_KEY, given, loaded, refused
from holdfast.config.approvals import ApprovalSettings
from holdfast.config.settings import LogSettings
from tables import for_each_row

SAMPLE = """
[server]
host = "127.0.0.1"
port = 8642
data_dir = "~/.local/share/holdfast"      # sqlite file, blobs, key, lock
api_keys = ["env:HOLDFAST_API_KEY"]       # env:NAME, file:PATH, or the text itself
cors_origins = []
max_concurrent_runs = 64
on_restart = "resume"                     # or "interrupt"
durability = "power"                      # or "process": fsync only at checkpoints
keep_deltas_days = 30                     # 0 keeps every delta of every run
spool_dir = ""                            # default: inside data_dir

[log]
file = ""                                 # default: holdfast.log in data_dir, rotated
level = "info"

[[targets]]                               # the first is the default, the rest are fallbacks in order
name = "main"
wire = "chat"                             # responses | chat | anthropic
base_url = "https://api.example.com/v1"
model = "some-model"
api_key = "env:MAIN_API_KEY"
context_window = 200000
headers = {}
[targets.patience]                        # seconds; 0 switches one off
connect_s = 10
upload_s = 20
first_event_s = 45
first_event_cap_s = 180
first_progress_s = 300
gap_s = 120
strict = false
[targets.retry]
attempts_max = 5
attempts_per_target_max = 3
backoff_base_s = 1.0
hedge = false

[agent]
instructions = "Be brief."                # or file:PATH; AGENTS.md of the workspace is added
workspace = "."
turns_max = 100
budget = { tokens = 0, cost_usd = 0, minutes = 0 }   # 0 = no limit

[approvals]
mode = "ask"                              # ask | workspace | unattended
expires_s = 86400
on_expiry = "continue"                    # or "stop"
rules = [{ allow = "shell", argv = ["git", "status"] }]

[[mcp_servers]]
name = "files"
command = ["mcp-server-files", "/data"]   # or url = "http://…"
"""
KEYS = {"HOLDFAST_API_KEY": LONG_KEY, "MAIN_API_KEY": "sk-of-main"}


def test_a_file_that_names_every_key_with_its_default_is_understood() -> None:
    """P12: what is written down as the example is an example that works."""
    it = loaded(SAMPLE, environ=KEYS)
    assert it.warnings == ()
    assert it.settings.log == LogSettings()
    approvals, usual = it.settings.approvals, ApprovalSettings()
    assert (approvals.mode, approvals.expires_s, approvals.on_expiry) == (
        usual.mode,
        usual.expires_s,
        usual.on_expiry,
    )
    (target,) = it.settings.model_targets()
    assert (target.name, target.api_key, target.patience.gap_s) == ("main", "sk-of-main", 120)


@for_each_row(("word", "expires_s"), [("0", 0), ("1", 1)])
def test_questions_that_never_expire_are_a_choice(word: str, expires_s: int) -> None:
    it = loaded(SAMPLE.replace("expires_s = 86400", f"expires_s = {word}"), environ=KEYS)
    assert it.settings.approvals.expires_s == expires_s


def test_a_key_that_is_not_known_is_named_with_its_line() -> None:
    """P12: nothing is taken for a setting that changes nothing."""
    text = SAMPLE.replace('spool_dir = ""', "keep_spools_days = 30")
    why = refused(given(text, environ=KEYS))
    assert "keep_spools_days" in why
    assert "line 12" in why or ":12" in why
