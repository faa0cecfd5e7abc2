/** What is said about channels, their people and what happened in them; pure. */
import type { ChannelLogEntry, ChannelShown, ChannelUserShown } from "../../bodies.ts";
import { plural } from "../../format.ts";

export type Kind = "good" | "waiting" | "silent";

const PLATFORMS: Readonly<Record<string, string>> = {
  discord: "Discord",
  slack: "Slack",
  telegram: "Telegram",
  webhooks: "Results sent to other programs",
};

export function platformOf({ kind, account }: ChannelShown): string {
  return [PLATFORMS[kind] ?? kind, account].filter(Boolean).join(" · ");
}

/** Whether people can talk to it. A channel that posts results to other programs has no people. */
export function hasPeople({ kind }: ChannelShown): boolean {
  return kind !== "webhooks";
}

export function stateOf(channel: ChannelShown): { readonly kind: Kind; readonly words: string } {
  switch (channel.state) {
    case "connected":
      return { kind: "good", words: hasPeople(channel) ? "Connected" : "Ready" };
    case "failed":
      return { kind: "silent", words: "Not connected" };
    case "off":
      return { kind: "silent", words: "Off" };
    case "starting":
      return { kind: "waiting", words: "Connecting" };
    default:
      return { kind: "waiting", words: "Not configured on this server" };
  }
}

/** The platform without the account on it; the receivers of results are many. */
function nameOf(channel: ChannelShown): string {
  return hasPeople(channel) ? (PLATFORMS[channel.kind] ?? channel.kind) : "the receiver";
}

/** What is still to be answered or sent. */
export function waitingOf({ awaited = 0, undelivered = 0 }: ChannelShown): string {
  const found = [
    awaited > 0 ? `${plural(awaited, "unanswered message")}` : "",
    undelivered > 0 ? `${plural(undelivered, "message")} to send` : "",
  ].filter(Boolean);
  return found.join(", ") || "Nothing";
}

/** What was sent and did not arrive, or may not have; the log says which and why. */
export function undeliveredOf(channel: ChannelShown): string {
  const { rejected = 0, given_up: lost = 0 } = channel;
  const found = [
    rejected > 0 ? `${plural(rejected, "message")} rejected by ${nameOf(channel)}` : "",
    lost > 0 ? `${plural(lost, "message")} possibly lost` : "",
  ].filter(Boolean);
  return found.length > 0 ? `${found.join(", ")}. See the log.` : "";
}

/** Who was let in by a code, as keys: one who pairs again after being revoked is another. */
export function pairedIn({ users = [] }: ChannelShown): ReadonlyMap<string, string> {
  return new Map(
    users
      .filter(({ how }) => how === "code")
      .map(({ user, name, since }) => [`${user} ${since}`, name || user]),
  );
}

export function rightsOf({ role }: ChannelUserShown): string {
  return role === "approver" ? "Can talk and approve" : "Can talk";
}

/** How a person came to be allowed. */
export function howOf({ how, by }: ChannelUserShown): string {
  switch (how) {
    case "code":
      return "paired with a code";
    case "settings":
      return "allowed in the configuration";
    default:
      return by ? `allowed by ${by}` : "allowed";
  }
}

export interface LogLine {
  readonly key: string;
  readonly atS: number;
  readonly where: string;
  readonly words: string;
  readonly why: string;
  readonly kind: Kind;
}

const OPEN = "Queued";
const DELIVERIES: Readonly<Record<string, { readonly words: string; readonly kind: Kind }>> = {
  "delivery.intended": { words: OPEN, kind: "waiting" },
  "delivery.attempted": { words: "Sending", kind: "waiting" },
  "delivery.postponed": { words: OPEN, kind: "waiting" },
  "delivery.confirmed": { words: "Delivered", kind: "good" },
  "delivery.rejected": { words: "Rejected", kind: "silent" },
  "delivery.unknown": { words: "Not confirmed", kind: "silent" },
};
const BECAME: Readonly<Record<string, string>> = {
  answer: "Received: an answer",
  command: "Received: a command",
  edit: "Received: an edit",
  ignored: "Ignored",
  message: "Received: a message",
  refused: "Refused: no access",
  steer: "Received: a message for the active run",
};
const OTHERS: Readonly<Record<string, string>> = {
  "channel.code_made": "Pairing code created",
  "channel.code_tried": "Pairing code tried",
  "channel.connected": "Connected",
  "channel.failed": "Connection failed",
  "channel.model_chosen": "Model chosen",
  "channel.user_allowed": "Person allowed",
  "channel.user_revoked": "Person revoked",
};
/** How many of the newest lines are shown. */
const LINES_MAX = 100;

/** What became of each update and each delivery, newest first; a delivery is one line, whatever it took. */
export function linesOf(entries: readonly ChannelLogEntry[]): readonly LogLine[] {
  const lines = new Map<string, LogLine>();
  for (const entry of entries) {
    const line = lineOf(entry);
    if (line === null) continue;
    lines.delete(line.key);
    lines.set(line.key, line);
  }
  return [...lines.values()].reverse().slice(0, LINES_MAX);
}

function lineOf(entry: ChannelLogEntry): LogLine | null {
  const { seq, at, type, chat = "", user = "", what = "", delivery = "" } = entry;
  const where = chat ? `chat ${chat}` : user ? `person ${user}` : "";
  const base = { key: delivery || String(seq), atS: at, where };
  const state = DELIVERIES[type];
  if (state !== undefined) return { ...base, ...state, why: type === "delivery.confirmed" ? "" : what };
  if (type === "channel.update_taken") {
    const [became = "", ...why] = what.split(": ");
    const kind = became === "refused" || became === "ignored" ? "waiting" : "good";
    return { ...base, words: BECAME[became] ?? became, why: why.join(": "), kind };
  }
  const words = OTHERS[type];
  return words === undefined
    ? null
    : { ...base, words, why: what, kind: type === "channel.failed" ? "silent" : "good" };
}

/** The status of one delivery; null until it is known. */
export function becameOf(entries: readonly ChannelLogEntry[], delivery: string): LogLine | null {
  return linesOf(entries).find(({ key }) => key === delivery) ?? null;
}

/** The chats and people that the log knows, for suggestions. */
export function chatsIn(entries: readonly ChannelLogEntry[]): readonly string[] {
  return [...new Set(entries.map(({ chat = "" }) => chat).filter(Boolean))].sort();
}
