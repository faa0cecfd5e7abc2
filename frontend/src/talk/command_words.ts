/** Commands: words that you can write instead of a message. */
import { has } from "../state.ts";

type Command = readonly [command: string, words: string];

const COMMANDS: readonly Command[] = [
  ["/compact", "summarize the chat so far"],
  ["/help", "list commands and keys"],
];
const OF_PLANS: readonly Command[] = [
  ["/plan", "read only until you accept a plan"],
  ["/goal", "keep working until a goal is reached"],
];

/** The commands of this server. */
export function commands(): readonly Command[] {
  return has("plans") ? [...OF_PLANS, ...COMMANDS] : COMMANDS;
}
