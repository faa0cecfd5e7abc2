/** The keyboard: which keys mean which command, and how they are written for people; pure. */

export type Command =
  | "new"
  | "search"
  | "find"
  | "composer"
  | "stop"
  | "answer"
  | "inbox"
  | "previous"
  | "next"
  | "files"
  | "timeline"
  | "sidebar"
  | "settings"
  | "help";

export interface Shortcut {
  readonly command: Command;
  readonly words: string;
  /** Combinations like "mod+k"; `mod` is Command on a Mac and Control elsewhere. The first is the one shown. */
  readonly keys: readonly string[];
}

/** A combination without `mod` or `alt` counts only while nobody types. */
export const SHORTCUTS: readonly Shortcut[] = [
  { command: "new", words: "New chat", keys: ["mod+shift+o", "n"] },
  { command: "search", words: "Search chats", keys: ["mod+k", "/"] },
  { command: "find", words: "Search in this chat", keys: ["mod+shift+f"] },
  { command: "composer", words: "Go to the message field", keys: ["mod+i", "c"] },
  { command: "stop", words: "Stop the run", keys: ["mod+."] },
  { command: "answer", words: "Go to the pending request", keys: ["alt+a", "a"] },
  { command: "inbox", words: "Show the inbox", keys: ["alt+i", "i"] },
  { command: "previous", words: "Previous chat", keys: ["alt+arrowup"] },
  { command: "next", words: "Next chat", keys: ["alt+arrowdown"] },
  { command: "files", words: "Show or hide files", keys: ["alt+f", "f"] },
  { command: "timeline", words: "Show or hide the timeline", keys: ["alt+t", "t"] },
  { command: "sidebar", words: "Show or hide chats", keys: ["mod+b"] },
  { command: "settings", words: "Settings", keys: ["mod+,"] },
  { command: "help", words: "Commands and shortcuts", keys: ["?", "mod+/"] },
];

/** What of a key event decides; a KeyboardEvent fits. */
export interface Pressed {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  readonly shiftKey: boolean;
  readonly isComposing?: boolean;
}

export interface Where {
  readonly isMac: boolean;
  readonly isTyping: boolean;
  /** Whether keys count that need no Control, Command or Alt. */
  readonly bareKeys: boolean;
}

export const isMac = /mac|iphone|ipad/i.test(globalThis.navigator?.platform ?? "");

/** Whether the key belongs to an input method; for its last key, Safari says so only by the key code. */
export function isComposing(pressed: Pick<KeyboardEvent, "isComposing" | "keyCode">): boolean {
  return pressed.isComposing || pressed.keyCode === 229;
}

/** The command that a key means here, or null. */
export function commandOf(pressed: Pressed, where: Where): Command | null {
  if (pressed.isComposing) return null;
  for (const { command, keys } of SHORTCUTS) {
    if (keys.some((combination) => fits(combination, pressed, where))) return command;
  }
  return null;
}

/** Whether the key opens the browser's own search in the page. */
export function isBrowserFind(pressed: Pressed, isMac: boolean): boolean {
  return fits("mod+f", pressed, { isMac, isTyping: true, bareKeys: false });
}

/** Whether a single key does it. */
export function isBare(combination: string): boolean {
  return !/^(?:mod|alt)\+/.test(combination);
}

function fits(combination: string, pressed: Pressed, { isMac, isTyping, bareKeys }: Where): boolean {
  const parts = combination.split("+");
  const key = parts.pop();
  const [mod, alt, shift] = ["mod", "alt", "shift"].map((name) => parts.includes(name));
  if (isBare(combination) && (isTyping || !bareKeys)) return false;
  const isMod = isMac ? pressed.metaKey : pressed.ctrlKey;
  const isOther = isMac ? pressed.ctrlKey : pressed.metaKey;
  if (isMod !== mod || isOther || pressed.altKey !== alt) return false;
  // A mark such as "?" needs Shift on some keyboards and not on others.
  const isLetter = /^[a-z]$/.test(key ?? "") || (key ?? "").length > 1;
  return pressed.key.toLowerCase() === key && (!isLetter || pressed.shiftKey === shift);
}

const NAMES: Readonly<Record<string, readonly [string, string]>> = {
  mod: ["Ctrl", "⌘"],
  alt: ["Alt", "⌥"],
  shift: ["Shift", "⇧"],
  enter: ["Enter", "↩"],
  escape: ["Esc", "Esc"],
  arrowup: ["↑", "↑"],
  arrowdown: ["↓", "↓"],
};

/** A combination as the caps of a keyboard, one after the other. */
export function caps(combination: string, isMac: boolean): string[] {
  return combination.split("+").map((part) => NAMES[part]?.[isMac ? 1 : 0] ?? part.toUpperCase());
}

/** The combination that is shown for a command, as one word for a tooltip. */
export function hint(command: Command, isMac: boolean): string {
  const first = SHORTCUTS.find((shortcut) => shortcut.command === command)?.keys[0] ?? "";
  return caps(first, isMac).join(isMac ? "" : "+");
}
