/** What the keyboard, the buttons and the list do alike. */

import { type Command, commandOf, isBrowserFind, isComposing } from "../keys.ts";
import {
  changeSettings,
  create,
  type FoundSession,
  open,
  openAt,
  searchIn,
  session,
  sessions,
  settings,
  stop,
  stopAsked,
  wantedAsk,
} from "../state.ts";
import { ROWS_KEPT } from "../talk/chapters.ts";
import {
  dialog,
  drawerOpen,
  findHint,
  focusComing,
  focusComposer,
  isMac,
  isNarrow,
  toggleFiles,
  toggleTimeline,
} from "./ui.ts";

/** Opens a chat and, where the list covers it, puts the list away. */
export function show(sessionId: string): void {
  drawerOpen.value = false;
  open(sessionId);
}

/** The same, at something that waits for a person in it. */
export function showAsk(sessionId: string, askId: string): void {
  wantedAsk.value = askId;
  if (session.value?.id !== sessionId) show(sessionId);
}

/** The same, at what a search found in it. */
export function showHit({ id, hit }: FoundSession): void {
  drawerOpen.value = false;
  openAt(id, hit);
}

/** A new chat, ready to write in. */
export function begin(): void {
  drawerOpen.value = false;
  create();
  focusComing("composer");
}

export function showList(): void {
  if (isNarrow.value) drawerOpen.value = true;
  else changeSettings({ sidebar: "open" });
}

export function hideList(): void {
  if (isNarrow.value) drawerOpen.value = false;
  else changeSettings({ sidebar: "closed" });
}

export function listShown(): boolean {
  return isNarrow.value ? drawerOpen.value : settings.value.sidebar === "open";
}

function step(by: 1 | -1): void {
  const rows = sessions.value;
  const at = rows.findIndex((row) => row.id === session.value?.id);
  const next = at < 0 ? rows[0] : rows[at + by];
  if (next) show(next.id);
}

/** Looks for something in the open chat alone. */
export function findHere(): void {
  searchIn(session.value?.row.value?.id ?? "");
  findHint.value = "";
  findChats();
}

function findChats(): void {
  showList();
  focusComing("search");
}

const ACTS: Readonly<Record<Command, () => void>> = {
  new: begin,
  search: findChats,
  find: findHere,
  composer: focusComposer,
  stop: () => {
    if (session.value?.currentRun.value) void stop();
  },
  answer: () => {
    const [oldest] = session.value?.openAsks.value ?? [];
    if (oldest) wantedAsk.value = oldest.ask_id;
    else dialog.value = "inbox";
  },
  inbox: () => {
    dialog.value = dialog.value === "inbox" ? null : "inbox";
  },
  previous: () => step(-1),
  next: () => step(1),
  files: () => {
    if (session.value) toggleFiles();
  },
  timeline: () => {
    if (session.value) toggleTimeline();
  },
  sidebar: () => (listShown() ? hideList() : showList()),
  settings: () => {
    dialog.value = dialog.value === "settings" ? null : "settings";
  },
  help: () => {
    dialog.value = dialog.value === "help" ? null : "help";
  },
};

/** Listens to the keyboard; once, at the start. */
export function followKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented) return;
    if (event.key === "Escape") return onEscape(event);
    // the browser keeps its key, and the page only says what that does not find
    if (isBrowserFind(event, isMac) && isPartlyHere()) findHint.value = session.value?.id ?? "";
    const command = commandOf(event, {
      isMac,
      isTyping: isTyping(event.target),
      bareKeys: settings.value.bareKeys,
    });
    if (!command || (isCovered() && command !== dialog.value)) {
      return;
    }
    event.preventDefault();
    ACTS[command]();
  });
}

const ASKED_MS = 3000;
let forgetting: ReturnType<typeof setTimeout> | undefined;

/**
 * Stops the run if it is pressed twice: people press Escape to get out of something else, too. What takes the key for
 * itself, such as a menu, prevents its default; a dialog or a popover is closed by the browser.
 */
function onEscape(event: KeyboardEvent): void {
  const run = session.value?.currentRun.value;
  if (!run || event.repeat || isComposing(event) || document.querySelector(OVER_THE_PAGE) !== null) return;
  clearTimeout(forgetting);
  if (stopAsked.value === run.run_id) {
    stopAsked.value = "";
    ACTS.stop();
    return;
  }
  stopAsked.value = run.run_id;
  forgetting = setTimeout(() => {
    stopAsked.value = "";
  }, ASKED_MS);
}

const OVER_THE_PAGE = "dialog[open], :popover-open";

/** Whether the open chat is longer than what is in the page. */
function isPartlyHere(): boolean {
  const here = session.value;
  return here !== null && (here.hasOlder.value || here.entries.value.length > ROWS_KEPT);
}

/** Whether a dialog is over the page now: one that Escape has just closed is not. */
function isCovered(): boolean {
  return dialog.value !== null && document.querySelector("dialog[open]") !== null;
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}
