/** What can be written instead of a message, and what it does. */

export const COMMANDS: readonly (readonly [command: string, words: string])[] = [
  ["/plan", "only reads until you accept its plan"],
  ["/goal", "works until the goal is reached"],
  ["/compact", "summarizes the chat so far"],
  ["/help", "lists commands and keys"],
];
