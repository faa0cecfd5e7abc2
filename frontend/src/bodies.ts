// Made by scripts/page_events.py from holdfast.api; change it there and run the script again.

import type {
  Action,
  Budget,
  Choice,
  FilePart,
  GrantOffer,
  GrantRule,
  ImagePart,
  MemoryMode,
  MemoryOrigin,
  Mode,
  OutcomeKind,
  PlanStep,
  TextPart,
  Width,
} from "./events.ts";

/** The message is stored. The run is starting, queued, or the active one that the message steers. */
export interface Started {
  readonly run_id: string;
  readonly status: "started" | "steered";
  readonly session_id: string;
  readonly message_id: string;
}

/** A run's state from its log, plus its live state. */
export interface RunShown {
  readonly object: "hermes.run";
  readonly run_id: string;
  readonly session_id: string;
  readonly status:
    | "queued"
    | "running"
    | "waiting_for_approval"
    | "waiting_for_client"
    | "stopping"
    | "completed"
    | "failed"
    | "interrupted"
    | "cancelled";
  readonly created_at: number;
  readonly updated_at: number;
  readonly model: string;
  readonly last_event: string;
  readonly last_event_id: number;
  readonly output?: string;
  readonly usage?: UsageShown;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly gated_until?: number;
  readonly outcome?: OutcomeKind;
  readonly finish_reason?: string;
  readonly cause?: string;
  readonly error?: string;
  readonly code?: string;
  readonly hint?: string;
  readonly approval?: ApprovalShown;
  readonly question?: QuestionShown;
  readonly client_tools?: ClientToolsShown;
  readonly waiting_for?: "answer" | "approval";
  readonly pending_approval_id?: string;
  readonly pending_clarify_id?: string;
  readonly refused_actions?: number;
  readonly children?: readonly RunChild[];
  readonly children_usage?: UsageShown | null;
  readonly preview: string;
  readonly queue_position?: number;
  readonly queue_reason?: string;
  readonly mark?: string;
  readonly live?: string;
  readonly background?: readonly BackgroundJobShown[];
}

/** The usage of a run. */
export interface UsageShown {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens: number;
  readonly cost_usd?: number;
}

/** An open approval: one exact action and all findings about it. */
export interface ApprovalShown {
  readonly approval_id: string;
  readonly tool_call_id: string;
  readonly tool: string;
  readonly command: string;
  readonly description: string;
  readonly findings: readonly string[];
  readonly action: Action;
  readonly choices: readonly ("once" | "session" | "always" | "deny")[];
  readonly expires_at: number | null;
  readonly headline?: string;
  readonly offers?: readonly GrantOffer[];
  readonly once_because?: string;
}

/** A question from a run. */
export interface QuestionShown {
  readonly question_id: string;
  readonly tool_call_id: string;
  readonly question: string;
  readonly choices: readonly string[];
  readonly expires_at: number | null;
}

/** Pending tool calls for the client to run. */
export interface ClientToolsShown {
  readonly client_tools_id: string;
  readonly calls?: readonly ClientCallShown[];
  readonly expires_at?: number;
}

/** A call to a client-supplied tool. Return its result with this id. */
export interface ClientCallShown {
  readonly id: string;
  readonly tool: string;
  readonly args?: Readonly<Record<string, unknown>>;
}

/** A sub-agent of the run. Without an outcome, it's active. */
export interface RunChild {
  readonly session_id: string;
  readonly run_id: string;
  readonly tool_call_id: string;
  readonly name: string;
  readonly background?: boolean;
  readonly outcome?: OutcomeKind;
}

/** A background process started by a tool. `exit_code` is null while it runs, or if unknown. */
export interface BackgroundJobShown {
  readonly job_id: string;
  readonly run_id: string;
  readonly command: string;
  readonly running: boolean;
  readonly started_at: number;
  readonly exit_code?: number;
  readonly server?: string;
}

/** Events of a run, for polling. */
export interface RunEvents {
  readonly object: "list";
  readonly run_id: string;
  readonly cursor: number;
  readonly last_event_id: number;
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

/** A page of runs, newest first. */
export interface RunPage {
  readonly object: "list";
  readonly data: readonly RunListed[];
  readonly has_more: boolean;
  readonly next_cursor: string | null;
}

/** A run in a list. */
export interface RunListed {
  readonly object: "hermes.run";
  readonly run_id: string;
  readonly session_id: string;
  readonly status:
    | "queued"
    | "running"
    | "waiting_for_approval"
    | "waiting_for_client"
    | "stopping"
    | "completed"
    | "failed"
    | "interrupted"
    | "cancelled";
  readonly created_at: number;
  readonly updated_at: number;
  readonly model: string;
  readonly preview: string;
  readonly outcome?: OutcomeKind;
  readonly queue_position?: number;
  readonly queue_reason?: string;
  readonly waiting_for?: "answer" | "approval";
  readonly refused_actions?: number;
}

/** The stop request is stored. The run ends when all its work has stopped. */
export interface Stopping {
  readonly run_id: string;
  readonly status: "stopping";
}

/** A run's state from its log. `waiting_for` is the reason for `waiting_for_approval`. */
export interface RunState {
  readonly object: "hermes.run";
  readonly run_id: string;
  readonly session_id: string;
  readonly status:
    | "queued"
    | "running"
    | "waiting_for_approval"
    | "waiting_for_client"
    | "stopping"
    | "completed"
    | "failed"
    | "interrupted"
    | "cancelled";
  readonly created_at: number;
  readonly updated_at: number;
  readonly model: string;
  readonly last_event: string;
  readonly last_event_id: number;
  readonly output?: string;
  readonly usage?: UsageShown;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly gated_until?: number;
  readonly outcome?: OutcomeKind;
  readonly finish_reason?: string;
  readonly cause?: string;
  readonly error?: string;
  readonly code?: string;
  readonly hint?: string;
  readonly approval?: ApprovalShown;
  readonly question?: QuestionShown;
  readonly client_tools?: ClientToolsShown;
  readonly waiting_for?: "answer" | "approval";
  readonly pending_approval_id?: string;
  readonly pending_clarify_id?: string;
  readonly refused_actions?: number;
  readonly children?: readonly RunChild[];
  readonly children_usage?: UsageShown | null;
}

/** The number of approvals resolved. */
export interface ApprovalSettled {
  readonly object: "hermes.run.approval_response";
  readonly run_id: string;
  readonly choice: Choice;
  readonly resolved: number;
  readonly approval_id?: string;
}

/** The rule that "session" or "always" would store, or null if that choice isn't available. */
export interface RulePreview {
  readonly approval_id: string;
  readonly choice: "always" | "session";
  readonly rule: GrantRule | null;
  readonly width?: Width;
}

/** The answer is stored. */
export interface QuestionSettled {
  readonly run_id: string;
  readonly question_id: string;
  readonly status: "answered";
}

/** The message for an active run is stored. */
export interface Accepted {
  readonly run_id: string;
  readonly session_id: string;
  readonly message_id: string;
  readonly status: "accepted";
  readonly accepted: boolean;
  readonly mode: Mode;
  readonly waiting_for?: "answer" | "approval" | "client";
  readonly note?: string;
}

/** Whether the request ended the wait. */
export interface GateTried {
  readonly run_id: string;
  readonly status: "tried" | "trying";
}

/** A run's changes to its workspace. If it was undone together with later runs, includes their changes. */
export interface RunChanges {
  readonly run_id: string;
  readonly workspace: string;
  readonly files: readonly FileChanged[];
  readonly files_total: number;
  readonly undone: boolean;
  readonly not_covered?: readonly FileNotCovered[];
  readonly not_covered_total?: number;
  readonly why_not?: readonly string[];
  readonly git?: GitMoved | null;
  readonly undos?: readonly UndoShown[];
  readonly session_id?: string;
}

/** A file changed by the run. Bytes in its name that aren't UTF-8 are shown as numbers. */
export interface FileChanged {
  readonly path: string;
  readonly kind: "created" | "changed" | "deleted" | "mode";
  readonly state: "as_run_left_it" | "undone" | "changed_since";
  readonly conflict?: string;
  readonly before_bytes?: number;
  readonly after_bytes?: number;
  readonly binary?: boolean;
  readonly diff?: string;
}

/** A file or folder excluded from snapshots. */
export interface FileNotCovered {
  readonly path: string;
  readonly why: "ignored" | "secret" | "too large" | "git" | "not a file" | "unreadable" | "too deep";
  readonly changed?: boolean;
}

/** A change to git's history during the run. An undo doesn't reverse it; `way_back` does. */
export interface GitMoved {
  readonly commit_before: string;
  readonly commit_after: string;
  readonly branch_before: string;
  readonly branch_after: string;
  readonly way_back: string;
}

/** An undo that can be redone, or whose turns haven't been restored. */
export interface UndoShown {
  readonly undo_id: string;
  readonly run_id: string;
  readonly seq: number;
  readonly at_ms: number;
  readonly files: number;
  readonly turns: number;
  readonly returns_chat: boolean;
  readonly partial: boolean;
  readonly paths?: readonly string[];
  readonly files_redone?: boolean;
}

/** The undo is stored and the files are restored. */
export interface RunUndone {
  readonly run_id: string;
  readonly undo_id: string;
  readonly digest: string;
  readonly files: readonly string[];
  readonly runs?: readonly string[];
  readonly left?: readonly FileLeft[];
  readonly log_kept?: boolean;
  readonly git?: GitMoved | null;
  readonly turns?: number;
}

/** A file that wasn't restored. */
export interface FileLeft {
  readonly path: string;
  readonly why: string;
}

/** The preview of an undo. Nothing has changed yet. */
export interface UndoPreviewed {
  readonly run_id: string;
  readonly plan: string;
  readonly turns: readonly RemovedTurnShown[];
  readonly turns_total: number;
  readonly files: readonly FileEffect[];
  readonly files_total: number;
  readonly log_kept: boolean;
  readonly git?: GitMoved | null;
}

/** A turn that an undo removes from the conversation. */
export interface RemovedTurnShown {
  readonly run_id: string;
  readonly number: number;
  readonly text: string;
}

/** A file that an undo changes. */
export interface FileEffect {
  readonly path: string;
  readonly effect: "restored" | "recreated" | "deleted";
  readonly conflict?: string;
}

/** Open approvals and questions, oldest first, up to 200 of `total`. */
export interface AskList {
  readonly object: "list";
  readonly data: readonly (OpenApproval | OpenQuestion)[];
  readonly total?: number;
}

/** A pending approval. */
export interface OpenApproval {
  readonly kind: "approval";
  readonly approval_id: string;
  readonly tool_call_id: string;
  readonly tool: string;
  readonly command: string;
  readonly description: string;
  readonly findings: readonly string[];
  readonly action: Action;
  readonly choices: readonly ("once" | "session" | "always" | "deny")[];
  readonly expires_at: number | null;
  readonly headline?: string;
  readonly offers?: readonly GrantOffer[];
  readonly once_because?: string;
  readonly run_id: string;
  readonly session_id: string;
  readonly asked_at: number;
  readonly root_session_id?: string;
  readonly title?: string;
  readonly source?: string;
}

/** A pending question. */
export interface OpenQuestion {
  readonly kind: "question";
  readonly question_id: string;
  readonly tool_call_id: string;
  readonly question: string;
  readonly choices: readonly string[];
  readonly expires_at: number | null;
  readonly run_id: string;
  readonly session_id: string;
  readonly asked_at: number;
  readonly root_session_id?: string;
  readonly title?: string;
  readonly source?: string;
}

/** The stored rules for actions that don't need approval. */
export interface GrantList {
  readonly object: "list";
  readonly data: readonly GrantShown[];
  readonly has_more: boolean;
  readonly next_cursor: string | null;
}

/** A stored rule, with a description in `says`. Session rules have a `session_id`. */
export interface GrantShown {
  readonly grant_id: string;
  readonly scope: "always" | "session";
  readonly session_id?: string;
  readonly rule: GrantRule;
  readonly says: string;
  readonly by?: string;
  readonly created_at?: number;
}

/** The rule is revoked. Its actions need approval again. */
export interface GrantRevoked {
  readonly grant_id: string;
  readonly deleted: true;
}

/** A page of sessions: pinned first, then newest. */
export interface SessionPage {
  readonly object: "list";
  readonly data: readonly SessionShown[];
  readonly has_more: boolean;
  readonly next_cursor: string | null;
  readonly limit?: number;
  readonly offset?: number;
  readonly open_asks?: number;
}

/** A session in a list. `session` is a copy for hermes clients. */
export interface SessionShown {
  readonly object: "hermes.session";
  readonly id: string;
  readonly session_id: string;
  readonly epoch: string;
  readonly title: string;
  readonly source: string;
  readonly workspace: string;
  readonly preview: string;
  readonly created_at: number;
  readonly started_at: number;
  readonly updated_at: number;
  readonly last_active: number;
  readonly message_count: number;
  readonly pinned: boolean;
  readonly archived: boolean;
  readonly open_runs: number;
  readonly open_asks: number;
  readonly begun_runs: number;
  readonly read_seq: number;
  readonly unread: boolean;
  readonly purge_at?: number;
  readonly last_seq?: number;
  readonly hit?: HitShown;
  readonly parent_session_id?: string;
  readonly session?: SessionShown;
}

/** A search match. `highlights` are (begin, end) pairs in the passage. */
export interface HitShown {
  readonly seq: number;
  readonly passage: string;
  readonly highlights: readonly (readonly [number, number])[];
}

/** A session that was created. */
export interface SessionMade {
  readonly object: "hermes.session";
  readonly id: string;
  readonly session_id: string;
  readonly title: string;
  readonly epoch: string;
  readonly created_at: number;
  readonly session?: SessionMade;
}

/** The live state of a session's active runs. `server` is empty if the store isn't shared. */
export interface SessionLive {
  readonly session_id: string;
  readonly server: string;
  readonly known: boolean;
  readonly lines?: Readonly<Record<string, string>>;
  readonly queue?: Readonly<Record<string, QueuePlace>>;
  readonly background?: readonly BackgroundJobShown[];
}

/** A run's position in the queue for a slot, starting at 1, and why it's queued. */
export interface QueuePlace {
  readonly position: number;
  readonly why: string;
}

/** A background process and the end of its output. `is_cut` is true if earlier output is omitted. */
export interface BackgroundOutput {
  readonly job: BackgroundJobShown;
  readonly output?: string;
  readonly is_cut?: boolean;
}

/** The approval mode of a session. An empty mode means the configured one. */
export interface ApprovalModeShown {
  readonly mode: "" | "ask" | "allow-workspace" | "unattended";
}

/** Client-supplied servers. They disconnect `renew_s` seconds after the last such request. */
export interface BroughtServersShown {
  readonly servers: readonly BroughtShown[];
  readonly renew_s: number;
}

/** A client-supplied MCP server: connecting, connected or down, and why. */
export interface BroughtShown {
  readonly name: string;
  readonly state: string;
  readonly tools?: number;
  readonly why?: string;
}

/** The session is hidden and will be purged at `purge_at`. Without `purge_at`, it's already purged. */
export interface DeletedSession {
  readonly object: "hermes.session.deleted";
  readonly id: string;
  readonly session_id: string;
  readonly deleted: true;
  readonly purge_at?: number;
}

/** The sub-agents of a session, parents first. `parent` is set if the session is a sub-agent itself. */
export interface ChildList {
  readonly object: "list";
  readonly session_id: string;
  readonly data: readonly ChildShown[];
  readonly parent?: ParentShown;
  readonly has_more?: boolean;
}

/** A sub-agent: its parent, status and usage so far, including its own sub-agents. */
export interface ChildShown {
  readonly session_id: string;
  readonly run_id: string;
  readonly parent_session_id: string;
  readonly parent_run_id: string;
  readonly tool_call_id: string;
  readonly name: string;
  readonly depth: number;
  readonly status: string;
  readonly task?: string;
  readonly last_line?: string;
  readonly background?: boolean;
  readonly outcome?: OutcomeKind;
  readonly cause?: string;
  readonly usage?: UsageShown;
  readonly started_at?: number;
  readonly ended_at?: number;
  readonly asks?: readonly (OpenApproval | OpenQuestion)[];
}

/** The parent of a sub-agent's session. */
export interface ParentShown {
  readonly session_id: string;
  readonly run_id: string;
  readonly tool_call_id: string;
  readonly name: string;
  readonly root_session_id: string;
}

/** The unsent draft. */
export interface DraftText {
  readonly text: string;
}

/** A page of the transcript in chronological order. `next_before` is the cursor of the previous page. */
export interface TranscriptPage {
  readonly object: "list";
  readonly session_id: string;
  readonly data: readonly Readonly<Record<string, unknown>>[];
  readonly has_more: boolean;
  readonly next_before: number | null;
  readonly last_seq: number;
  readonly title?: string;
  readonly epoch?: string;
  readonly workspace?: string;
  readonly forked_from?: string;
  readonly queue_paused?: boolean;
  readonly waiting?: readonly Readonly<Record<string, unknown>>[];
  readonly usage?: Readonly<Record<string, unknown>>;
  readonly runs: readonly TranscriptRun[];
  readonly session?: SessionShown;
  readonly live?: Readonly<Record<string, string>>;
  readonly marks?: Readonly<Record<string, string>>;
  readonly is_away?: boolean;
  readonly plan?: PlanShown;
  readonly versions?: readonly string[];
  readonly undos?: readonly UndoShown[];
}

/** A run's state at the end of the page, from which a client applies events. */
export interface TranscriptRun {
  readonly run_id: string;
  readonly message_id: string;
  readonly model: string;
  readonly first_seq: number;
  readonly created_ms: number;
  readonly started_ms: number;
  readonly updated_ms: number;
  readonly phase: string;
  readonly stop_cause: string;
  readonly gate_until_ms: number;
  readonly call_id: string;
  readonly attempt_id: string;
  readonly target: string;
  readonly answers: boolean;
  readonly context_tokens: number;
  readonly usage: Readonly<Record<string, unknown>>;
  readonly doing: Readonly<Record<string, unknown>>;
  readonly texts: readonly number[];
  readonly thoughts: readonly number[];
  readonly files_changed?: number;
  readonly is_planning?: boolean;
  readonly superseded?: SupersededTextShown | null;
}

/** Text of an attempt that was interrupted by a restart or retry and is being rewritten. */
export interface SupersededTextShown {
  readonly text: string;
  readonly cause: "restart" | "retry";
}

/** The newest plan of a session, from the event with this seq. */
export interface PlanShown {
  readonly seq: number;
  readonly run_id: string;
  readonly steps: readonly PlanStep[];
  readonly accepted?: boolean;
}

/** Part of a session's log. `bytes` has the sizes of the stored bodies. Cursors are SEQ@EPOCH. */
export interface LogStretch {
  readonly object: "list";
  readonly session_id: string;
  readonly epoch: string;
  readonly bytes: readonly number[];
  readonly last_seq: number;
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

/** A session forked from another. */
export interface Forked {
  readonly object: "hermes.session";
  readonly id: string;
  readonly session_id: string;
  readonly forked_from: string;
  readonly parent_session_id: string;
  readonly at_seq: number;
  readonly session?: Forked;
}

/** A whole session. */
export interface SessionExport {
  readonly object: "holdfast.session.export";
  readonly session: SessionShown;
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

/** A page of a folder: folders first, then by name. */
export interface FolderListing {
  readonly path: string;
  readonly entries: readonly FolderEntry[];
  readonly entries_total: number;
  readonly incomplete?: boolean;
  readonly next_cursor?: string;
}

/** A file or folder. Bytes in its name that aren't UTF-8 are shown as numbers. */
export interface FolderEntry {
  readonly name: string;
  readonly kind: "folder" | "file" | "other";
  readonly bytes?: number;
  readonly changed_ms?: number;
  readonly link?: boolean;
  readonly ignored?: boolean;
  readonly refused?: string;
}

/** The file is stored. */
export interface FileStored {
  readonly path: string;
  readonly bytes: number;
  readonly replaced?: boolean;
}

/** The answer to a message in a session. */
export interface SessionChatCompletion {
  readonly object: "hermes.session.chat.completion";
  readonly session_id: string;
  readonly run_id: string;
  readonly status: "completed";
  readonly message: AssistantSaid;
  readonly usage: UsageShown;
}

/** The model's message. */
export interface AssistantSaid {
  readonly role: "assistant";
  readonly content: string;
}

/** The queue of a session, in order. */
export interface QueueShown {
  readonly object: "list";
  readonly paused: boolean;
  readonly data: readonly QueuedMessage[];
}

/** A queued message. */
export interface QueuedMessage {
  readonly message_id: string;
  readonly run_id: string;
  readonly text: string;
  readonly parts: readonly (TextPart | ImagePart | FilePart)[];
  readonly mode: string;
  readonly state: string;
  readonly position: number;
  readonly client_id: string;
  readonly created_at: number;
}

/** The response to a JSON-RPC request: a result or an error. */
export interface RpcResult {
  readonly jsonrpc: "2.0";
  readonly id: number | string | null;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: Readonly<Record<string, unknown>>;
}

/** The caller's skills in a workspace, and problems by folder. */
export interface SkillList {
  readonly object: "list";
  readonly data: readonly SkillListed[];
  readonly problems?: Readonly<Record<string, string>>;
}

/** A skill in a list. `category` is its subject folder, as in hermes. */
export interface SkillListed {
  readonly name: string;
  readonly description: string;
  readonly category: string | null;
  readonly origin: "configured" | "learned" | "own" | "workspace";
  readonly trusted: boolean;
  readonly changed?: boolean;
  readonly folder?: string;
}

/** A skill with its instructions and the names of its other files. */
export interface SkillShown {
  readonly name: string;
  readonly description: string;
  readonly category: string | null;
  readonly origin: "configured" | "learned" | "own" | "workspace";
  readonly trusted: boolean;
  readonly changed?: boolean;
  readonly folder?: string;
  readonly body: string;
  readonly base?: string;
  readonly files?: readonly string[];
  readonly licence?: string;
  readonly compatibility?: string;
  readonly allowed_tools?: string;
}

/** The caller's memories. */
export interface MemoryList {
  readonly object: "list";
  readonly mode: MemoryMode;
  readonly data: readonly MemoryShown[];
}

/** A memory: its main document, its notes by name, and pending proposals. */
export interface MemoryShown {
  readonly scope: "chat" | "skills" | "user" | "workspace";
  readonly workspace?: string;
  readonly chat?: string;
  readonly document?: string;
  readonly notes?: Readonly<Record<string, string>>;
  readonly proposals?: readonly MemoryProposalShown[];
  readonly last_seq?: number;
}

/** A proposed memory. `because` lists the other sources that the model had seen. */
export interface MemoryProposalShown {
  readonly change_id: string;
  readonly document: string;
  readonly before: string;
  readonly after: string;
  readonly reason: string;
  readonly proposed_at: number;
  readonly because?: readonly string[];
  readonly origin?: MemoryOrigin;
}

/** The changes of a memory, newest first. */
export interface MemoryHistory {
  readonly object: "list";
  readonly data: readonly MemoryChangeShown[];
}

/** A change to a memory. */
export interface MemoryChangeShown {
  readonly seq: number;
  readonly change_id: string;
  readonly document: string;
  readonly before: string;
  readonly after: string;
  readonly how: "accepted" | "auto" | "edited" | "imported" | "kept" | "rolled_back";
  readonly changed_at: number;
  readonly reason?: string;
  readonly by?: string;
  readonly to_seq?: number;
  readonly origin?: MemoryOrigin;
}

/** The memory is forgotten. These sessions are its source or still contain the text. */
export interface MemoryForgotten {
  readonly forgotten: boolean;
  readonly sessions?: readonly RememberedIn[];
}

/** A session that still contains the forgotten text. */
export interface RememberedIn {
  readonly session_id: string;
  readonly title?: string;
}

/** All channels. */
export interface ChannelList {
  readonly object: "list";
  readonly data: readonly ChannelShown[];
}

/** A channel and its connection status. */
export interface ChannelShown {
  readonly name: string;
  readonly kind: string;
  readonly state: "connected" | "failed" | "starting" | "off" | "not_configured";
  readonly since: number;
  readonly account?: string;
  readonly problem?: string;
  readonly hint?: string;
  readonly node?: string;
  readonly users?: readonly ChannelUserShown[];
  readonly chats?: number;
  readonly awaited?: number;
  readonly undelivered?: number;
  readonly given_up?: number;
  readonly rejected?: number;
}

/** A person with access. */
export interface ChannelUserShown {
  readonly user: string;
  readonly name: string;
  readonly role: "user" | "approver";
  readonly since: number;
  readonly how?: "code" | "allowed" | "settings" | "";
  readonly by?: string;
}

/** The code to send to the bot. Only this response contains it. */
export interface PairingCode {
  readonly code: string;
  readonly expires_in_s: number;
}

/** The person's new access. */
export interface ChannelUserChanged {
  readonly channel: string;
  readonly user: string;
  readonly allowed: boolean;
}

/** The test message is queued. The log shows its delivery status. */
export interface ChannelTestIntended {
  readonly channel: string;
  readonly chat: string;
  readonly delivery: string;
}

/** The events of a channel, newest last. */
export interface ChannelHistory {
  readonly object: "list";
  readonly data: readonly ChannelLogEntry[];
}

/** An event in a channel. */
export interface ChannelLogEntry {
  readonly seq: number;
  readonly at: number;
  readonly type: string;
  readonly chat?: string;
  readonly user?: string;
  readonly what?: string;
  readonly delivery?: string;
}

/** The update is stored. Duplicates are ignored. */
export interface ChannelUpdateAccepted {
  readonly accepted: boolean;
}

/** The stored blob. Refer to it by name in message parts. */
export interface BlobStored {
  readonly blob: string;
  readonly bytes: number;
  readonly media_type: string;
}

/** The `Set-Cookie` header has the cookie. Send `page` with it as `X-Holdfast-Page`. */
export interface SignedIn {
  readonly signed_in: true;
  readonly name: string;
  readonly page: string;
  readonly scopes: readonly ("admin" | "approve" | "chat" | "relay")[];
}

/** The cookie no longer works. */
export interface SignedOut {
  readonly signed_in: false;
}

/** The token for a link (`/#token=…`) that signs in one browser, once. */
export interface SignInLink {
  readonly token: string;
  readonly expires_in_s: number;
}

/** The value for the query parameter `ticket`. */
export interface TicketIssued {
  readonly ticket: string;
  readonly expires_in_s: number;
}

/** All keys. */
export interface KeyList {
  readonly object: "list";
  readonly data: readonly KeyShown[];
}

/** A key without its secret. */
export interface KeyShown {
  readonly name: string;
  readonly source: "added" | "configured" | "made";
  readonly created_at: number | null;
  readonly scopes: readonly ("chat" | "approve" | "admin" | "relay")[];
}

/** A new key. Only this response contains its secret. */
export interface KeyMade {
  readonly name: string;
  readonly source: "added" | "configured" | "made";
  readonly created_at: number | null;
  readonly scopes: readonly ("chat" | "approve" | "admin" | "relay")[];
  readonly key: string;
}

/** The key no longer works. */
export interface KeyRevoked {
  readonly name: string;
  readonly deleted: true;
}

/** Quarantined files, newest first. */
export interface QuarantineList {
  readonly object: "list";
  readonly data: readonly QuarantineEntry[];
  readonly has_more?: boolean;
}

/** A file or folder in quarantine. Bytes in paths that aren't UTF-8 are shown as numbers. */
export interface QuarantineEntry {
  readonly id: string;
  readonly path: string;
  readonly kept: string;
  readonly taken_at: number;
}

/** The file is restored. Any file it replaced is now in quarantine, under the same id. */
export interface QuarantineRestored {
  readonly id: string;
  readonly path: string;
  readonly restored: true;
}

/** The file is permanently deleted. */
export interface QuarantineDeleted {
  readonly id: string;
  readonly deleted: true;
}

/** An OpenAI chat completion. */
export interface ChatCompletion {
  readonly id: string;
  readonly object: "chat.completion";
  readonly created: number;
  readonly model: string;
  readonly choices: readonly ChatChoice[];
  readonly usage: ChatUsage;
  readonly holdfast?: PersonNeeded;
}

/** The only choice of a chat completion. */
export interface ChatChoice {
  readonly index: number;
  readonly message: ChatMessage;
  readonly logprobs: null;
  readonly finish_reason: "content_filter" | "length" | "stop" | "tool_calls";
}

/** The answer of a chat completion. */
export interface ChatMessage {
  readonly role: "assistant";
  readonly content: string | null;
  readonly refusal: string | null;
  readonly annotations: readonly Readonly<Record<string, unknown>>[];
  readonly tool_calls?: readonly ToolCallShown[];
}

/** A call to a client-supplied tool, which the client runs. */
export interface ToolCallShown {
  readonly id: string;
  readonly type: "function";
  readonly function: ChatFunction;
}

/** The function of a tool call, with its arguments as JSON text. */
export interface ChatFunction {
  readonly name: string;
  readonly arguments: string;
}

/** Usage of a chat completion. */
export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: PromptTokensDetails;
  readonly completion_tokens_details: OutputTokensDetails;
}

/** Input tokens from the provider's cache. */
export interface PromptTokensDetails {
  readonly cached_tokens: number;
  readonly cache_write_tokens: number;
}

/** Output tokens used for reasoning. */
export interface OutputTokensDetails {
  readonly reasoning_tokens: number;
}

/** The run is waiting for a person. This client can't answer, so only the response ends. */
export interface PersonNeeded {
  readonly waiting_for: "approval" | "question";
  readonly id: string;
  readonly run_id: string;
  readonly text: string;
  readonly url: string;
}

/** All models in OpenAI's format. */
export interface ModelList {
  readonly object: "list";
  readonly data: readonly ModelShown[];
}

/** A name that `model` accepts. */
export interface ModelShown {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: string;
}

/** All models in Anthropic's format. */
export interface AnthropicModelList {
  readonly data: readonly AnthropicModel[];
  readonly has_more: boolean;
  readonly first_id: string | null;
  readonly last_id: string | null;
}

/** A model in Anthropic's format. */
export interface AnthropicModel {
  readonly type: "model";
  readonly id: string;
  readonly display_name: string;
  readonly created_at: string;
}

/** An OpenAI response. */
export interface ResponseShown {
  readonly id: string;
  readonly object: "response";
  readonly created_at: number;
  readonly status: "cancelled" | "completed" | "failed" | "in_progress" | "incomplete" | "queued";
  readonly error: Readonly<Record<string, string>> | null;
  readonly incomplete_details: Readonly<Record<string, string>> | null;
  readonly background: boolean;
  readonly conversation: Readonly<Record<string, string>> | null;
  readonly instructions: string | null;
  readonly max_output_tokens: number | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly model: string;
  readonly output: readonly Readonly<Record<string, unknown>>[];
  readonly parallel_tool_calls: boolean;
  readonly previous_response_id: string | null;
  readonly reasoning: Readonly<Record<string, string | null>>;
  readonly store: boolean;
  readonly temperature: number;
  readonly text: Readonly<Record<string, unknown>>;
  readonly tool_choice: string | Readonly<Record<string, string>>;
  readonly tools: readonly Readonly<Record<string, unknown>>[];
  readonly top_p: number;
  readonly truncation: string;
  readonly usage: ResponseUsage | null;
  readonly completed_at: number | null;
  readonly presence_penalty: number;
  readonly frequency_penalty: number;
  readonly top_logprobs: number;
  readonly max_tool_calls: number | null;
  readonly service_tier: string;
  readonly safety_identifier: string | null;
  readonly prompt_cache_key: string | null;
  readonly holdfast?: PersonNeeded;
}

/** Usage of a response. */
export interface ResponseUsage {
  readonly input_tokens: number;
  readonly input_tokens_details: PromptTokensDetails;
  readonly output_tokens: number;
  readonly output_tokens_details: OutputTokensDetails;
  readonly total_tokens: number;
}

/** The number of input tokens. */
export interface InputTokens {
  readonly object: "response.input_tokens";
  readonly input_tokens: number;
}

/** A conversation, reduced to its user messages and a summary. */
export interface CompactedResponse {
  readonly id: string;
  readonly object: "response.compaction";
  readonly created_at: number;
  readonly output: readonly Readonly<Record<string, unknown>>[];
  readonly usage: ResponseUsage;
}

/** A session as an OpenAI conversation. */
export interface ConversationShown {
  readonly id: string;
  readonly object: "conversation";
  readonly created_at: number;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The session is deleted. */
export interface DeletedConversation {
  readonly id: string;
  readonly object: "conversation.deleted";
  readonly deleted: true;
}

/** A list of OpenAI response items. */
export interface InputItems {
  readonly object: "list";
  readonly data: readonly Readonly<Record<string, unknown>>[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
}

/** The response is permanently hidden. */
export interface DeletedResponse {
  readonly id: string;
  readonly object: "response.deleted";
  readonly deleted: true;
}

/** All targets, default first. */
export interface TargetList {
  readonly object: "list";
  readonly data: readonly TargetState[];
}

/** A target with its full state. */
export interface TargetState {
  readonly name: string;
  readonly model: string;
  readonly wire: string;
  readonly context_window: number;
  readonly gated_ms: number;
  readonly silent_ms: number;
  readonly health?: "ok" | "waiting" | "silent" | "unreachable" | "failing";
  readonly gate_why?: string;
  readonly active_calls?: number;
  readonly waiting_calls?: number;
  readonly silent_times?: number;
  readonly patience?: PatienceShown;
  readonly learned?: readonly LearnedShown[];
  readonly last_answer_at?: number;
  readonly last_failure?: TargetFailed;
}

/** Timeouts of a small request in seconds; 0 means no limit. */
export interface PatienceShown {
  readonly connect_s: number;
  readonly first_event_s: number;
  readonly first_event_why: string;
  readonly gap_s: number;
}

/** A target's recent time to first event for one request size, and the timeout derived from it. */
export interface LearnedShown {
  readonly input_tokens_min: number;
  readonly calls: number;
  readonly first_event_p95_s: number;
  readonly waits_s: number;
}

/** A failed call to a target: its kind, and a description with a hint. */
export interface TargetFailed {
  readonly kind: string;
  readonly text: string;
  readonly at?: number;
}

/** The result of a test call. `works` without an answer means that it was cut off or refused. */
export interface TargetTried {
  readonly name: string;
  readonly works: boolean;
  readonly ms: number;
  readonly first_ms?: number;
  readonly failure?: TargetFailed;
}

/** Usage over a range of days (UTC, inclusive). Totals include rows that aren't listed. */
export interface UsageSummary {
  readonly by: "day" | "key" | "session" | "target";
  readonly from: string;
  readonly to: string;
  readonly rows: readonly UsageListed[];
  readonly totals: UsageFigures;
  readonly budgets: readonly BudgetShown[];
}

/** Usage of one day, target, session or key. */
export interface UsageListed {
  readonly runs: number;
  readonly relayed_calls: number;
  readonly input_tokens: number;
  readonly cached_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number | null;
  readonly unpriced_calls: number;
  readonly key: string;
  readonly label: string;
}

/** Usage. `cost_usd` is null if no price is known, and excludes unpriced calls. */
export interface UsageFigures {
  readonly runs: number;
  readonly relayed_calls: number;
  readonly input_tokens: number;
  readonly cached_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number | null;
  readonly unpriced_calls: number;
}

/** A key's budget for a period and its usage. A null limit means none. */
export interface BudgetShown {
  readonly key: string;
  readonly label: string;
  readonly period: "day";
  readonly limit_usd: number | null;
  readonly limit_tokens: number | null;
  readonly used_usd: number;
  readonly used_tokens: number;
  readonly resets_at: number;
}

/** All servers that share the store, sorted by name. */
export interface NodeList {
  readonly data: readonly NodeShown[];
}

/** A server. `lease_left_s` is null if the store isn't shared. */
export interface NodeShown {
  readonly name: string;
  readonly url: string;
  readonly is_this: boolean;
  readonly lease_left_s: number | null;
  readonly homes: readonly string[];
  readonly sessions: number;
  readonly lacks?: readonly string[];
}

/** The server's capabilities, in hermes format. */
export interface Capabilities {
  readonly object: "hermes.api_server.capabilities";
  readonly platform: string;
  readonly implementation: "holdfast";
  readonly version: string;
  readonly model: string;
  readonly auth: AuthShown;
  readonly runtime: Readonly<Record<string, unknown>>;
  readonly features: Readonly<Record<string, unknown>>;
  readonly endpoints: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly sandbox?: SandboxShown;
}

/** How to authenticate, and the scopes of the caller's key. */
export interface AuthShown {
  readonly type: "bearer";
  readonly required: boolean;
  readonly scopes: readonly ("admin" | "approve" | "chat" | "relay")[];
}

/** The sandbox for commands. `says` is a one-line description. */
export interface SandboxShown {
  readonly backend: "bubblewrap" | "landlock" | "none";
  readonly holds: boolean;
  readonly network: "hosts" | "off" | "on";
  readonly says: string;
}

/** The server's health in detail. */
export interface DetailedHealth {
  readonly status: "degraded" | "ok";
  readonly version: string;
  readonly store: StoreHealth;
  readonly active_sessions: number;
  readonly waiting_sessions: number;
  readonly open_streams: number;
  readonly event_loop_lag_ms: number;
  readonly event_loop_lag_worst_ms: number;
  readonly draining: boolean;
  readonly targets: readonly TargetShown[];
  readonly open_files: OpenFilesShown;
  readonly warning?: string;
  readonly disk?: DiskShown;
  readonly sandbox?: SandboxShown;
  readonly channels?: readonly ChannelHealth[];
  readonly failing_tasks?: readonly FailingTask[];
}

/** Whether the store accepts writes, and its write latency. */
export interface StoreHealth {
  readonly writable: boolean;
  readonly late: boolean;
  readonly error?: string;
  readonly write_ms?: number;
  readonly lost?: string;
  readonly blobs?: string;
}

/** A target and its health, without its key. A wait of 0 means none. */
export interface TargetShown {
  readonly name: string;
  readonly model: string;
  readonly wire: string;
  readonly context_window: number;
  readonly gated_ms: number;
  readonly silent_ms: number;
}

/** Open files and sockets of the process. */
export interface OpenFilesShown {
  readonly used: number;
  readonly allowed: number;
  readonly connections: number;
}

/** Disk space of the data directory. */
export interface DiskShown {
  readonly free_bytes: number;
  readonly total_bytes: number;
}

/** The status of a channel. */
export interface ChannelHealth {
  readonly name: string;
  readonly state: "connected" | "failed" | "starting" | "off" | "not_configured";
  readonly problem?: string;
  readonly hint?: string;
  readonly undelivered?: number;
  readonly given_up?: number;
  readonly rejected?: number;
}

/** A background task that failed recently and was restarted. */
export interface FailingTask {
  readonly name: string;
  readonly error: string;
}

/** The server is alive. `warning` names a resource that is running low. */
export interface HealthShown {
  readonly status: "ok";
  readonly version?: string;
  readonly platform?: "holdfast";
  readonly warning?: string;
}

/** All triggers, oldest first. */
export interface TriggerList {
  readonly object: "list";
  readonly data: readonly TriggerShown[];
}

/** A trigger: its schedule, task and status. */
export interface TriggerShown {
  readonly id: string;
  readonly name: string;
  readonly state: "active" | "paused" | "gave_up" | "done";
  readonly kind: "cron" | "every" | "at" | "after" | "webhook";
  readonly when: string;
  readonly prompt: string;
  readonly created_at: number;
  readonly next?: readonly number[];
  readonly cron?: string;
  readonly zone?: string;
  readonly every?: string;
  readonly at?: number;
  readonly after?: string;
  readonly webhook?: string;
  readonly hook?: string;
  readonly repeats?: string;
  readonly session_id?: string;
  readonly workspace?: string;
  readonly model?: string;
  readonly tools?: readonly string[];
  readonly approvals: "ask" | "unattended";
  readonly network: boolean;
  readonly budget?: Budget;
  readonly missed: "once" | "skip" | "ask";
  readonly overlap: "queue" | "skip" | "replace";
  readonly grace_s: number;
  readonly failures_max: number;
  readonly failures?: number;
  readonly deliver?: readonly string[];
  readonly held_until?: number;
  readonly unanswered?: MissedShown;
  readonly last?: FireShown;
}

/** Scheduled times missed while no server was running. */
export interface MissedShown {
  readonly first_at: number;
  readonly last_at: number;
  readonly count: number;
  readonly is_more?: boolean;
}

/** One scheduled time of a trigger and its outcome. */
export interface FireShown {
  readonly key: string;
  readonly due_at: number;
  readonly state: "due" | "fired" | "ended" | "skipped";
  readonly outcome?: string;
  readonly why?: string;
  readonly session_id?: string;
  readonly run_id?: string;
  readonly missed?: number;
  readonly event?: string;
}

/** A new trigger. Only this response contains the webhook's secret. */
export interface TriggerMade {
  readonly id: string;
  readonly name: string;
  readonly state: "active" | "paused" | "gave_up" | "done";
  readonly kind: "cron" | "every" | "at" | "after" | "webhook";
  readonly when: string;
  readonly prompt: string;
  readonly created_at: number;
  readonly next?: readonly number[];
  readonly cron?: string;
  readonly zone?: string;
  readonly every?: string;
  readonly at?: number;
  readonly after?: string;
  readonly webhook?: string;
  readonly hook?: string;
  readonly repeats?: string;
  readonly session_id?: string;
  readonly workspace?: string;
  readonly model?: string;
  readonly tools?: readonly string[];
  readonly approvals: "ask" | "unattended";
  readonly network: boolean;
  readonly budget?: Budget;
  readonly missed: "once" | "skip" | "ask";
  readonly overlap: "queue" | "skip" | "replace";
  readonly grace_s: number;
  readonly failures_max: number;
  readonly failures?: number;
  readonly deliver?: readonly string[];
  readonly held_until?: number;
  readonly unanswered?: MissedShown;
  readonly last?: FireShown;
  readonly secret?: string;
}

/** The next five times, in seconds of Unix time and as text in the trigger's time zone. */
export interface NextInstants {
  readonly next: readonly number[];
  readonly local: readonly string[];
  readonly when: string;
}

/** The trigger is deleted. */
export interface TriggerDeleted {
  readonly id: string;
  readonly deleted: true;
}

/** A webhook's secret. Only this response contains it. */
export interface HookSecret {
  readonly id: string;
  readonly secret: string;
}

/** A trigger's history, newest first: up to a hundred of each kind. */
export interface TriggerHistory {
  readonly fires: readonly FireShown[];
  readonly missed: readonly MissedShown[];
}

/** All jobs. Webhooks aren't included. */
export interface JobList {
  readonly jobs: readonly JobShown[];
}

/** A trigger as a job. */
export interface JobShown {
  readonly id: string;
  readonly name: string;
  readonly prompt: string;
  readonly schedule_display: string;
  readonly enabled: boolean;
  readonly state: "scheduled" | "paused" | "completed";
  readonly created_at: string;
  readonly next_run_at?: string;
  readonly last_run_at?: string;
  readonly last_status?: string;
  readonly deliver?: string;
  readonly differs?: readonly string[];
}

/** One job. */
export interface JobBody {
  readonly job: JobShown;
}

/** The job is deleted. */
export interface JobDeleted {
  readonly ok: true;
}

/** The delivery is stored. It starts exactly one run. */
export interface HookAccepted {
  readonly id: string;
  readonly accepted: true;
  readonly repeated?: boolean;
}

export type OpenAsk = OpenApproval | OpenQuestion;
