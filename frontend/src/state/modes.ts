/** The permission mode: of the open session, or of the one that the next message begins. */
import { signal } from "@preact/signals";
import { type Result, sessionPath } from "../api.ts";
import { ask } from "./asking.ts";
import { server, session } from "./signals.ts";

/** The mode of the session that the next message begins; "" is the configured one. */
export const nextMode = signal("");

/** The mode that applies; "" if the server doesn't say. */
export function modeNow(): string {
  const here = session.value;
  const chosen = here === null ? nextMode.value : here.mode.value;
  return chosen || (server.value?.mode ?? "");
}

/** Sets the mode. The session's log says when it applies. */
export async function changeMode(mode: string): Promise<Result<unknown>> {
  const here = session.value;
  if (here !== null) {
    return ask("PUT", `${sessionPath(here.id)}/approval-mode`, { body: { mode } });
  }
  nextMode.value = mode;
  return { ok: true, value: null };
}
