/** The page's one stream: of the open session, or of the list alone; and what it says aside. */

import { batch } from "@preact/signals";
import { sessionPath } from "../api.ts";
import type { SessionShown } from "../bodies.ts";
import type { LogRecord } from "../events.ts";
import { EventStream, type Frame, type StreamState } from "../stream.ts";
import { mayAsk } from "./asking.ts";
import { countAsks, dropRow, putRow, refreshSessions } from "./list.ts";
import { isSaid, type Opened } from "./opened.ts";
import type { Connection } from "./page_state.ts";
import { connection, heard, live } from "./signals.ts";
import { leaveSlot, takeSlot } from "./slots.ts";

/** A reader sees no more updates than this allows; each costs a look at the line, a layout and a painting. */
const PACE_MS = 100;
/** How long a line may have been quiet before it is not trusted after a sleep. */
const QUIET_MS = 20_000;

export interface LinkListener {
  /** Events of the open session, in their order. */
  records(here: Opened, records: readonly LogRecord[]): void;
  /** The session was deleted, or there is none. */
  gone(sessionId: string): void;
  /** The line is up again. */
  isLive(): void;
}

let stream: EventStream | null = null;
let followed: Opened | null = null;

/** A seq of this log, not of another one under the same id. */
function cursorOf({ view }: Opened): string {
  return view.epoch === "" ? `${view.lastSeq}` : `${view.lastSeq}@${encodeURIComponent(view.epoch)}`;
}

/** Follows a session from its view's last seq, or only the list; ends what was followed before. */
export function follow(here: Opened | null, on: LinkListener): void {
  stream?.close();
  followed = here;
  live.value = null;
  const mine: EventStream = new EventStream({
    address: () =>
      here === null
        ? "/api/events"
        : sessionPath(here.id, `/events?after=${cursorOf(here)}&pace_ms=${PACE_MS}`),
    frames: (frames) => {
      if (stream === mine) {
        take(here, frames, on);
      }
    },
    state: (state) => {
      if (stream === mine) {
        tell(state, on);
      }
    },
    refused: (status) => {
      if (stream !== mine) {
        return;
      }
      if (status === 404 && here !== null) {
        on.gone(here.id);
      } else {
        connection.value = "signed-out";
      }
    },
  });
  stream = mine;
  void mayAsk().then(async () => {
    const isSeen = document.visibilityState === "visible" || (await takeSlot());
    // A tab in the background begins to follow when it is looked at.
    if (stream === mine && isSeen) {
      mine.open();
    }
  });
}

export function unfollow(): void {
  stream?.close();
  stream = null;
  followed = null;
}

/** Someone looks at the tab, or no longer does. */
export async function visibilityChanged(): Promise<void> {
  if (document.visibilityState === "visible") {
    leaveSlot();
    stream?.wake(QUIET_MS);
  } else if (!(await takeSlot()) && document.visibilityState === "hidden") {
    stream?.rest();
  }
}

/** The network came or went; since a server on this very machine needs none, only a new connection tells. */
export async function networkChanged(): Promise<void> {
  if (document.visibilityState === "visible" || (await takeSlot())) {
    stream?.wake(-1);
  }
}

function tell(state: StreamState, on: LinkListener): void {
  const known: Connection = state === "reconnecting" && !navigator.onLine ? "offline" : state;
  // Another session's stream is no reason to say that there is no connection.
  if (known !== "connecting" || connection.value !== "live") {
    connection.value = known;
  }
  if (state === "live") {
    void refreshSessions();
    on.isLive();
  }
}

function take(here: Opened | null, frames: readonly Frame[], on: LinkListener): void {
  const records: LogRecord[] = [];
  batch(() => {
    for (const frame of frames) {
      if (frame.seq === undefined) {
        aside(frame as Aside, on);
        continue;
      }
      records.push(frame);
      if (here !== null && !isSaid(frame)) {
        // a line that comes after this event, even in the same piece, is about what happens now
        live.value = null;
        heard.value = { session_id: here.id, at_ms: Date.now() };
      }
    }
    if (here !== null && records.length > 0) {
      on.records(here, records);
    }
  });
}

type Aside =
  | { readonly type: "live"; readonly run_id: string; readonly text: string }
  | { readonly type: "session.changed"; readonly session: SessionShown; readonly open_asks: number }
  | { readonly type: "session.gone"; readonly session_id: string; readonly open_asks: number }
  | { readonly type: "sessions.stale" };

function aside(frame: Aside, on: LinkListener): void {
  switch (frame.type) {
    case "live":
      live.value = { run_id: frame.run_id, text: frame.text, at_ms: Date.now() };
      break;
    case "session.changed":
      countAsks(frame.open_asks);
      putRow(frame.session);
      break;
    case "session.gone":
      countAsks(frame.open_asks);
      dropRow(frame.session_id);
      if (followed?.id === frame.session_id) {
        on.gone(frame.session_id);
      }
      break;
    case "sessions.stale":
      void refreshSessions();
      break;
    default:
      // A frame of a newer server is none of this page's business.
      frame satisfies never;
  }
}
