/** One stream of events from the server, kept open: it reconnects at its cursor and notices a dead line.
 *
 * The stream is read by fetch, since EventSource shows neither the status of a refusal nor the heartbeats
 * by which a line that a sleeping laptop lost is told from one on which nothing happens.
 */

import { pageHeader } from "./api.ts";
import type { LogRecord } from "./events.ts";
import { MOUNT } from "./mount.ts";

/** A frame with a seq is an event of the log; one without is said aside and never stored. */
export type Frame = LogRecord | { readonly type: string; readonly seq?: never };

export type StreamState = "connecting" | "live" | "reconnecting";

export interface StreamListener {
  /** Where to connect: the address holds the cursor, so it is asked for at each connection. */
  address(): string;
  /** Frames in their order, as many as came at once. */
  frames(frames: readonly Frame[]): void;
  state(state: StreamState): void;
  /** The server says no (401, 404): the stream is over. */
  refused(status: number): void;
}

/** The parts of the world that a test replaces. */
export interface World {
  fetch(url: string, init: RequestInit): Promise<Response>;
  setTimeout(work: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
  now(): number;
  random(): number;
}

// The server says something at least every 15 seconds.
export const SILENCE_MS = 40_000;
const FIRST_WAIT_MS = 300;
const WAIT_MS_MAX = 5_000;
const REFUSALS: ReadonlySet<number> = new Set([401, 403, 404]);

const BROWSER: World = {
  fetch: (url, init) => fetch(MOUNT + url, init),
  setTimeout: (work, ms) => setTimeout(work, ms),
  clearTimeout: (timer) => clearTimeout(timer as number),
  now: () => Date.now(),
  random: () => Math.random(),
};

/** Cuts a text that comes in pieces into frames; comments are dropped. */
export class FrameReader {
  #rest = "";

  read(piece: string): Frame[] {
    const text = this.#rest + piece;
    const frames: Frame[] = [];
    let from = 0;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n", from)) {
      const data = dataOf(text.slice(from, end));
      if (data !== "") {
        frames.push(JSON.parse(data) as Frame);
      }
      from = end + 2;
    }
    this.#rest = text.slice(from);
    return frames;
  }
}

/** What the lines of a block carry; nearly always that is its last line alone. */
function dataOf(block: string): string {
  const at = block.startsWith("data:") ? 0 : block.indexOf("\ndata:") + 1;
  if (block.startsWith("data:", at) && !block.includes("\n", at)) {
    return block.slice(at + 5);
  }
  const lines = block.split("\n").filter((line) => line.startsWith("data:"));
  return lines.map((line) => line.slice(5)).join("\n");
}

export class EventStream {
  readonly #on: StreamListener;
  readonly #world: World;
  #connection: AbortController | null = null;
  #timer: unknown = null;
  #heardMs = 0;
  #failures = 0;
  #isOver = false;

  constructor(on: StreamListener, world: World = BROWSER) {
    this.#on = on;
    this.#world = world;
  }

  open(): void {
    this.#on.state("connecting");
    this.#connect();
  }

  close(): void {
    this.#isOver = true;
    this.#drop();
  }

  /** Lets the line go until something wakes it. */
  rest(): void {
    this.#drop();
  }

  /** Something woke up (the network, the tab): do not wait, and do not trust a line that has been quiet. */
  wake(quietMs: number): void {
    const waits = this.#connection === null;
    if (!this.#isOver && (waits || Math.abs(this.#world.now() - this.#heardMs) > quietMs)) {
      this.#failures = 0;
      this.#drop();
      this.#on.state("reconnecting");
      this.#connect();
    }
  }

  #drop(): void {
    this.#world.clearTimeout(this.#timer);
    this.#connection?.abort();
    this.#connection = null;
  }

  #connect(): void {
    const connection = new AbortController();
    this.#connection = connection;
    this.#heardMs = this.#world.now();
    this.#watch(connection, SILENCE_MS);
    void this.#read(connection).finally(() => {
      if (this.#connection === connection && !this.#isOver) {
        this.#again();
      }
    });
  }

  /** Looks when the line would be dead, were nothing heard until then; what comes in costs no timer. */
  #watch(connection: AbortController, ms: number): void {
    this.#timer = this.#world.setTimeout(() => {
      const leftMs = this.#heardMs + SILENCE_MS - this.#world.now();
      if (this.#connection !== connection) {
        return;
      }
      // More than that is left if the clock was set back: then nobody knows how long it was quiet.
      if (leftMs > 0 && leftMs <= SILENCE_MS) {
        this.#watch(connection, leftMs);
      } else {
        this.#again();
      }
    }, ms);
  }

  #again(): void {
    this.#drop();
    this.#on.state("reconnecting");
    const wait = Math.min(WAIT_MS_MAX, FIRST_WAIT_MS * 2 ** this.#failures);
    this.#failures += 1;
    this.#timer = this.#world.setTimeout(() => this.#connect(), wait * (0.75 + this.#world.random() / 2));
  }

  async #read(connection: AbortController): Promise<void> {
    const asked = {
      headers: { Accept: "text/event-stream", ...pageHeader() },
      credentials: "same-origin",
      cache: "no-store",
      signal: connection.signal,
    } as const;
    const answer = await this.#world.fetch(this.#on.address(), asked).catch(() => null);
    if (answer === null || this.#connection !== connection) {
      return;
    }
    if (REFUSALS.has(answer.status)) {
      this.close();
      this.#on.refused(answer.status);
    } else if (answer.ok && answer.body !== null) {
      await this.#follow(answer.body.getReader(), connection);
    }
  }

  async #follow(reader: ReadableStreamDefaultReader<Uint8Array>, connection: AbortController): Promise<void> {
    const frames = new FrameReader();
    const decoder = new TextDecoder();
    this.#failures = 0;
    this.#on.state("live");
    for (;;) {
      const piece = await reader.read().catch(() => null);
      if (piece === null || piece.done || this.#connection !== connection) {
        return;
      }
      this.#heardMs = this.#world.now();
      const came = frames.read(decoder.decode(piece.value, { stream: true }));
      if (came.length > 0) {
        this.#on.frames(came);
      }
    }
  }
}
