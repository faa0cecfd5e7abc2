// Made by scripts/page_events.py from holdfast.events; change it there and run the script again.

export type ApprovalMode =
  | "allow-workspace"
  | "ask"
  | "unattended";

export type AskState =
  | "answered"
  | "expired"
  | "open"
  | "withdrawn";

export type CallFinish =
  | "failed"
  | "length"
  | "redirected"
  | "refused"
  | "stop"
  | "too_long"
  | "tools";

export type CallPurpose =
  | "answer"
  | "compaction"
  | "title";

export type Choice =
  | "always"
  | "deny"
  | "once"
  | "session";

export type CloseReason =
  | "cancel"
  | "connect_kill"
  | "done"
  | "peer"
  | "stream_idle_kill"
  | "ttfb_kill"
  | "upload_kill";

export type Durability =
  | "power"
  | "process";

export type FailureKind =
  | "auth"
  | "bad_request"
  | "cancelled"
  | "connect_failed"
  | "content_refused"
  | "dropped"
  | "empty"
  | "entitlement"
  | "local_bug"
  | "malformed"
  | "model_missing"
  | "no_first_event"
  | "overflow_input"
  | "overflow_output"
  | "overloaded"
  | "payload_too_large"
  | "quota_exhausted"
  | "rate_limited"
  | "server_error"
  | "stalled"
  | "tls_untrusted"
  | "truncated"
  | "unknown"
  | "upload_stalled";

export type MemoryMode =
  | "ask"
  | "auto"
  | "off";

export type Mode =
  | "queue"
  | "redirect"
  | "send"
  | "steer";

export type OnExpiry =
  | "continue"
  | "stop";

export type OnRestart =
  | "interrupt"
  | "resume";

export type OutcomeKind =
  | "budget"
  | "cancelled"
  | "completed"
  | "failed"
  | "interrupted"
  | "refused"
  | "truncated";

export type PlanStepState =
  | "completed"
  | "in_progress"
  | "pending";

export type RelayKeep =
  | "all"
  | "none"
  | "usage";

export type RunPurpose =
  | "answer"
  | "compaction";

export type ToolEnding =
  | "denied"
  | "detached"
  | "expired"
  | "finished"
  | "killed"
  | "no_approver"
  | "not_started"
  | "unknown";

export type ToolOwner =
  | "client"
  | "holdfast";

export type WhenBusy =
  | "queue"
  | "redirect"
  | "reject"
  | "steer";

export type Width =
  | "exact"
  | "similar";

/** The first event of a log; `epoch` tells this log from an earlier one under the same id. */
export interface SessionCreated {
  readonly type: "session.created";
  readonly at_ms: number;
  readonly epoch: string;
  readonly source?: string;
  readonly title?: string;
  readonly workspace?: string;
  readonly parent?: ParentLink | null;
  readonly chat?: string;
}

/** Whose sub-agent a session is: the parent's session and run, and the tool call that made it. */
export interface ParentLink {
  readonly session_id: string;
  readonly run_id: string;
  readonly tool_call_id: string;
  readonly name: string;
  readonly depth?: number;
  readonly background?: boolean;
  readonly home?: string;
}

/** A person named the session, or a model did after the first answer. */
export interface SessionRenamed {
  readonly type: "session.renamed";
  readonly at_ms: number;
  readonly title: string;
  readonly by?: "model" | "person";
  readonly cost_usd?: number | null;
}

/** The session stays on top of the list. */
export interface SessionPinned {
  readonly type: "session.pinned";
  readonly at_ms: number;
}

/** The session goes back to its place in the list. */
export interface SessionUnpinned {
  readonly type: "session.unpinned";
  readonly at_ms: number;
}

/** The session leaves the default list. */
export interface SessionArchived {
  readonly type: "session.archived";
  readonly at_ms: number;
}

/** The session returns to the default list. */
export interface SessionUnarchived {
  readonly type: "session.unarchived";
  readonly at_ms: number;
}

/** The session is hidden, and purged once `purge_at_ms` has passed. */
export interface SessionDeleted {
  readonly type: "session.deleted";
  readonly at_ms: number;
  readonly purge_at_ms: number;
}

/** A deletion was taken back in time. */
export interface SessionRestored {
  readonly type: "session.restored";
  readonly at_ms: number;
}

/** The events before this one were copied from another session, up to `at_seq` there. */
export interface SessionForked {
  readonly type: "session.forked";
  readonly at_ms: number;
  readonly source_session_id: string;
  readonly at_seq: number;
}

/** What came after `to_seq` no longer counts; with `undo`, files are put back, also after a crash. */
export interface SessionRewound {
  readonly type: "session.rewound";
  readonly at_ms: number;
  readonly to_seq: number;
  readonly undo?: Undo | null;
}

/** One undo, or with `redoes` the undoing of one: what is put back in the workspace. */
export interface Undo {
  readonly undo_id: string;
  readonly run_id: string;
  readonly workspace: string;
  readonly files: number;
  readonly digest: string;
  readonly plan: string;
  readonly snapshot?: string;
  readonly runs?: readonly string[];
  readonly redoes?: string;
  readonly keeps_log?: boolean;
  readonly turns?: number;
  readonly by?: string;
}

/** A person lets machines with other files continue the session; an empty home is any machine. */
export interface SessionMoved {
  readonly type: "session.moved";
  readonly at_ms: number;
  readonly home?: string;
  readonly by?: string;
}

/** A person chose how actions of this session are approved; an empty mode is the configured one. */
export interface SessionModeSet {
  readonly type: "session.mode_set";
  readonly at_ms: number;
  readonly mode?: "" | "allow-workspace" | "ask" | "unattended";
  readonly by?: string;
  readonly workspace?: string | null;
}

/** A person's message is on disk. */
export interface MessageAccepted {
  readonly type: "message.accepted";
  readonly at_ms: number;
  readonly message_id: string;
  readonly text: string;
  readonly mode?: Mode;
  readonly client_id?: string;
  readonly parts?: readonly (TextPart | ImagePart | FilePart)[];
  readonly run_id?: string;
  readonly child?: string;
  readonly key?: string;
  readonly source?: string;
}

/** A stretch of text inside a message. */
export interface TextPart {
  readonly kind: "text";
  readonly text: string;
}

/** An image, kept as a blob. */
export interface ImagePart {
  readonly kind: "image";
  readonly blob: string;
  readonly media_type: string;
  readonly name?: string;
}

/** A file that a person attached, kept as a blob. */
export interface FilePart {
  readonly kind: "file";
  readonly blob: string;
  readonly media_type: string;
  readonly name: string;
}

/** A waiting message has another text. */
export interface MessageEdited {
  readonly type: "message.edited";
  readonly at_ms: number;
  readonly message_id: string;
  readonly text: string;
  readonly parts?: readonly (TextPart | ImagePart | FilePart)[];
  readonly key?: string;
}

/** A waiting message takes another place in the queue (0 is next). */
export interface MessageMoved {
  readonly type: "message.moved";
  readonly at_ms: number;
  readonly message_id: string;
  readonly position: number;
}

/** A waiting message was taken back. */
export interface MessageRemoved {
  readonly type: "message.removed";
  readonly at_ms: number;
  readonly message_id: string;
}

/** A message was handed to this run: it can no longer be edited. */
export interface MessageDispatched {
  readonly type: "message.dispatched";
  readonly at_ms: number;
  readonly run_id: string;
  readonly message_id: string;
}

/** Waiting messages stay where they are until a person says otherwise. */
export interface QueuePaused {
  readonly type: "queue.paused";
  readonly at_ms: number;
  readonly by_stop?: boolean;
}

/** Waiting messages start runs again. */
export interface QueueResumed {
  readonly type: "queue.resumed";
  readonly at_ms: number;
}

/** A run exists; it stands in the same transaction as its message. */
export interface RunQueued {
  readonly type: "run.queued";
  readonly at_ms: number;
  readonly run_id: string;
  readonly message_id: string;
  readonly settings?: RunSettings;
  readonly history?: readonly HistoryMessage[] | null;
  readonly key?: string;
}

/** What the caller asked for with this run; empty means the server's own setting. */
export interface RunSettings {
  readonly model?: string;
  readonly instructions?: string;
  readonly workspace?: string;
  readonly budget?: Budget | null;
  readonly temperature?: number | null;
  readonly max_output_tokens?: number;
  readonly reasoning_effort?: string;
  readonly on_restart?: "" | "interrupt" | "resume";
  readonly on_disconnect?: "" | "cancel" | "detach";
  readonly metadata?: Readonly<Record<string, string>>;
  readonly output?: OutputFormat | null;
  readonly sampling?: Readonly<Record<string, unknown>>;
  readonly client_tools?: readonly ClientTool[];
  readonly tool_choice?: string;
  readonly no_questions?: boolean;
  readonly tools?: readonly string[];
  readonly unattended?: boolean;
  readonly offline?: boolean;
  readonly client?: string;
  readonly purpose?: RunPurpose;
  readonly takes_files?: boolean;
  readonly plan_first?: boolean;
  readonly goal?: boolean;
}

/** What a run may use up; 0 is no limit. */
export interface Budget {
  readonly tokens?: number;
  readonly cost_usd?: number;
  readonly turns?: number;
  readonly minutes?: number;
}

/** The form that the answer must have: JSON that fits `schema`; an empty schema means any JSON object. */
export interface OutputFormat {
  readonly name?: string;
  readonly description?: string;
  readonly schema?: Readonly<Record<string, unknown>>;
  readonly strict?: boolean;
}

/** A tool that the client brings and runs itself; `schema` is JSON Schema of an object. */
export interface ClientTool {
  readonly name: string;
  readonly description?: string;
  readonly schema?: Readonly<Record<string, unknown>>;
}

/** One message of a history that a client sent along, as it came. */
export interface HistoryMessage {
  readonly role: string;
  readonly content: string;
  readonly parts?: readonly (TextPart | ImagePart | FilePart)[];
  readonly tool_calls?: readonly HistoryToolCall[];
  readonly tool_call_id?: string;
}

/** A tool call in a history that a client sent along; `arguments` is the text as it came. */
export interface HistoryToolCall {
  readonly tool_call_id: string;
  readonly name: string;
  readonly arguments?: string;
}

/** The run has its slot. */
export interface RunStarted {
  readonly type: "run.started";
  readonly at_ms: number;
  readonly run_id: string;
  readonly target?: string;
}

/** One logical model request begins. */
export interface CallStarted {
  readonly type: "call.started";
  readonly at_ms: number;
  readonly run_id: string;
  readonly call_id: string;
  readonly turn: number;
  readonly purpose?: CallPurpose;
}

/** The call is over, and how the model finished; from here on a crash need not ask again. */
export interface CallEnded {
  readonly type: "call.ended";
  readonly at_ms: number;
  readonly run_id: string;
  readonly call_id: string;
  readonly finish: CallFinish;
}

/** One connection to one target begins; text that follows is its text. */
export interface AttemptStarted {
  readonly type: "attempt.started";
  readonly at_ms: number;
  readonly run_id: string;
  readonly call_id: string;
  readonly attempt_id: string;
  readonly target: string;
  readonly model?: string;
  readonly nth?: number;
  readonly first_event_s?: number;
  readonly reconnects?: number;
}

/** The attempt did not bring an answer. */
export interface AttemptFailed {
  readonly type: "attempt.failed";
  readonly at_ms: number;
  readonly run_id: string;
  readonly attempt_id: string;
  readonly failure: Failure;
  readonly close_reason: CloseReason;
  readonly ms?: number;
}

/** Why an attempt, a call or a run did not succeed, as a person and a program can use it. */
export interface Failure {
  readonly kind: FailureKind;
  readonly text: string;
  readonly rule?: string;
  readonly status?: number;
  readonly code?: string;
  readonly hint?: string;
}

/** The attempt's text no longer counts; `problem` says why a complete answer can't be used. */
export interface AttemptSuperseded {
  readonly type: "attempt.superseded";
  readonly at_ms: number;
  readonly run_id: string;
  readonly attempt_id: string;
  readonly problem?: string;
}

/** More of the answer. */
export interface TextDelta {
  readonly type: "text.delta";
  readonly at_ms: number;
  readonly run_id: string;
  readonly segment: number;
  readonly text: string;
}

/** A stretch of the answer is complete; this is the whole of it. */
export interface TextDone {
  readonly type: "text.done";
  readonly at_ms: number;
  readonly run_id: string;
  readonly segment: number;
  readonly text: string;
  readonly phase?: string;
  readonly goes_on?: boolean;
}

/** More of what the model thinks. */
export interface ReasoningDelta {
  readonly type: "reasoning.delta";
  readonly at_ms: number;
  readonly run_id: string;
  readonly segment: number;
  readonly text: string;
}

/** A stretch of thinking is complete; `opaque` is what its provider wants back with it. */
export interface ReasoningDone {
  readonly type: "reasoning.done";
  readonly at_ms: number;
  readonly run_id: string;
  readonly segment: number;
  readonly text: string;
  readonly opaque?: Readonly<Record<string, string>>;
}

/** The model asks for a tool; `bad_args` holds arguments that are no JSON object, as they came. */
export interface ToolAsked {
  readonly type: "tool.asked";
  readonly at_ms: number;
  readonly run_id: string;
  readonly tool_call_id: string;
  readonly name: string;
  readonly owner?: ToolOwner | null;
  readonly args?: Readonly<Record<string, unknown>>;
  readonly bad_args?: string;
  readonly opaque?: Readonly<Record<string, string>>;
}

/** The intent is on disk: from here on the effect may have happened. */
export interface ToolStarted {
  readonly type: "tool.started";
  readonly at_ms: number;
  readonly run_id: string;
  readonly tool_call_id: string;
  readonly effect_key: string;
  readonly profile?: string;
  readonly home?: string;
}

/** A running tool said something. */
export interface ToolOutput {
  readonly type: "tool.output";
  readonly at_ms: number;
  readonly run_id: string;
  readonly tool_call_id: string;
  readonly text: string;
  readonly stream?: "progress" | "stderr" | "stdout";
}

/** The tool call is over; `result` is what the model is shown, `blob` the whole where it was cut. */
export interface ToolEnded {
  readonly type: "tool.ended";
  readonly at_ms: number;
  readonly run_id: string;
  readonly tool_call_id: string;
  readonly ok: boolean;
  readonly result: string;
  readonly ending?: ToolEnding;
  readonly parts?: readonly (TextPart | ImagePart | FilePart)[];
  readonly blob?: string;
  readonly ms?: number;
  readonly sent?: SentFile | null;
  readonly advice?: string;
  readonly proposal?: string;
}

/** A file that the agent hands to the person in the chat. */
export interface SentFile {
  readonly blob: string;
  readonly name: string;
  readonly media_type: string;
  readonly caption?: string;
}

/** The workspace is stored as it was before the first change of a turn, or after the last one. */
export interface SnapshotTaken {
  readonly type: "snapshot.taken";
  readonly at_ms: number;
  readonly run_id: string;
  readonly turn: number;
  readonly when: "after" | "before";
  readonly workspace: string;
  readonly snapshot?: string;
  readonly files?: number;
  readonly not_covered?: number;
  readonly changed?: number;
  readonly overlaps?: readonly string[];
  readonly why_not?: string;
  readonly branch?: string;
  readonly commit?: string;
}

/** A sub-agent is about to be created under these ids; `settings.budget` is reserved for it from here on. */
export interface ChildStarted {
  readonly type: "child.started";
  readonly at_ms: number;
  readonly run_id: string;
  readonly child_id: string;
  readonly child_run_id: string;
  readonly message_id: string;
  readonly tool_call_id: string;
  readonly name: string;
  readonly settings?: RunSettings;
  readonly background?: boolean;
  readonly outlives?: boolean;
}

/** A sub-agent of this run ended: what it reserved is free again, and this is what it used. */
export interface ChildEnded {
  readonly type: "child.ended";
  readonly at_ms: number;
  readonly run_id: string;
  readonly child_id: string;
  readonly outcome: OutcomeKind;
  readonly cause?: string;
  readonly result?: string;
  readonly blob?: string;
  readonly used?: ChildUsage;
}

/** What a sub-agent used, its own sub-agents included; `cost_usd` is the part whose price is known. */
export interface ChildUsage {
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly turns?: number;
  readonly cost_usd?: number;
}

/** A sub-agent of this run, or one of its own sub-agents, asks a person. */
export interface ChildAsked {
  readonly type: "child.asked";
  readonly at_ms: number;
  readonly run_id: string;
  readonly child_id: string;
  readonly ask: ApprovalAsked | QuestionAsked;
}

/** A person must decide on one exact action. */
export interface ApprovalAsked {
  readonly type: "approval.asked";
  readonly at_ms: number;
  readonly run_id: string;
  readonly approval_id: string;
  readonly tool_call_id: string;
  readonly action: Action;
  readonly findings?: readonly string[];
  readonly choices?: readonly Choice[];
  readonly expires_at_ms?: number;
  readonly headline?: string;
  readonly offers?: readonly GrantOffer[];
  readonly once_because?: string;
}

/** The one exact thing that an approval is about. */
export interface Action {
  readonly tool: string;
  readonly summary: string;
  readonly argv?: readonly string[];
  readonly paths?: readonly string[];
  readonly host?: string;
  readonly diff?: string;
  readonly digest?: string;
  readonly lift?: Lift;
  readonly definition?: string;
  readonly reason?: string;
  readonly background?: boolean;
  readonly shortfall?: string;
}

/** What an approval lifts of the sandbox for one command; empty means that it runs inside. */
export interface Lift {
  readonly hosts?: readonly string[];
  readonly network?: boolean;
  readonly write?: readonly string[];
  readonly read?: readonly string[];
  readonly everything?: boolean;
}

/** A rule that "session" or "always" can store, with an action that it covers and one that still asks. */
export interface GrantOffer {
  readonly rule: GrantRule;
  readonly covers: string;
  readonly asks: string;
}

/** A structured rule: which actions need no further question. */
export interface GrantRule {
  readonly tool: string;
  readonly argv?: readonly string[];
  readonly paths?: readonly string[];
  readonly host?: string;
  readonly width?: Width;
  readonly lift?: Lift;
  readonly definition?: string;
}

/** The model, or one of its tools, asks a person. */
export interface QuestionAsked {
  readonly type: "question.asked";
  readonly at_ms: number;
  readonly run_id: string;
  readonly question_id: string;
  readonly tool_call_id: string;
  readonly text: string;
  readonly choices?: readonly string[];
  readonly expires_at_ms?: number;
}

/** What a sub-agent asked needs no answer any more; `settled` is as in the log of the one who asked. */
export interface ChildAskSettled {
  readonly type: "child.ask_settled";
  readonly at_ms: number;
  readonly run_id: string;
  readonly child_id: string;
  readonly settled:
    | ApprovalAnswered
    | ApprovalExpired
    | ApprovalWithdrawn
    | QuestionAnswered
    | QuestionExpired
    | QuestionWithdrawn;
}

/** A person decided. */
export interface ApprovalAnswered {
  readonly type: "approval.answered";
  readonly at_ms: number;
  readonly run_id: string;
  readonly approval_id: string;
  readonly choice: Choice;
  readonly by?: string;
  readonly reason?: string;
  readonly width?: Width;
  readonly steps?: readonly PlanStep[];
}

/** One step of a plan. */
export interface PlanStep {
  readonly text: string;
  readonly state?: PlanStepState;
}

/** Nobody decided in time, so the action is not run. */
export interface ApprovalExpired {
  readonly type: "approval.expired";
  readonly at_ms: number;
  readonly run_id: string;
  readonly approval_id: string;
}

/** The action is no longer wanted, so the approval can no longer be given. */
export interface ApprovalWithdrawn {
  readonly type: "approval.withdrawn";
  readonly at_ms: number;
  readonly run_id: string;
  readonly approval_id: string;
  readonly cause: string;
}

/** A person answered; a `reason` says why there is no answer. */
export interface QuestionAnswered {
  readonly type: "question.answered";
  readonly at_ms: number;
  readonly run_id: string;
  readonly question_id: string;
  readonly answer: string;
  readonly by?: string;
  readonly reason?: string;
  readonly client_id?: string;
}

/** Nobody answered in time. */
export interface QuestionExpired {
  readonly type: "question.expired";
  readonly at_ms: number;
  readonly run_id: string;
  readonly question_id: string;
}

/** The question is no longer open. */
export interface QuestionWithdrawn {
  readonly type: "question.withdrawn";
  readonly at_ms: number;
  readonly run_id: string;
  readonly question_id: string;
  readonly cause: string;
}

/** The parent's log has this sub-agent's ending, or the parent is gone. */
export interface ParentTold {
  readonly type: "parent.told";
  readonly at_ms: number;
  readonly gone?: boolean;
}

/** The client must run these tool calls, which are for tools that it brought. */
export interface ClientToolsAsked {
  readonly type: "client_tools.asked";
  readonly at_ms: number;
  readonly run_id: string;
  readonly client_tools_id: string;
  readonly tool_call_ids: readonly string[];
  readonly expires_at_ms?: number;
}

/** The client returned the results; `tools` and `tool_choice` hold for the calls that follow. */
export interface ClientToolsAnswered {
  readonly type: "client_tools.answered";
  readonly at_ms: number;
  readonly run_id: string;
  readonly client_tools_id: string;
  readonly results: readonly ClientToolResult[];
  readonly tools?: readonly ClientTool[] | null;
  readonly tool_choice?: string;
  readonly by?: string;
}

/** What a client's own tool returned for one call. */
export interface ClientToolResult {
  readonly tool_call_id: string;
  readonly text: string;
  readonly parts?: readonly (TextPart | ImagePart | FilePart)[];
}

/** The client returned no results in time. */
export interface ClientToolsExpired {
  readonly type: "client_tools.expired";
  readonly at_ms: number;
  readonly run_id: string;
  readonly client_tools_id: string;
}

/** The results are no longer wanted. */
export interface ClientToolsWithdrawn {
  readonly type: "client_tools.withdrawn";
  readonly at_ms: number;
  readonly run_id: string;
  readonly client_tools_id: string;
  readonly cause: string;
}

/** A person allowed a kind of action for this session or always. */
export interface GrantAdded {
  readonly type: "grant.added";
  readonly at_ms: number;
  readonly grant_id: string;
  readonly rule: GrantRule;
  readonly scope: "always" | "session";
  readonly approval_id?: string;
  readonly by?: string;
}

/** A grant no longer holds. */
export interface GrantRemoved {
  readonly type: "grant.removed";
  readonly at_ms: number;
  readonly grant_id: string;
}

/** The call waits for a time that the provider named. */
export interface CallGated {
  readonly type: "call.gated";
  readonly at_ms: number;
  readonly run_id: string;
  readonly call_id: string;
  readonly until_ms: number;
  readonly target: string;
  readonly why?: string;
}

/** Another target answers, and the user is told why. */
export interface TargetSwitched {
  readonly type: "target.switched";
  readonly at_ms: number;
  readonly run_id: string;
  readonly from_target: string;
  readonly to_target: string;
  readonly why: string;
}

/** What one call used. */
export interface Usage {
  readonly type: "usage";
  readonly at_ms: number;
  readonly run_id: string;
  readonly call_id: string;
  readonly target?: string;
  readonly model?: string;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly cached_tokens?: number;
  readonly cache_write_tokens?: number;
  readonly reasoning_tokens?: number;
  readonly cost_usd?: number | null;
  readonly estimated?: boolean;
}

/** The model is shown `summary` in place of everything up to `upto_seq`; the tokens are estimates. */
export interface ContextCompacted {
  readonly type: "context.compacted";
  readonly at_ms: number;
  readonly run_id: string;
  readonly upto_seq: number;
  readonly summary: string;
  readonly tokens_before?: number;
  readonly tokens_after?: number;
}

/** Attached files that the model can't read directly are in the workspace, or could not be put there. */
export interface AttachmentsSaved {
  readonly type: "attachments.saved";
  readonly at_ms: number;
  readonly run_id: string;
  readonly files: readonly SavedFile[];
}

/** An attached file in the workspace; without a `path` it isn't there, and `why` says why. */
export interface SavedFile {
  readonly blob: string;
  readonly name: string;
  readonly media_type: string;
  readonly bytes: number;
  readonly path?: string;
  readonly why?: string;
  readonly head?: string;
}

/** The model is shown something from outside besides the conversation: files, descriptions of tools. */
export interface ContextRead {
  readonly type: "context.read";
  readonly at_ms: number;
  readonly run_id: string;
  readonly sources: readonly string[];
}

/** The agent wants to remember something; it counts only if a person accepts it. */
export interface MemoryProposed {
  readonly type: "memory.proposed";
  readonly at_ms: number;
  readonly change_id: string;
  readonly document: string;
  readonly before: string;
  readonly after: string;
  readonly old?: string;
  readonly new?: string;
  readonly reason?: string;
  readonly because?: readonly string[];
  readonly origin?: MemoryOrigin | null;
}

/** Where something that the agent wants to remember came from. */
export interface MemoryOrigin {
  readonly session_id: string;
  readonly run_id: string;
  readonly message_id: string;
  readonly tool_call_id: string;
  readonly seq?: number;
}

/** A document has another text; nothing changed if it no longer had the text before. */
export interface MemoryWritten {
  readonly type: "memory.written";
  readonly at_ms: number;
  readonly change_id: string;
  readonly document: string;
  readonly before: string;
  readonly after: string;
  readonly how: "accepted" | "auto" | "edited" | "imported" | "kept" | "rolled_back";
  readonly reason?: string;
  readonly by?: string;
  readonly to_seq?: number;
  readonly origin?: MemoryOrigin | null;
}

/** A person doesn't want this to be remembered. */
export interface MemoryRejected {
  readonly type: "memory.rejected";
  readonly at_ms: number;
  readonly change_id: string;
  readonly by?: string;
}

/** The agent's plan for the work; the newest one counts. `accepted`: a person accepted it in plan mode. */
export interface PlanUpdated {
  readonly type: "plan.updated";
  readonly at_ms: number;
  readonly run_id: string;
  readonly tool_call_id: string;
  readonly steps: readonly PlanStep[];
  readonly accepted?: boolean;
}

/** The model stopped before it showed that the goal is reached, so the run goes on. */
export interface GoalContinued {
  readonly type: "goal.continued";
  readonly at_ms: number;
  readonly run_id: string;
  readonly round: number;
  readonly told: string;
}

/** Someone wants the run to stop. */
export interface StopRequested {
  readonly type: "stop.requested";
  readonly at_ms: number;
  readonly run_id: string;
  readonly cause?: string;
  readonly by?: string;
}

/** The run continues after a `crash` or a `restart`. */
export interface RunResumed {
  readonly type: "run.resumed";
  readonly at_ms: number;
  readonly run_id: string;
  readonly after: string;
}

/** The run's one true ending; `refused_actions` counts the tool calls that nobody allowed. */
export interface RunEnded {
  readonly type: "run.ended";
  readonly at_ms: number;
  readonly run_id: string;
  readonly outcome: OutcomeKind;
  readonly cause?: string;
  readonly failure?: Failure | null;
  readonly trace?: readonly string[];
  readonly refused_actions?: number;
}

/** Output of a run that became readable after its ending: the stored bodies, in order. */
export interface OutputRecovered {
  readonly type: "output.recovered";
  readonly at_ms: number;
  readonly run_id: string;
  readonly events: readonly AnyEvent[];
}

/** The record of a relayed call, written when it is over: who asked which target, and what it used. */
export interface RelayCalled {
  readonly type: "relay.called";
  readonly at_ms: number;
  readonly call_id: string;
  readonly key: string;
  readonly wire: string;
  readonly model?: string;
  readonly target?: string;
  readonly outcome?: "cancelled" | "completed" | "failed";
  readonly failure?: Failure | null;
  readonly attempts?: number;
  readonly ms?: number;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly cached_tokens?: number;
  readonly cache_write_tokens?: number;
  readonly reasoning_tokens?: number;
  readonly cost_usd?: number | null;
  readonly estimated?: boolean;
}

/** Something is to be said. */
export interface DeliveryIntended {
  readonly type: "delivery.intended";
  readonly at_ms: number;
  readonly chat: string;
  readonly message: string;
  readonly part?: number;
  readonly parts?: number;
  readonly run?: string;
  readonly session_id?: string;
  readonly body?: string;
  readonly edits?: string;
  readonly reply_to?: string;
  readonly format?: number;
  readonly head?: string;
  readonly removes?: boolean;
}

/** From here on it may have arrived; `marked` says that it tells people that it may be a repeat. */
export interface DeliveryAttempted {
  readonly type: "delivery.attempted";
  readonly at_ms: number;
  readonly delivery: string;
  readonly nth?: number;
  readonly marked?: boolean;
  readonly absent?: boolean;
}

/** The platform has it, under its own id. */
export interface DeliveryConfirmed {
  readonly type: "delivery.confirmed";
  readonly at_ms: number;
  readonly delivery: string;
  readonly platform_id?: string;
  readonly found?: boolean;
}

/** It certainly didn't arrive, and is sent again at this time. */
export interface DeliveryPostponed {
  readonly type: "delivery.postponed";
  readonly at_ms: number;
  readonly delivery: string;
  readonly why: string;
  readonly until_ms: number;
  readonly plain?: boolean;
  readonly anew?: boolean;
}

/** The platform doesn't take it; `ends_chat` says that it takes nothing for this chat. */
export interface DeliveryRejected {
  readonly type: "delivery.rejected";
  readonly at_ms: number;
  readonly delivery: string;
  readonly why: string;
  readonly ends_chat?: boolean;
  readonly moot?: boolean;
}

/** It may have arrived. It is sent once more, marked as a possible repeat, unless `given_up`. */
export interface DeliveryUnknown {
  readonly type: "delivery.unknown";
  readonly at_ms: number;
  readonly delivery: string;
  readonly why: string;
  readonly given_up?: boolean;
  readonly until_ms?: number;
}

/** The platform answers; `account` is the name that it knows this channel by. */
export interface ChannelConnected {
  readonly type: "channel.connected";
  readonly at_ms: number;
  readonly account?: string;
  readonly missed?: string;
}

/** The platform doesn't answer, or refuses the channel. It is tried again. */
export interface ChannelFailed {
  readonly type: "channel.failed";
  readonly at_ms: number;
  readonly why: string;
  readonly hint?: string;
}

/** Whoever sends this code to the channel may talk to it; the log has only its digest. */
export interface ChannelCodeMade {
  readonly type: "channel.code_made";
  readonly at_ms: number;
  readonly digest: string;
  readonly expires_at_ms: number;
  readonly by?: string;
}

/** Someone sent a wrong code; or `code` is the digest of a right one that they don't need: it is void. */
export interface ChannelCodeTried {
  readonly type: "channel.code_tried";
  readonly at_ms: number;
  readonly user: string;
  readonly code?: string;
}

/** This person may talk, and with the role `approver` also approve. A code that let them in is used up. */
export interface ChannelUserAllowed {
  readonly type: "channel.user_allowed";
  readonly at_ms: number;
  readonly user: string;
  readonly name?: string;
  readonly role?: "approver" | "user";
  readonly by?: string;
  readonly code?: string;
}

/** This person may no longer talk, whatever the settings say. */
export interface ChannelUserRevoked {
  readonly type: "channel.user_revoked";
  readonly at_ms: number;
  readonly user: string;
  readonly by?: string;
}

/** From here on, what is said in this chat belongs to this session. */
export interface ChannelChatBound {
  readonly type: "channel.chat_bound";
  readonly at_ms: number;
  readonly chat: string;
  readonly session_id: string;
}

/** Messages of this chat go to this model; an empty name is the channel's own. */
export interface ChannelModelChosen {
  readonly type: "channel.model_chosen";
  readonly at_ms: number;
  readonly chat: string;
  readonly model?: string;
}

/** Something that came in, and what it became. The same key again is a repeat, and becomes nothing. */
export interface ChannelUpdateTaken {
  readonly type: "channel.update_taken";
  readonly at_ms: number;
  readonly key: string;
  readonly became: "answer" | "command" | "edit" | "ignored" | "message" | "refused" | "steer";
  readonly chat?: string;
  readonly user?: string;
  readonly platform_id?: string;
  readonly session_id?: string;
  readonly message_id?: string;
  readonly why?: string;
  readonly conversation?: string;
}

/** This chat is to be told what becomes of a message that came from elsewhere, such as a trigger. */
export interface ChannelResultWanted {
  readonly type: "channel.result_wanted";
  readonly at_ms: number;
  readonly chat: string;
  readonly session_id: string;
  readonly message_id: string;
  readonly by?: string;
  readonly title?: string;
}

/** What there is to say about this message is intended. */
export interface ChannelMessageSettled {
  readonly type: "channel.message_settled";
  readonly at_ms: number;
  readonly message_id: string;
  readonly why?: string;
  readonly chat?: string;
}

/** The trigger exists; `key` is the name of the API key that made it, and that its runs count for. */
export interface TriggerCreated {
  readonly type: "trigger.created";
  readonly at_ms: number;
  readonly settings: TriggerSettings;
  readonly paused?: boolean;
  readonly key?: string;
  readonly seen_seq?: number;
}

/** When something is asked, of whom, and with which rights. */
export interface TriggerSettings {
  readonly name: string;
  readonly when: CronTimes | EveryTimes | AtTime | OnWebhook | AfterRun;
  readonly prompt: string;
  readonly session_id?: string;
  readonly workspace?: string;
  readonly model?: string;
  readonly tools?: readonly string[];
  readonly approvals?: "" | "ask" | "unattended";
  readonly network?: boolean | null;
  readonly budget?: Budget | null;
  readonly missed?: "ask" | "once" | "skip";
  readonly overlap?: "queue" | "replace" | "skip";
  readonly grace_s?: number;
  readonly failures_max?: number;
  readonly deliver?: readonly string[];
}

/** When a cron expression says, in a time zone; six fields begin with seconds. */
export interface CronTimes {
  readonly kind: "cron";
  readonly expression: string;
  readonly zone?: string;
}

/** Again and again, so many seconds apart. */
export interface EveryTimes {
  readonly kind: "every";
  readonly seconds: number;
}

/** Once. */
export interface AtTime {
  readonly kind: "at";
  readonly at_ms: number;
}

/** Whenever another program posts something that it has signed in this way. */
export interface OnWebhook {
  readonly kind: "webhook";
  readonly signature?: "bearer" | "github" | "slack" | "standard" | "stripe";
}

/** Whenever a run of this session ends. */
export interface AfterRun {
  readonly kind: "after";
  readonly session_id: string;
}

/** From the next instant on, these settings hold. */
export interface TriggerEdited {
  readonly type: "trigger.edited";
  readonly at_ms: number;
  readonly settings: TriggerSettings;
  readonly by?: string;
  readonly seen_seq?: number;
  readonly from_ms?: number;
}

/** Nothing fires until it is resumed, unless a person asks for it. */
export interface TriggerPaused {
  readonly type: "trigger.paused";
  readonly at_ms: number;
  readonly by?: string;
}

/** The trigger fires again, from its next scheduled time on. */
export interface TriggerResumed {
  readonly type: "trigger.resumed";
  readonly at_ms: number;
  readonly by?: string;
  readonly from_ms?: number;
}

/** A person wants it to fire now. */
export interface TriggerRunAsked {
  readonly type: "trigger.run_asked";
  readonly at_ms: number;
  readonly request_id: string;
  readonly by?: string;
}

/** A person said whether the instants that were missed are to be made up for, with one run. */
export interface TriggerMissedAnswered {
  readonly type: "trigger.missed_answered";
  readonly at_ms: number;
  readonly run: boolean;
  readonly by?: string;
}

/** Another program posted something, and its signature is right; `blob` has the body. */
export interface HookDelivered {
  readonly type: "hook.delivered";
  readonly at_ms: number;
  readonly delivery_id: string;
  readonly blob: string;
  readonly bytes: number;
  readonly event?: string;
}

/** This is asked next, under these ids; `missed` instants before it were not. */
export interface TriggerDue {
  readonly type: "trigger.due";
  readonly at_ms: number;
  readonly key: string;
  readonly due_at_ms: number;
  readonly session_id: string;
  readonly message_id: string;
  readonly run_id: string;
  readonly missed?: number;
  readonly seen_seq?: number;
}

/** The message and its run are in the session's log. */
export interface TriggerFired {
  readonly type: "trigger.fired";
  readonly at_ms: number;
  readonly key: string;
}

/** Nothing is asked this time. */
export interface TriggerSkipped {
  readonly type: "trigger.skipped";
  readonly at_ms: number;
  readonly key: string;
  readonly due_at_ms: number;
  readonly why: "duplicate" | "overlap" | "paused" | "queue_full" | "session_deleted";
  readonly seen_seq?: number;
}

/** Instants passed while nobody was there to fire; `is_more` if `count` is not all of them. */
export interface TriggerMissed {
  readonly type: "trigger.missed";
  readonly at_ms: number;
  readonly first_ms: number;
  readonly last_ms: number;
  readonly count: number;
  readonly then: "ask" | "once" | "skip";
  readonly is_more?: boolean;
}

/** What became of a run; without an outcome, its session was removed. */
export interface TriggerRunEnded {
  readonly type: "trigger.run_ended";
  readonly at_ms: number;
  readonly key: string;
  readonly outcome: OutcomeKind | null;
}

/** So many runs failed in a row that it is paused. */
export interface TriggerGaveUp {
  readonly type: "trigger.gave_up";
  readonly at_ms: number;
  readonly failures: number;
}

export type Part = TextPart | ImagePart | FilePart;

/** What can happen. */
export type AnyEvent =
  | SessionCreated
  | SessionRenamed
  | SessionPinned
  | SessionUnpinned
  | SessionArchived
  | SessionUnarchived
  | SessionDeleted
  | SessionRestored
  | SessionForked
  | SessionRewound
  | SessionMoved
  | SessionModeSet
  | MessageAccepted
  | MessageEdited
  | MessageMoved
  | MessageRemoved
  | MessageDispatched
  | QueuePaused
  | QueueResumed
  | RunQueued
  | RunStarted
  | CallStarted
  | CallEnded
  | AttemptStarted
  | AttemptFailed
  | AttemptSuperseded
  | TextDelta
  | TextDone
  | ReasoningDelta
  | ReasoningDone
  | ToolAsked
  | ToolStarted
  | ToolOutput
  | ToolEnded
  | SnapshotTaken
  | ChildStarted
  | ChildEnded
  | ChildAsked
  | ChildAskSettled
  | ParentTold
  | ApprovalAsked
  | ApprovalAnswered
  | ApprovalExpired
  | ApprovalWithdrawn
  | QuestionAsked
  | QuestionAnswered
  | QuestionExpired
  | QuestionWithdrawn
  | ClientToolsAsked
  | ClientToolsAnswered
  | ClientToolsExpired
  | ClientToolsWithdrawn
  | GrantAdded
  | GrantRemoved
  | CallGated
  | TargetSwitched
  | Usage
  | ContextCompacted
  | AttachmentsSaved
  | ContextRead
  | MemoryProposed
  | MemoryWritten
  | MemoryRejected
  | PlanUpdated
  | GoalContinued
  | StopRequested
  | RunResumed
  | RunEnded
  | OutputRecovered
  | RelayCalled
  | DeliveryIntended
  | DeliveryAttempted
  | DeliveryConfirmed
  | DeliveryPostponed
  | DeliveryRejected
  | DeliveryUnknown
  | ChannelConnected
  | ChannelFailed
  | ChannelCodeMade
  | ChannelCodeTried
  | ChannelUserAllowed
  | ChannelUserRevoked
  | ChannelChatBound
  | ChannelModelChosen
  | ChannelUpdateTaken
  | ChannelResultWanted
  | ChannelMessageSettled
  | TriggerCreated
  | TriggerEdited
  | TriggerPaused
  | TriggerResumed
  | TriggerRunAsked
  | TriggerMissedAnswered
  | HookDelivered
  | TriggerDue
  | TriggerFired
  | TriggerSkipped
  | TriggerMissed
  | TriggerRunEnded
  | TriggerGaveUp;

/** An event at its place in the log. */
export type LogRecord = AnyEvent & { readonly seq: number };

export type EventType = AnyEvent["type"];
