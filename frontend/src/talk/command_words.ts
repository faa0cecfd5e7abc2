/** Commands: words that you can write instead of a message. */
import { has } from "../state.ts";

type Command = readonly [command: string, words: string];

// The first two are of plans.
const COMMANDS: readonly Command[] = [
  ["/plan", "read-only until you accept a plan"],
  ["/goal", "work until a goal is reached"],
  ["/compact", "summarize the chat so far"],
  ["/help", "list commands and keys"],
];

/** The commands of this server. */
export function commands(): readonly Command[] {
  return COMMANDS.slice(has("plans") ? 0 : 2);
}
