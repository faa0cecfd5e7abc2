/** What can be written instead of a message, and what it does. */

export const COMMANDS: readonly (readonly [command: string, words: string])[] = [
  ["/plan", "read only until you accept a plan"],
  ["/goal", "keep working until a goal is reached"],
  ["/compact", "summarize the chat so far"],
  ["/help", "list commands and keys"],
];
