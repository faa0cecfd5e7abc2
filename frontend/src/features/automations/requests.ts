/** What the Automations panel asks the server. */
import type { Result } from "../../api.ts";
import type {
  HookSecret,
  NextInstants,
  TriggerHistory,
  TriggerList,
  TriggerMade,
  TriggerShown,
} from "../../bodies.ts";
import { MOUNT } from "../../mount.ts";
import { ask } from "../../state/asking.ts";
import { readChannels, readLog } from "../channels/requests.ts";
import { hasPeople } from "../channels/words.ts";
import { type HookKind, signedHeaders } from "./signing.ts";
import { type KnownPlace, placesOf } from "./words.ts";

/** The body of a trigger that is made or changed. */
export type TriggerBody = Readonly<Record<string, unknown>>;

export async function readTriggers(): Promise<Result<readonly TriggerShown[]>> {
  const result = await ask<TriggerList>("GET", "/api/triggers");
  return result.ok ? { ok: true, value: result.value.data } : result;
}

export function makeTrigger(body: TriggerBody): Promise<Result<TriggerMade>> {
  return ask("POST", "/api/triggers", { body });
}

export function changeTrigger(id: string, body: TriggerBody): Promise<Result<TriggerShown>> {
  return ask("PATCH", pathOf(id), { body });
}

export function deleteTrigger(id: string): Promise<Result<unknown>> {
  return ask("DELETE", pathOf(id));
}

export function previewTrigger(body: TriggerBody): Promise<Result<NextInstants>> {
  return ask("POST", "/api/triggers/preview", { body });
}

export function readHistory(id: string): Promise<Result<TriggerHistory>> {
  return ask("GET", `${pathOf(id)}/history`);
}

/** Pause, resume or run it now. */
export function tell(id: string, verb: "pause" | "resume" | "run"): Promise<Result<TriggerShown>> {
  return ask("POST", `${pathOf(id)}/${verb}`, { body: {} });
}

/** Says whether a run makes up for what was missed. */
export function answerMissed(id: string, run: boolean): Promise<Result<TriggerShown>> {
  return ask("POST", `${pathOf(id)}/missed`, { body: { run } });
}

export function renewSecret(id: string): Promise<Result<HookSecret>> {
  return ask("POST", `${pathOf(id)}/secret`, { body: {} });
}

/** Delivers something to the hook as its sender would; the server can't tell the difference. */
export async function deliverTest(hook: string, kind: HookKind, secret: string): Promise<Result<unknown>> {
  const id = `test-${crypto.randomUUID()}`;
  const body = JSON.stringify({ id, event_id: id, type: "test", text: "A test from the Automations panel." });
  const headers = await signedHeaders(kind, secret, { id, body, atS: Math.floor(Date.now() / 1000) });
  const trouble = (message: string, status: number): Result<unknown> => ({
    ok: false,
    trouble: { message, code: "", status, param: null },
  });
  try {
    const response = await fetch(MOUNT + hook, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body,
      credentials: "omit",
    });
    if (response.ok) return { ok: true, value: null };
    return trouble(`The webhook returned ${response.status}.`, response.status);
  } catch {
    return trouble("Can't reach the server.", 0);
  }
}

/** The chats that results can go to, as far as the logs of the channels know them. */
export async function readPlaces(): Promise<Result<readonly KnownPlace[]>> {
  const channels = await readChannels();
  if (!channels.ok) return channels;
  const found = await Promise.all(
    channels.value.filter(hasPeople).map(async (channel) => {
      const log = await readLog(channel.name);
      return log.ok ? { ok: true as const, value: placesOf(channel, log.value) } : log;
    }),
  );
  const failed = found.find((one) => !one.ok);
  return failed ?? { ok: true, value: found.flatMap((one) => (one.ok ? one.value : [])) };
}

function pathOf(id: string): string {
  return `/api/triggers/${encodeURIComponent(id)}`;
}
