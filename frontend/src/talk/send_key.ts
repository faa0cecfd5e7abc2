/** The key that sends what was written. */
import { isComposing } from "../keys.ts";
import { settings } from "../state.ts";

/** Whether the key sends; on a phone Enter is a line break, since Shift is out of reach there. */
export function sends(event: KeyboardEvent): boolean {
  if (event.key !== "Enter" || isComposing(event) || event.shiftKey) return false;
  if (event.ctrlKey || event.metaKey) return true;
  return settings.value.sendKey === "enter" && !event.altKey && !matchMedia("(pointer: coarse)").matches;
}

/** Whether the message asks for a summary of the conversation: the server writes it so, and people type it. */
export function isCompaction(text: string): boolean {
  return /^\/compact(?:\s|$)/.test(text);
}

/** The same for a message that is edited: the key keeps it, Escape does not. */
export function onEditingKey(event: KeyboardEvent, save: () => Promise<void>, close: () => void): void {
  if (event.key === "Escape" && !isComposing(event)) {
    event.preventDefault();
    close();
  }
  if (!sends(event)) return;
  event.preventDefault();
  void save();
}
