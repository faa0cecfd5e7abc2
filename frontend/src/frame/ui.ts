/** What the frame itself shows: open panels, dialogs, toasts; nothing of it is about a session's log. */
import { computed, effect, signal } from "@preact/signals";
import { nowMs, type Result } from "../state.ts";

export type DialogName =
  | "settings"
  | "help"
  | "inbox"
  | "context"
  | "options"
  | "targets"
  | "usage"
  | "channels"
  | "nodes"
  | "automations"
  | "memory"
  | "skills";

/** The drawer of the chat list on narrow screens; on wide ones the list's place is a setting. */
export const drawerOpen = signal(false);
export const timelineOpen = signal(false);
/** Whether the workspace's files are shown. */
export const filesOpen = signal(false);
/** The run whose changes are shown with them; "" is none. */
export const changesOf = signal("");

/** The chat in which someone used the browser's search although not all of it is in the page. */
export const findHint = signal("");

/** The id of the button that shows and hides the timeline. */
export const TIMELINE_SWITCH = "timeline-switch";
/** The id of the button that shows and hides the files. */
export const FILES_SWITCH = "files-switch";

export function filesShown(): boolean {
  return filesOpen.value || changesOf.value !== "";
}

export function closeFiles(): void {
  filesOpen.value = false;
  changesOf.value = "";
}

/** Beside the chat there is room for one panel: to show one puts the other away. */
export function toggleFiles(): void {
  const open = !filesShown();
  closeFiles();
  filesOpen.value = open;
}

export function toggleTimeline(): void {
  timelineOpen.value = filesShown() || !timelineOpen.value;
  closeFiles();
}
export const dialog = signal<DialogName | null>(null);

/** Puts the dialog away; the browser tells of its closing a moment later, when another may be open. */
export function closeDialog(name: DialogName): void {
  if (dialog.value === name) dialog.value = null;
}

/** The session whose title is being written, and where: in its row of the list, or over the chat. */
export interface Renaming {
  readonly id: string;
  readonly place: "list" | "head";
  /** What was typed so far, if the field had to be drawn anew. */
  readonly typed?: string;
}

export const renaming = signal<Renaming | null>(null);

export function isRenaming(id: string, place: Renaming["place"]): boolean {
  return renaming.value?.id === id && renaming.value.place === place;
}

export interface Toast {
  readonly id: number;
  readonly words: string;
  readonly undo: () => Promise<Result<unknown>>;
  readonly trouble: string;
  /** Whether it can still be taken back. */
  readonly isOpen: () => boolean;
}

export const toasts = signal<readonly Toast[]>([]);

const TOASTS_MAX = 3;

/** Says what was done and offers to take it back. */
export function offerUndo(words: string, undo: Toast["undo"], isOpen: Toast["isOpen"] = () => true): void {
  const id = 1 + Math.max(0, ...toasts.value.map((toast) => toast.id));
  toasts.value = [...toasts.value, { id, words, undo, trouble: "", isOpen }].slice(-TOASTS_MAX);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Takes the thing back; a failure is said in the toast itself. */
export async function takeBack(toast: Toast): Promise<void> {
  const result = await toast.undo();
  if (result.ok) {
    dismiss(toast.id);
    return;
  }
  toasts.value = toasts.value.map((one) =>
    one.id === toast.id ? { ...one, trouble: result.trouble.message } : one,
  );
}

const CALM_MS = 15_000;

/** The time for long lists, which needn't redraw every second. */
export const calmNowMs = computed(() => CALM_MS * Math.ceil(nowMs.value / CALM_MS));

export { isMac } from "../keys.ts";

/** Whether the list is a drawer over the page instead of a column beside it. */
const NARROW = "(max-width: 860px)";
export const isNarrow = signal(globalThis.matchMedia?.(NARROW).matches ?? false);

/** Follows the width of the window; once, at the start. */
export function followWidth(): void {
  const query = globalThis.matchMedia(NARROW);
  query.addEventListener("change", () => {
    isNarrow.value = query.matches;
  });
  effect(() => {
    if (!isNarrow.value) drawerOpen.value = false;
  });
}

/** Puts the caret into the composer; talk's text field has this id. */
export function focusComposer(): void {
  document.getElementById("composer")?.focus();
}

/**
 * Puts the caret into a field that may only just be coming, before the next key is heard: it belongs there.
 * What Preact draws now is there after its microtask. Later than that, the focus would be taken from where
 * that next key has put it.
 */
export function focusComing(id: string): void {
  queueMicrotask(() => {
    const field = document.getElementById(id);
    if (field === null || field === document.activeElement) return;
    field.focus();
    if (field instanceof HTMLInputElement) field.select();
  });
}
