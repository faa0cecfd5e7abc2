/** What is said about automations, and how a form becomes a request; pure. */
import type { ChannelLogEntry, ChannelShown, FireShown, MissedShown, TriggerShown } from "../../bodies.ts";
import { momentIn, plural } from "../../format.ts";
import { MOUNT } from "../../mount.ts";
import type { HookKind } from "./signing.ts";

export type When = "cron" | "every" | "at" | "webhook";

/** What someone has filled in. */
export interface Draft {
  readonly name: string;
  readonly prompt: string;
  readonly when: When;
  readonly cron: string;
  readonly zone: string;
  readonly every: string;
  /** As a field for date and time has it: in the browser's zone, without saying so. */
  readonly at: string;
  readonly webhook: HookKind;
  readonly missed: TriggerShown["missed"];
  readonly overlap: TriggerShown["overlap"];
  readonly approvals: "" | TriggerShown["approvals"];
  /** Chats and addresses that are told the results, one on each line. */
  readonly deliver: string;
  /** Names of skills, in one line. */
  readonly skills: string;
  /** How often it runs; empty is without a limit. */
  readonly times: string;
  readonly script: string;
  /** A target's name or model; empty is the default. */
  readonly model: string;
  readonly workspace: string;
  /** In US dollars for each run; empty is without a limit. */
  readonly budget: string;
}

export function newDraft(zone: string): Draft {
  return {
    name: "",
    prompt: "",
    when: "cron",
    cron: "0 8 * * 1-5",
    zone,
    every: "1h",
    at: "",
    webhook: "github",
    missed: "once",
    overlap: "queue",
    approvals: "",
    deliver: "",
    skills: "",
    times: "",
    script: "",
    model: "",
    workspace: "",
    budget: "",
  };
}

export function draftOf(trigger: TriggerShown, zone: string): Draft {
  const known = newDraft(zone);
  return {
    ...known,
    name: trigger.name,
    prompt: trigger.prompt,
    when: trigger.kind === "after" ? "cron" : trigger.kind,
    cron: trigger.cron ?? known.cron,
    zone: trigger.zone ?? zone,
    every: trigger.every ?? known.every,
    at: trigger.at === undefined ? "" : localField(1000 * trigger.at),
    webhook: (trigger.webhook as HookKind | undefined) ?? known.webhook,
    missed: trigger.missed,
    overlap: trigger.overlap,
    approvals: trigger.approvals,
    deliver: (trigger.deliver ?? []).join("\n"),
    skills: (trigger.skills ?? []).join(", "),
    times: trigger.times ? `${trigger.times}` : "",
    script: trigger.script ?? "",
    model: trigger.model ?? "",
    workspace: trigger.workspace ?? "",
    budget: trigger.budget?.cost_usd ? `${trigger.budget.cost_usd}` : "",
  };
}

/** The chats and addresses in the text, each once. */
export function placesIn(text: string): readonly string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}

/** The text with the place in it or, if it is there already, without it. */
export function toggled(text: string, place: string): string {
  const places = placesIn(text);
  return (places.includes(place) ? places.filter((one) => one !== place) : [...places, place]).join("\n");
}

/** A chat that results can go to, and how people know it. */
export interface KnownPlace {
  readonly place: string;
  readonly words: string;
}

/** The chats in which someone has talked to the channel; one of a single person has their name. */
export function placesOf(channel: ChannelShown, entries: readonly ChannelLogEntry[]): readonly KnownPlace[] {
  const names = new Map((channel.users ?? []).map(({ user, name }) => [user, name || user]));
  const people = new Map<string, Set<string>>();
  // on Telegram, the chat with a person has the id of that person; who paired or was allowed can be told something
  const direct = channel.kind === "telegram" ? (channel.users ?? []) : [];
  for (const { user, how } of direct) if (how !== "settings") people.set(user, new Set([user]));
  for (const { type, chat = "", user = "" } of entries) {
    if (type !== "channel.update_taken" || chat === "" || !names.has(user)) continue;
    people.set(chat, new Set([...(people.get(chat) ?? []), user]));
  }
  return [...people].map(([chat, users]) => {
    const [only = ""] = users;
    const who = users.size === 1 && !names.has(chat) ? `${names.get(only)}, chat ${chat}` : names.get(chat);
    return { place: `${channel.name}:${chat}`, words: `${who ?? `chat ${chat}`} in ${channel.name}` };
  });
}

/** A time as a field for date and time has it. */
export function localField(atMs: number): string {
  const at = new Date(atMs);
  const two = (value: number): string => `${value}`.padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** The part of the request that says when. */
export function timesOf(draft: Draft): Record<string, unknown> {
  switch (draft.when) {
    case "cron":
      return { cron: draft.cron, zone: draft.zone };
    case "every":
      return { every: draft.every };
    case "at":
      return { at: draft.at === "" ? null : new Date(draft.at).getTime() / 1000 };
    case "webhook":
      return { webhook: draft.webhook };
  }
}

/** The request; `known` is what the automation has, and places that stay as they are aren't checked anew. */
export function bodyOf(draft: Draft, known: TriggerShown | null = null): Record<string, unknown> {
  const rules = draft.when === "webhook" ? {} : { missed: draft.missed };
  const places = placesIn(draft.deliver);
  const before = known === null ? newDraft("") : draftOf(known, "");
  const isSame = places.join("\n") === (known?.deliver ?? []).join("\n");
  return {
    name: draft.name.trim(),
    prompt: draft.prompt,
    ...timesOf(draft),
    ...rules,
    overlap: draft.overlap,
    ...(draft.approvals === "" ? {} : { approvals: draft.approvals }),
    ...(isSame ? {} : { deliver: places }),
    ...(draft.skills === before.skills ? {} : { skills: placesIn(draft.skills) }),
    ...(draft.times === before.times ? {} : { times: Number(draft.times) }),
    ...(draft.script === before.script ? {} : { script: draft.script }),
    ...(draft.model === before.model ? {} : { model: draft.model.trim() }),
    ...(draft.workspace === before.workspace ? {} : { workspace: draft.workspace.trim() }),
    ...(draft.budget === before.budget
      ? {}
      : { budget: { ...known?.budget, cost_usd: Number(draft.budget) } }),
  };
}

/** What is still missing; "" if it can be saved. */
export function missingIn(draft: Draft): string {
  if (draft.name.trim() === "") return "Enter a name.";
  if (draft.prompt.trim() === "") return "Enter a task for the agent.";
  if (draft.when === "at" && draft.at === "") return "Choose a date and time.";
  if (!/^(\d{1,6}(\.\d{1,6})?)?$/.test(draft.budget.trim()))
    return "Enter the cost limit as a number, or leave it empty.";
  if (!/^\d{0,9}$/.test(draft.times.trim())) return "Enter how often it runs as a number, or leave it empty.";
  return "";
}

export interface StateWords {
  readonly kind: "good" | "waiting" | "silent";
  readonly words: string;
}

export function stateOf(trigger: TriggerShown): StateWords {
  if (trigger.held_until !== undefined) {
    const until = momentIn(1000 * trigger.held_until, trigger.zone);
    return { kind: "silent", words: `On hold until ${until}: the server's clock was ahead` };
  }
  switch (trigger.state) {
    case "active":
      return { kind: "good", words: "Active" };
    case "paused":
      return { kind: "waiting", words: "Paused" };
    case "done":
      return { kind: "waiting", words: "Done" };
    case "gave_up":
      return {
        kind: "silent",
        words: `Paused after ${plural(trigger.failures ?? 0, "failed run")} in a row`,
      };
  }
}

const OUTCOMES: Readonly<Record<string, string>> = {
  completed: "Completed",
  refused: "The model refused",
  truncated: "Cut off",
  budget: "Budget used up",
  failed: "Failed",
  cancelled: "Stopped",
  interrupted: "Interrupted",
};

export function fireWords(fire: FireShown): string {
  const script = fire.script_why ? ` The script didn't succeed: ${fire.script_why}.` : "";
  const made = script + (fire.missed ? ` Also covers ${plural(fire.missed, "missed run")}.` : "");
  switch (fire.state) {
    case "due":
      return "Starting";
    case "fired":
      return made ? `Running.${made}` : "Running";
    case "skipped":
      return fire.why ? `Skipped: ${fire.why}` : "Skipped";
    case "ended":
      return (OUTCOMES[fire.outcome ?? ""] ?? "Ended") + (made ? `.${made}` : "");
  }
}

/** Times that passed while no server was running. */
export function missedWords(missed: MissedShown, zone = ""): string {
  const many = `${missed.is_more ? "more than " : ""}${plural(missed.count, "time")}`;
  if (missed.count === 1) return `Missed at ${momentIn(1000 * missed.first_at, zone)}`;
  return `Missed ${many} from ${momentIn(1000 * missed.first_at, zone)} to ${momentIn(1000 * missed.last_at, zone)}`;
}

/** The whole address of a hook. */
export function addressOf(hook: string, origin: string): string {
  return new URL(MOUNT + hook, origin).href;
}
