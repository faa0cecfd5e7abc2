/** What a tool call is about, in one line for people; pure. */
import { duration } from "../format.ts";
import type { IconName } from "../icons.tsx";
import { plainOutput } from "../markdown/safe.ts";
import type { AskEntry, ToolEntry } from "../view/entries.ts";

const LINE_CHARS_MAX = 200;

const ICONS: Readonly<Record<string, IconName>> = {
  shell: "terminal",
  shell_jobs: "terminal",
  shell_kill: "stop",
  read_file: "file",
  write_file: "pencil",
  edit_file: "pencil",
  apply_patch: "pencil",
  list_files: "folder",
  search_files: "search",
  send_file: "send",
  fetch: "globe",
  web_search: "globe",
  web_fetch: "globe",
  fetch_url: "globe",
  ask_user: "question",
  search_sessions: "search",
  remember: "pin",
  skill: "file",
  propose_skill: "pencil",
  read_notes: "search",
  delegate: "fork",
  child_status: "fork",
  child_wait: "clock",
  child_tail: "fork",
  child_steer: "send",
  child_stop: "stop",
  update_plan: "check",
  finish_goal: "check",
};

// the argument that says most, the most telling first
const TELLING = [
  "command",
  "task",
  "path",
  "file_path",
  "url",
  "pattern",
  "query",
  "text",
  "question",
  "job_id",
  "name",
];

export function toolIcon(name: string): IconName {
  return Object.hasOwn(ICONS, name) ? (ICONS[name] ?? "tool") : "tool";
}

const PATCHED = /^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$/gm;

/** The patch of a call that applies one. */
export function patchIn(args: Readonly<Record<string, unknown>>): string {
  const { input } = args;
  return typeof input === "string" && input.startsWith("*** Begin Patch") ? input : "";
}

/** What the call is aimed at: its command, path, address or pattern. */
export function targetLine(tool: Pick<ToolEntry, "args" | "bad_args">): string {
  const patch = patchIn(tool.args);
  if (patch !== "") return oneLine([...patch.matchAll(PATCHED)].map((found) => found[1]).join(", "));
  for (const name of TELLING) {
    const value = tool.args[name];
    if (typeof value === "string" && value.trim() !== "") return oneLine(value);
  }
  if (tool.bad_args !== "") return oneLine(tool.bad_args);
  const first = Object.values(tool.args).find(
    (value) => typeof value === "string" || typeof value === "number",
  );
  return first === undefined ? "" : oneLine(String(first));
}

// what a tool does, as "to do" and as "doing"; of others it is said that they run
const VERBS: Readonly<Record<string, readonly [to: string, ing: string]>> = {
  shell: ["run", "running"],
  read_file: ["read", "reading"],
  write_file: ["write", "writing"],
  edit_file: ["edit", "editing"],
  apply_patch: ["patch", "patching"],
  list_files: ["list", "listing"],
  search_files: ["search for", "searching for"],
  send_file: ["send", "sending"],
  remember: ["remember", "remembering"],
  search_sessions: ["search earlier chats for", "searching earlier chats for"],
  fetch: ["fetch", "fetching"],
  web_fetch: ["fetch", "fetching"],
  fetch_url: ["fetch", "fetching"],
  web_search: ["search the web for", "searching the web for"],
};

/** What a tool call does, in words: "read src/app.py" and "reading src/app.py". */
export function toolWords(tool: Pick<ToolEntry, "name" | "args" | "bad_args">): readonly [string, string] {
  const target = targetLine(tool);
  const verbs = target !== "" && Object.hasOwn(VERBS, tool.name) ? VERBS[tool.name] : undefined;
  if (verbs !== undefined) return [`${verbs[0]} ${target}`, `${verbs[1]} ${target}`];
  const whole = target === "" ? tool.name : `${tool.name} ${target}`;
  return [`run ${whole}`, `running ${whole}`];
}

export function oneLine(text: string): string {
  const line = plainOutput(text.slice(0, 4 * LINE_CHARS_MAX))
    .replace(/\s+/g, " ")
    .trim();
  return line.length > LINE_CHARS_MAX ? `${line.slice(0, LINE_CHARS_MAX)}…` : line;
}

/** A length of time that still grows. */
export function wholeSeconds(lengthMs: number): string {
  const seconds = Math.max(0, Math.floor(lengthMs / 1000));
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
}

export type ToolStanding = { readonly words: string; readonly tone: "" | "ok" | "warn" | "danger" | "busy" };

const ENDINGS: Readonly<Record<string, ToolStanding>> = {
  not_started: { words: "Not started", tone: "warn" },
  killed: { words: "Stopped; effect unknown", tone: "warn" },
  unknown: { words: "Result unknown", tone: "warn" },
  detached: { words: "Running in the background", tone: "" },
  denied: { words: "Denied", tone: "warn" },
  expired: { words: "No one answered in time", tone: "warn" },
  no_approver: { words: "Refused: no one could approve it", tone: "warn" },
};

/** The state of a tool call. */
const NOT_ALLOWED: ReadonlySet<string> = new Set(["denied", "expired", "no_approver"]);

/** Whether the call did nothing because nobody allowed it. */
export function isRefused(tool: ToolEntry): boolean {
  return tool.state === "ended" && NOT_ALLOWED.has(tool.ending ?? "");
}

export function standingOf(tool: ToolEntry, asked: AskEntry | undefined): ToolStanding {
  if (tool.state === "ended") {
    const ending = ENDINGS[tool.ending ?? "finished"];
    if (ending !== undefined) return ending;
    return tool.ok ? { words: "Done", tone: "ok" } : { words: "Failed", tone: "danger" };
  }
  if (asked?.state === "open") return { words: "Waiting for you", tone: "warn" };
  return tool.state === "started"
    ? { words: "Running", tone: "busy" }
    : { words: "About to run", tone: "busy" };
}

/** Whether a person typed the command: its output is shown without being opened. */
export function isTyped(one: { readonly kind: string; readonly tool_call_id?: string }): boolean {
  return one.kind === "tool" && one.tool_call_id?.startsWith("typed-") === true;
}
