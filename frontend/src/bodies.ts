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

/** The message is on disk; this is its run, which starts, waits, or is the active one that it steers. */
export interface Started {
  readonly run_id: string;
  readonly status: "started" | "steered";
  readonly session_id: string;
  readonly message_id: string;
}

/** A run as its log shows it, and what only the server that works on it knows. */
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

/** What a run used. */
export interface UsageShown {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens: number;
  readonly cost_usd?: number;
}

/** An open approval: one exact action and everything that was found in it. */
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

/** A question that a run asks. */
export interface QuestionShown {
  readonly question_id: string;
  readonly tool_call_id: string;
  readonly question: string;
  readonly choices: readonly string[];
  readonly expires_at: number | null;
}

/** The calls that a run waits for its client to run. */
export interface ClientToolsShown {
  readonly client_tools_id: string;
  readonly calls?: readonly ClientCallShown[];
  readonly expires_at?: number;
}

/** A call of a tool that the client brought; its result is returned with this id. */
export interface ClientCallShown {
  readonly id: string;
  readonly tool: string;
  readonly args?: Readonly<Record<string, unknown>>;
}

/** A sub-agent of the run; without an outcome, it works. */
export interface RunChild {
  readonly session_id: string;
  readonly run_id: string;
  readonly tool_call_id: string;
  readonly name: string;
  readonly background?: boolean;
  readonly outcome?: OutcomeKind;
}

/** A process that a tool started to outlive its call; `exit_code` is null while it runs, or if unknown. */
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

/** A run as the list shows it. */
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

/** The stop is on disk; the run ends once nothing of it is running. */
export interface Stopping {
  readonly run_id: string;
  readonly status: "stopping";
}

/** A run as its log shows it; `waiting_for` says what a run with `waiting_for_approval` waits for. */
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

/** How many approvals the answer settled. */
export interface ApprovalSettled {
  readonly object: "hermes.run.approval_response";
  readonly run_id: string;
  readonly choice: Choice;
  readonly resolved: number;
  readonly approval_id?: string;
}

/** The rule that "session" or "always" would store; null if that choice isn't offered. */
export interface RulePreview {
  readonly approval_id: string;
  readonly choice: "always" | "session";
  readonly rule: GrantRule | null;
  readonly width?: Width;
}

/** The answer is on disk. */
export interface QuestionSettled {
  readonly run_id: string;
  readonly question_id: string;
  readonly status: "answered";
}

/** A message for an active run is on disk. */
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

/** Whether this ended the wait. */
export interface GateTried {
  readonly run_id: string;
  readonly status: "tried" | "trying";
}

/** What a run changed in its workspace; if it was undone with later runs, what all of them changed. */
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

/** A file that the run changed; in its name, a byte that isn't UTF-8 is shown as its number. */
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

/** A file or folder that snapshots leave out. */
export interface FileNotCovered {
  readonly path: string;
  readonly why: "ignored" | "secret" | "too large" | "git" | "not a file" | "unreadable" | "too deep";
  readonly changed?: boolean;
}

/** Git's history moved during the run. An undo doesn't reverse that; `way_back` does. */
export interface GitMoved {
  readonly commit_before: string;
  readonly commit_after: string;
  readonly branch_before: string;
  readonly branch_after: string;
  readonly way_back: string;
}

/** An undo that can be redone, or whose removed runs are still away. */
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

/** The undo is on disk, and the files are as they were before the run. */
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

/** A run that an undo removes from the conversation. */
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

/** The open approvals and questions, oldest first: at most 200 of `total`. */
export interface AskList {
  readonly object: "list";
  readonly data: readonly (OpenApproval | OpenQuestion)[];
  readonly total?: number;
}

/** An approval that waits for a person. */
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

/** A question that waits for a person. */
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

/** The stored rules: what no longer needs approval. */
export interface GrantList {
  readonly object: "list";
  readonly data: readonly GrantShown[];
  readonly has_more: boolean;
  readonly next_cursor: string | null;
}

/** A stored rule, and in words what it allows; the rule of a session has a `session_id`. */
export interface GrantShown {
  readonly grant_id: string;
  readonly scope: "always" | "session";
  readonly session_id?: string;
  readonly rule: GrantRule;
  readonly says: string;
  readonly by?: string;
  readonly created_at?: number;
}

/** What the rule allowed needs approval again. */
export interface GrantRevoked {
  readonly grant_id: string;
  readonly deleted: true;
}

/** A page of sessions, pinned ones first, then the newest. */
export interface SessionPage {
  readonly object: "list";
  readonly data: readonly SessionShown[];
  readonly has_more: boolean;
  readonly next_cursor: string | null;
  readonly limit?: number;
  readonly offset?: number;
  readonly open_asks?: number;
}

/** A session as the list shows it; `session` repeats it where hermes clients look for it. */
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

/** Where the words were found; `highlights` are (begin, end) pairs in the passage. */
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

/** What the server in `server` knows about a session's active runs; it is empty if only one has the store. */
export interface SessionLive {
  readonly session_id: string;
  readonly server: string;
  readonly known: boolean;
  readonly lines?: Readonly<Record<string, string>>;
  readonly queue?: Readonly<Record<string, QueuePlace>>;
  readonly background?: readonly BackgroundJobShown[];
}

/** The place of a run in the queue for a slot, starting at 1, and why it waits. */
export interface QueuePlace {
  readonly position: number;
  readonly why: string;
}

/** A process in the background and the end of its output; `is_cut` if earlier output is left out. */
export interface BackgroundOutput {
  readonly job: BackgroundJobShown;
  readonly output?: string;
  readonly is_cut?: boolean;
}

/** How actions of a session are approved; an empty mode is the configured one. */
export interface ApprovalModeShown {
  readonly mode: "" | "ask" | "allow-workspace" | "unattended";
}

/** The servers that a client brought. They end `renew_s` seconds after the last such request. */
export interface BroughtServersShown {
  readonly servers: readonly BroughtShown[];
  readonly renew_s: number;
}

/** An MCP server that a client brought: connecting, connected or down, and why. */
export interface BroughtShown {
  readonly name: string;
  readonly state: string;
  readonly tools?: number;
  readonly why?: string;
}

/** The session is hidden and purged at `purge_at`; without that, it's already purged. */
export interface DeletedSession {
  readonly object: "hermes.session.deleted";
  readonly id: string;
  readonly session_id: string;
  readonly deleted: true;
  readonly purge_at?: number;
}

/** The sub-agents of a session, each before its own; `parent` if the session is one itself. */
export interface ChildList {
  readonly object: "list";
  readonly session_id: string;
  readonly data: readonly ChildShown[];
  readonly parent?: ParentShown;
  readonly has_more?: boolean;
}

/** A sub-agent: whose it is, what it does, and what it and its own sub-agents have used so far. */
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

/** Whose sub-agent a session is. */
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

/** A page of the transcript, in its order; `next_before` leads to the page before it. */
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

/** A run as the transcript needs it, so that events can be applied from there. */
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

/** Text of an interrupted attempt that the model is writing again, after a server restart or a retry. */
export interface SupersededTextShown {
  readonly text: string;
  readonly cause: "restart" | "retry";
}

/** The newest plan of a session; the event with this seq has it. */
export interface PlanShown {
  readonly seq: number;
  readonly run_id: string;
  readonly steps: readonly PlanStep[];
  readonly accepted?: boolean;
}

/** A part of a session's log; `bytes` are the sizes of the stored bodies. A cursor is SEQ@EPOCH. */
export interface LogStretch {
  readonly object: "list";
  readonly session_id: string;
  readonly epoch: string;
  readonly bytes: readonly number[];
  readonly last_seq: number;
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

/** A session that holds a copy of another's log. */
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

/** A file or folder; in its name, a byte that isn't UTF-8 is shown as its number. */
export interface FolderEntry {
  readonly name: string;
  readonly kind: "folder" | "file" | "other";
  readonly bytes?: number;
  readonly changed_ms?: number;
  readonly link?: boolean;
  readonly ignored?: boolean;
  readonly refused?: string;
}

/** The file is on disk. */
export interface FileStored {
  readonly path: string;
  readonly bytes: number;
  readonly replaced?: boolean;
}

/** The answer to a message of a session. */
export interface SessionChatCompletion {
  readonly object: "hermes.session.chat.completion";
  readonly session_id: string;
  readonly run_id: string;
  readonly status: "completed";
  readonly message: AssistantSaid;
  readonly usage: UsageShown;
}

/** What the model said. */
export interface AssistantSaid {
  readonly role: "assistant";
  readonly content: string;
}

/** What waits in a session, in its order. */
export interface QueueShown {
  readonly object: "list";
  readonly paused: boolean;
  readonly data: readonly QueuedMessage[];
}

/** A message that waits. */
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

/** The skills of the caller in a workspace, and what couldn't be used, by folder. */
export interface SkillList {
  readonly object: "list";
  readonly data: readonly SkillListed[];
  readonly problems?: Readonly<Record<string, string>>;
}

/** A skill as the list shows it; `category` is the folder by subject that it is in, as hermes has it. */
export interface SkillListed {
  readonly name: string;
  readonly description: string;
  readonly category: string | null;
  readonly origin: "configured" | "learned" | "own" | "workspace";
  readonly trusted: boolean;
  readonly changed?: boolean;
  readonly folder?: string;
}

/** A skill with its instructions, and the names of its other files. */
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

/** The memories of the caller. */
export interface MemoryList {
  readonly object: "list";
  readonly mode: MemoryMode;
  readonly data: readonly MemoryShown[];
}

/** One memory: the document that is always shown, the notes by name, and what waits for you. */
export interface MemoryShown {
  readonly scope: "chat" | "skills" | "user" | "workspace";
  readonly workspace?: string;
  readonly chat?: string;
  readonly document?: string;
  readonly notes?: Readonly<Record<string, string>>;
  readonly proposals?: readonly MemoryProposalShown[];
  readonly last_seq?: number;
}

/** Something that the agent wants to remember; `because` says what else the model had seen. */
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

/** A change of a memory. */
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

/** The memory is gone; these sessions still contain the text, or it came from them. */
export interface MemoryForgotten {
  readonly forgotten: boolean;
  readonly sessions?: readonly RememberedIn[];
}

/** A session that still contains what was forgotten. */
export interface RememberedIn {
  readonly session_id: string;
  readonly title?: string;
}

/** All channels. */
export interface ChannelList {
  readonly object: "list";
  readonly data: readonly ChannelShown[];
}

/** A channel, and whether its platform works. */
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

/** A person who may talk. */
export interface ChannelUserShown {
  readonly user: string;
  readonly name: string;
  readonly role: "user" | "approver";
  readonly since: number;
  readonly how?: "code" | "allowed" | "settings" | "";
  readonly by?: string;
}

/** The code to send to the bot; it is shown here and never again. */
export interface PairingCode {
  readonly code: string;
  readonly expires_in_s: number;
}

/** Who may talk now. */
export interface ChannelUserChanged {
  readonly channel: string;
  readonly user: string;
  readonly allowed: boolean;
}

/** The test message is in the outbox; the log says what becomes of it. */
export interface ChannelTestIntended {
  readonly channel: string;
  readonly chat: string;
  readonly delivery: string;
}

/** What happened in a channel, the newest last. */
export interface ChannelHistory {
  readonly object: "list";
  readonly data: readonly ChannelLogEntry[];
}

/** Something that happened in a channel. */
export interface ChannelLogEntry {
  readonly seq: number;
  readonly at: number;
  readonly type: string;
  readonly chat?: string;
  readonly user?: string;
  readonly what?: string;
  readonly delivery?: string;
}

/** The update is on disk; one that came before has no second effect. */
export interface ChannelUpdateAccepted {
  readonly accepted: boolean;
}

/** The stored bytes; parts of messages refer to them by this name. */
export interface BlobStored {
  readonly blob: string;
  readonly bytes: number;
  readonly media_type: string;
}

/** The cookie is in the header; send `page` with it as `X-Holdfast-Page`. */
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

/** The value for `ticket` in the query. */
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

/** A new key; its secret is shown here and never again. */
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

/** What is in quarantine, newest first. */
export interface QuarantineList {
  readonly object: "list";
  readonly data: readonly QuarantineEntry[];
  readonly has_more?: boolean;
}

/** A file or folder in quarantine; in a path, a byte that isn't UTF-8 is shown as its number. */
export interface QuarantineEntry {
  readonly id: string;
  readonly path: string;
  readonly kept: string;
  readonly taken_at: number;
}

/** It is back in its place; what was there is in quarantine now, under the same id. */
export interface QuarantineRestored {
  readonly id: string;
  readonly path: string;
  readonly restored: true;
}

/** It is gone for good. */
export interface QuarantineDeleted {
  readonly id: string;
  readonly deleted: true;
}

/** A chat completion, as the OpenAI API describes it. */
export interface ChatCompletion {
  readonly id: string;
  readonly object: "chat.completion";
  readonly created: number;
  readonly model: string;
  readonly choices: readonly ChatChoice[];
  readonly usage: ChatUsage;
  readonly holdfast?: PersonNeeded;
}

/** The one choice of a chat completion. */
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

/** A call of a tool that the client brought and runs itself. */
export interface ToolCallShown {
  readonly id: string;
  readonly type: "function";
  readonly function: ChatFunction;
}

/** The function that a tool call names, with its arguments as JSON text. */
export interface ChatFunction {
  readonly name: string;
  readonly arguments: string;
}

/** What a chat completion used. */
export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: PromptTokensDetails;
  readonly completion_tokens_details: OutputTokensDetails;
}

/** How many of the input tokens came from the provider's cache. */
export interface PromptTokensDetails {
  readonly cached_tokens: number;
  readonly cache_write_tokens: number;
}

/** How many of the output tokens were reasoning. */
export interface OutputTokensDetails {
  readonly reasoning_tokens: number;
}

/** The run waits for a person. This client can't answer, so its response ends and the run continues. */
export interface PersonNeeded {
  readonly waiting_for: "approval" | "question";
  readonly id: string;
  readonly run_id: string;
  readonly text: string;
  readonly url: string;
}

/** The models, as the OpenAI API lists them. */
export interface ModelList {
  readonly object: "list";
  readonly data: readonly ModelShown[];
}

/** A name that `model` may hold. */
export interface ModelShown {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: string;
}

/** All models as Anthropic's clients read them. */
export interface AnthropicModelList {
  readonly data: readonly AnthropicModel[];
  readonly has_more: boolean;
  readonly first_id: string | null;
  readonly last_id: string | null;
}

/** A model as Anthropic's clients read it. */
export interface AnthropicModel {
  readonly type: "model";
  readonly id: string;
  readonly display_name: string;
  readonly created_at: string;
}

/** A response, as the OpenAI API describes it. */
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

/** What a response used. */
export interface ResponseUsage {
  readonly input_tokens: number;
  readonly input_tokens_details: PromptTokensDetails;
  readonly output_tokens: number;
  readonly output_tokens_details: OutputTokensDetails;
  readonly total_tokens: number;
}

/** How many input tokens a response would have. */
export interface InputTokens {
  readonly object: "response.input_tokens";
  readonly input_tokens: number;
}

/** A conversation as its user messages and a summary. */
export interface CompactedResponse {
  readonly id: string;
  readonly object: "response.compaction";
  readonly created_at: number;
  readonly output: readonly Readonly<Record<string, unknown>>[];
  readonly usage: ResponseUsage;
}

/** A conversation, as the OpenAI API describes it: a session. */
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

/** The input of a response, as the OpenAI API lists it. */
export interface InputItems {
  readonly object: "list";
  readonly data: readonly Readonly<Record<string, unknown>>[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
}

/** The response is hidden for good. */
export interface DeletedResponse {
  readonly id: string;
  readonly object: "response.deleted";
  readonly deleted: true;
}

/** All targets, the default first. */
export interface TargetList {
  readonly object: "list";
  readonly data: readonly TargetState[];
}

/** A target with everything that is known about it. */
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

/** How long a small request may be silent, in seconds, before it is cut; 0 is without limit. */
export interface PatienceShown {
  readonly connect_s: number;
  readonly first_event_s: number;
  readonly first_event_why: string;
  readonly gap_s: number;
}

/** How soon a target began to answer recent requests of one size, and how long Holdfast now waits. */
export interface LearnedShown {
  readonly input_tokens_min: number;
  readonly calls: number;
  readonly first_event_p95_s: number;
  readonly waits_s: number;
}

/** A failed call to a target: its kind, and in words what happened and what to do. */
export interface TargetFailed {
  readonly kind: string;
  readonly text: string;
  readonly at?: number;
}

/** What a tiny call to a target showed; `works` without an answer means that it was cut off or refused. */
export interface TargetTried {
  readonly name: string;
  readonly works: boolean;
  readonly ms: number;
  readonly first_ms?: number;
  readonly failure?: TargetFailed;
}

/** Usage over some days (UTC), both included; the totals are of everything, also beyond the rows. */
export interface UsageSummary {
  readonly by: "day" | "key" | "session" | "target";
  readonly from: string;
  readonly to: string;
  readonly rows: readonly UsageListed[];
  readonly totals: UsageFigures;
  readonly budgets: readonly BudgetShown[];
}

/** What one day, target, session or key used. */
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

/** What was used; `cost_usd` is null if no price is known, and leaves out the unpriced calls. */
export interface UsageFigures {
  readonly runs: number;
  readonly relayed_calls: number;
  readonly input_tokens: number;
  readonly cached_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number | null;
  readonly unpriced_calls: number;
}

/** What a key may use in a period, and what it has used; a limit of null is none. */
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

/** All servers that share the store, by name. */
export interface NodeList {
  readonly data: readonly NodeShown[];
}

/** A server that shares the store; `lease_left_s` is null for one that has the store to itself. */
export interface NodeShown {
  readonly name: string;
  readonly url: string;
  readonly is_this: boolean;
  readonly lease_left_s: number | null;
  readonly homes: readonly string[];
  readonly sessions: number;
  readonly lacks?: readonly string[];
}

/** What this server can do, in the form that hermes clients ask for. */
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

/** How to authenticate, and what the caller's key may do. */
export interface AuthShown {
  readonly type: "bearer";
  readonly required: boolean;
  readonly scopes: readonly ("admin" | "approve" | "chat" | "relay")[];
}

/** What the commands of agents run in; `says` is one line for people. */
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

/** Whether the store accepts writes, and how long one takes to reach the disk. */
export interface StoreHealth {
  readonly writable: boolean;
  readonly late: boolean;
  readonly error?: string;
  readonly write_ms?: number;
  readonly lost?: string;
  readonly blobs?: string;
}

/** A target and its health, never its key; a wait of 0 is none. */
export interface TargetShown {
  readonly name: string;
  readonly model: string;
  readonly wire: string;
  readonly context_window: number;
  readonly gated_ms: number;
  readonly silent_ms: number;
}

/** How many files and sockets the process has open. */
export interface OpenFilesShown {
  readonly used: number;
  readonly allowed: number;
  readonly connections: number;
}

/** How much space the data directory's disk has. */
export interface DiskShown {
  readonly free_bytes: number;
  readonly total_bytes: number;
}

/** Whether a chat platform works. */
export interface ChannelHealth {
  readonly name: string;
  readonly state: "connected" | "failed" | "starting" | "off" | "not_configured";
  readonly problem?: string;
  readonly hint?: string;
  readonly undelivered?: number;
  readonly given_up?: number;
  readonly rejected?: number;
}

/** A background task that has failed recently; Holdfast restarts it. */
export interface FailingTask {
  readonly name: string;
  readonly error: string;
}

/** The server is alive; `warning` says what runs short, if anything. */
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

/** A trigger: when it fires, what it asks, and how it is. */
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

/** Instants that passed while nobody was there. */
export interface MissedShown {
  readonly first_at: number;
  readonly last_at: number;
  readonly count: number;
  readonly is_more?: boolean;
}

/** One time that a trigger was due, and what became of it. */
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

/** A new trigger; the secret of a hook is in this response and nowhere else. */
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

/** The next five instants, as seconds of Unix time and as text in the trigger's time zone. */
export interface NextInstants {
  readonly next: readonly number[];
  readonly local: readonly string[];
  readonly when: string;
}

/** The trigger is gone. */
export interface TriggerDeleted {
  readonly id: string;
  readonly deleted: true;
}

/** The secret of a hook, which is in this response and nowhere else. */
export interface HookSecret {
  readonly id: string;
  readonly secret: string;
}

/** What a trigger did, newest first: at most a hundred of each. */
export interface TriggerHistory {
  readonly fires: readonly FireShown[];
  readonly missed: readonly MissedShown[];
}

/** All jobs; webhooks are none. */
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

/** The job is gone. */
export interface JobDeleted {
  readonly ok: true;
}

/** The delivery is stored; it starts one run, however often it comes. */
export interface HookAccepted {
  readonly id: string;
  readonly accepted: true;
  readonly repeated?: boolean;
}

export type OpenAsk = OpenApproval | OpenQuestion;
