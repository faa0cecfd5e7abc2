"""Fields of responses that the client can't do without: a server of another version must send them too."""

from typing import Any

from msgspec import inspect

from holdfast.api.operations import OPERATIONS
from holdfast.client.decoding import IF_ABSENT

# The fields that every server has always sent. To add a field, give it a default or an entry in IF_ABSENT.
SENT_BY_EVERY_SERVER = """
Accepted: run_id session_id message_id mode
ApprovalResolved: run_id choice resolved
ApprovalShown: approval_id tool command findings action choices
AskList: data
AssistantSaid: role content
AuthShown: type required scopes
BackgroundJobShown: job_id run_id command running started_at
BackgroundOutput: job
BlobStored: blob bytes media_type
BudgetShown: key label period limit_usd limit_tokens used_usd used_tokens resets_at
CacheBreak: seq at reason
CallTokens: seq at run_id call_id new_tokens cached_tokens output_tokens
Capabilities: platform implementation version model auth runtime features endpoints
ChannelMessageShown: id channel chat state
ApprovalModeShown: mode
ClientServersShown: servers renew_s
ClientServerShown: name state
ChildList: session_id data
ChildShown: session_id run_id parent_session_id parent_run_id tool_call_id name depth status
ClientCallShown: id tool
ClientToolsShown: client_tools_id
CommandExpanded: text
CommandList: data
CommandListed: name description argument_hint origin
ContextMessage: id seq author text tokens pinned sent
ContextShown: session_id last_seq window_tokens fit_tokens used_tokens used_percent estimated system_tokens
    tools_tokens messages_tokens tools shortened pins pins_tokens pins_tokens_max messages
DeletedSession: id session_id deleted
DetailedHealth: status version store active_sessions waiting_sessions open_streams event_loop_lag_ms
    event_loop_lag_worst_ms draining targets open_files
DiskShown: free_bytes total_bytes
DraftText: text
FailingTask: name error
FileChanged: path state kind
FileEffect: path effect
FileNotCovered: path why
FileStored: path bytes
FolderEntry: name kind
FolderListing: path entries entries_total
Forked: session_id forked_from at_seq
GateTried: run_id status
GrantList: data
GrantRevoked: grant_id deleted
GrantShown: grant_id scope rule says
HealthShown: status
HitShown: seq passage
JobRepeat: times completed
KeyList: data
KeyMade: name source key
KeyRevoked: name deleted
KeyShown: name source
LearnedShown: input_tokens_min calls first_event_p95_s waits_s
LogStretch: session_id epoch bytes last_seq events
OpenApproval: run_id session_id asked_at approval_id tool command findings action choices
OpenFilesShown: used allowed connections
OpenQuestion: run_id session_id asked_at question_id question
ParentShown: session_id run_id tool_call_id name root_session_id
PatienceShown: connect_s first_event_s first_event_why gap_s
PermissionModesShown: mode allowed
PlanShown: seq run_id steps
QuarantineDeleted: id deleted
QuarantineEntry: id path kept taken_at
QuarantineList: data
QuarantineRestored: id path restored
QuestionResolved: run_id question_id status
QuestionShown: question_id question
QueueShown: data
QueuedMessage: message_id run_id text mode state position created_at
RulePreview: approval_id choice
RememberedIn: session_id
RpcResult: jsonrpc id
RunChanges: run_id workspace files files_total undone
RunEvents: run_id cursor last_event_id events
RunListed: run_id session_id status created_at updated_at
RunPage: data
RunShown: run_id session_id status created_at updated_at
RunState: run_id session_id status created_at updated_at model last_event last_event_id
RunUndone: run_id undo_id files digest
SandboxShown: backend network says holds
MemoryChangeShown: seq change_id document before after how changed_at
MemoryForgotten: forgotten
MemoryHistory: data
MemoryList: mode data
MemoryProposalShown: change_id document before after reason proposed_at
MemoryShown: scope
NodeShown: name url is_this lease_left_s homes sessions
NodeList: data
SessionChatCompletion: session_id run_id status message usage
SessionExport: session events
SessionMade: id session_id title epoch created_at
SessionPage: data
SessionLive: session_id server known
SessionShown: session_id created_at updated_at
ShortenedShown: seq kind at run_id tokens_before tokens_after
SkillList: data
SkillListed: name description category origin trusted
SkillShown: name description category origin trusted body
SignInLink: token expires_in_s
SignedIn: signed_in name page scopes
SignedOut: signed_in
Started: run_id session_id
Stopping: run_id status
StoreHealth: writable late
TargetFailed: kind text
TargetList: data
TargetShown: name model
TargetState: name model
TargetTried: name works ms
TicketIssued: ticket expires_in_s
TranscriptPage: session_id data last_seq
TranscriptRun: run_id message_id first_seq created_ms updated_ms phase answers
TrimmedShown: name seq chars
UsageFigures: runs relayed_calls input_tokens cached_tokens output_tokens cost_usd unpriced_calls
UsageListed: runs relayed_calls input_tokens cached_tokens output_tokens cost_usd unpriced_calls key label
UsageShown: input_tokens output_tokens total_tokens
UsageSummary: by from to rows totals budgets
FireShown: key due_at state
HookAccepted: id accepted
HookSecret: id secret
MissedShown: first_at last_at count
JobBody: job
JobDeleted: ok
JobList: jobs
JobShown: id name prompt schedule_display enabled state created_at
NextInstants: next local when
TriggerDeleted: id deleted
TriggerHistory: fires missed
TriggerList: data
TriggerMade: id name state kind when prompt created_at approvals network missed overlap grace_s
    failures_max
TriggerShown: id name state kind when prompt created_at approvals network missed overlap grace_s
    failures_max
ChannelHealth: name state
ChannelHistory: data
ChannelList: data
ChannelLogEntry: at seq type
ChannelShown: kind name since state
ChannelUpdateAccepted: accepted
ChannelTestIntended: channel chat delivery
ChannelUserChanged: allowed channel user
ChannelUserShown: name role since user
PairingCode: code expires_in_s
UndoPreviewed: run_id plan turns turns_total files files_total log_kept
CommandExpanded: text
CommandList: data
CommandListed: argument_hint description name origin
ModelOptionsShown: model provider providers
ProviderShown: authenticated is_current models name slug total_models
ToolsetList: data platform
ToolsetShown: configured description enabled label name tools
SessionGoalShown: goal session_id
GoalShown: created_at goal last_turn_at max_turns paused_reason status turns_used
SessionModelShown: automatic runtime session_id
SessionRuntime:
RequestedModel: model provider
ReadinessShown: checks status
"""


def structs(*kinds: inspect.Type) -> dict[type, inspect.StructType]:
    """Every struct in these types, at any depth."""
    found: dict[type, inspect.StructType] = {}
    todo = list(kinds)
    while todo:
        match todo.pop():
            case inspect.StructType() as kind if kind.cls not in found:
                found[kind.cls] = kind
                todo += [field.type for field in kind.fields]
            case inspect.VarTupleType() as kind:
                todo.append(kind.item_type)
            case inspect.UnionType() as kind:
                todo += kind.types
            case _:
                pass
    return found


def required_by_the_client() -> dict[str, set[str]]:
    """The fields of each native response that have neither a default nor a meaning when they are absent."""
    kinds: list[Any] = [kind for one in OPERATIONS for kind in one.response_types()]
    native = [
        kind
        for kind in kinds
        if hasattr(kind, "__struct_fields__") and kind.__module__ != "holdfast.features.openai.bodies"
    ]
    return {
        kind.__name__: {field.encode_name for field in struct.fields if field.required}
        - IF_ABSENT.get(kind, {}).keys()
        for kind, struct in structs(*map(inspect.type_info, native)).items()
        if kind.__module__.startswith("holdfast.api.") or kind.__module__.endswith(("bodies", ".operations"))
    }


def listed() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    name = ""
    for word in SENT_BY_EVERY_SERVER.split():
        if word.endswith(":"):
            name = word[:-1]
            found[name] = set()
        else:
            found[name].add(word)
    return found


def test_a_new_field_of_a_response_may_be_absent() -> None:
    """A client of this version reads the responses of servers that don't know the field yet."""
    known, found = listed(), required_by_the_client()
    new = {f"{name}.{field}" for name in known for field in found.get(name, set()) - known[name]}
    assert not new, "give each a default, or an entry in client/decoding.py: IF_ABSENT"
    assert found == known, "list the required fields of a new struct, and remove what may be absent now"
