/** What is read from a view at a moment: a run's clean answer, and the mark under an interrupted one. */

import type { View } from "../view.ts";
import type { Entry } from "./entries.ts";

export const RECOVERING = "Interrupted; recovering the run's output.";
export const RECOVERED = "Interrupted; output recovered from the run journal.";
export const LOST = "Interrupted. Partial output may have been lost.";
const RECOVERY_GIVEN_UP_AFTER_MS = 24 * 60 * 60 * 1000;

/** The text since the run's last tool card or, if there is none, the last text before.
 *
 * A person's message between two texts becomes an empty line.
 */
export function output(view: View, runId: string): string {
  const texts: string[] = [];
  let gap = "";
  let beforeTool = false;
  for (const entry of view.runs.get(runId)?.entries.toReversed() ?? []) {
    if (entry.kind === "text" && entry.text) {
      texts.push(entry.text + gap);
      gap = "";
      if (beforeTool) {
        break;
      }
    } else if (entry.kind === "person") {
      gap = texts.length > 0 ? "\n\n" : "";
    } else if (entry.kind === "tool") {
      if (texts.length > 0) {
        break;
      }
      beforeTool = true;
    }
  }
  return texts.toReversed().join("");
}

/** What people read under an interrupted run, computed at each reading; null if it is not interrupted. */
export function mark(view: View, runId: string, nowMs: number, ownerGone: boolean): string | null {
  const run = view.runs.get(runId);
  if (run === undefined || (run.ending === null && !ownerGone)) {
    return null;
  }
  if (run.ending !== null && run.ending.outcome !== "interrupted") {
    return null;
  }
  if (run.entries.some(isOutput)) {
    return RECOVERED;
  }
  const tooOld = nowMs - run.updated_ms >= RECOVERY_GIVEN_UP_AFTER_MS;
  return run.ending !== null || tooOld ? LOST : RECOVERING;
}

function isOutput(entry: Entry): boolean {
  return (entry.kind === "text" && entry.text !== "") || (entry.kind === "tool" && entry.state === "ended");
}
