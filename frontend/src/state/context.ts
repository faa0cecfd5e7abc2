/** What the model sees of a chat: read when someone looks, and changed by reverts. */

import { signal } from "@preact/signals";
import { type Result, sessionPath } from "../api.ts";
import type { ContextShown } from "../bodies.ts";
import { ask } from "./asking.ts";
import { settings } from "./settings.ts";
import { session } from "./signals.ts";

/** The context that was read last. */
export const contextShown = signal<ContextShown | null>(null);

export async function readContext(sessionId: string): Promise<Result<ContextShown>> {
  const model = encodeURIComponent(settings.value.model);
  return taken(await ask<ContextShown>("GET", sessionPath(sessionId, `/context?model=${model}`)));
}

/** Let the model see again what the compaction or trimming at this seq took away. */
export async function revert(sessionId: string, seq: number): Promise<Result<ContextShown>> {
  const body = { seq, model: settings.value.model };
  return taken(await ask<ContextShown>("POST", sessionPath(sessionId, "/context/revert"), { body }));
}

function taken(result: Result<ContextShown>): Result<ContextShown> {
  const here = session.value;
  if (result.ok && here?.id === result.value.session_id) {
    contextShown.value = result.value;
    const { used_tokens: used, window_tokens: window } = result.value;
    const newest = [...here.runs.value.values()].filter((run) => run.context_tokens > 0).at(-1);
    here.measured.value = { used, window, of: newest?.context_tokens ?? 0 };
  }
  return result;
}
