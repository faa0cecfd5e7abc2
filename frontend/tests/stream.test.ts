/** The stream against a world in which time and the network are in the test's hands. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  EventStream,
  type Frame,
  FrameReader,
  SILENCE_MS,
  type StreamState,
  type World,
} from "../src/stream.ts";

interface Timer {
  readonly atMs: number;
  readonly work: () => void;
}

/** A network whose connections wait for the test to answer them, and a clock that it moves. */
class FakeWorld implements World {
  nowMs = 0;
  setBackMs = 0;
  readonly asked: { url: string; answer: (response: Response | Error) => void; signal: AbortSignal }[] = [];
  readonly #timers = new Set<Timer>();

  fetch(url: string, init: RequestInit): Promise<Response> {
    return new Promise((resolve, reject) => {
      const signal = init.signal as AbortSignal;
      signal.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
      this.asked.push({
        url,
        signal,
        answer: (given) => (given instanceof Error ? reject(given) : resolve(given)),
      });
    });
  }
  setTimeout(work: () => void, ms: number): unknown {
    const timer = { atMs: this.nowMs + ms, work };
    this.#timers.add(timer);
    return timer;
  }
  clearTimeout(timer: unknown): void {
    this.#timers.delete(timer as Timer);
  }
  now(): number {
    return this.nowMs - this.setBackMs;
  }
  random(): number {
    return 0.5;
  }
  /** Lets time pass, and what is due happen. */
  async pass(ms: number): Promise<void> {
    this.nowMs += ms;
    for (const timer of [...this.#timers].filter((one) => one.atMs <= this.nowMs)) {
      this.#timers.delete(timer);
      timer.work();
    }
    await settled();
  }
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) {
    await Promise.resolve();
  }
  await new Promise((resolve) => setImmediate(resolve));
}

class Line {
  readonly states: StreamState[] = [];
  readonly seqs: number[] = [];
  readonly refusals: number[] = [];
  readonly world = new FakeWorld();
  readonly stream = new EventStream(
    {
      address: () => `/events?after=${this.seqs.at(-1) ?? 0}`,
      frames: (frames: readonly Frame[]) => this.seqs.push(...frames.flatMap((frame) => frame.seq ?? [])),
      state: (state) => this.states.push(state),
      refused: (status) => this.refusals.push(status),
    },
    this.world,
  );

  /** Answers the newest connection with a body that the test writes. */
  async answer(): Promise<ReadableStreamDefaultController<Uint8Array>> {
    let body: ReadableStreamDefaultController<Uint8Array> | null = null;
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        body = controller;
      },
    });
    this.world.asked.at(-1)?.answer(new Response(stream));
    await settled();
    assert.ok(body);
    return body;
  }

  async refuse(status: number): Promise<void> {
    this.world.asked.at(-1)?.answer(new Response("{}", { status }));
    await settled();
  }
}

const bytes = (text: string) => new TextEncoder().encode(text);
const frame = (seq: number) => bytes(`id: ${seq}\ndata: {"seq":${seq},"type":"queue.paused","at_ms":0}\n\n`);

test("frames are cut wherever the network cuts them, and comments are none", () => {
  const text = ': keepalive\n\nid: 1\ndata: {"seq":1,"type":"ä"}\n\ndata: {"type":"live"}\n\n';
  for (let cut = 0; cut <= text.length; cut += 1) {
    const reader = new FrameReader();
    const frames = [...reader.read(text.slice(0, cut)), ...reader.read(text.slice(cut))];
    assert.deepEqual(frames, [{ seq: 1, type: "ä" }, { type: "live" }]);
  }
});

test("data in several lines is one, and a block without any is none", () => {
  const text =
    'data: {"type":\ndata: "live"}\nid: 3\n\nid: 4\n\n: "data:"\n\nevent: x\ndata: {"seq":5}\nretry: 1\n\n';
  assert.deepEqual(new FrameReader().read(text), [{ type: "live" }, { seq: 5 }]);
});

test("a line that breaks is taken up again after the last event that came", async () => {
  const line = new Line();
  line.stream.open();
  const body = await line.answer();
  body.enqueue(frame(1));
  body.enqueue(frame(2));
  await settled();
  body.error(new TypeError("reset"));
  await settled();
  assert.deepEqual(line.states, ["connecting", "live", "reconnecting"]);
  await line.world.pass(300);
  assert.equal(line.world.asked.at(-1)?.url, "/events?after=2");
  await line.answer();
  assert.equal(line.states.at(-1), "live");
  assert.deepEqual(line.seqs, [1, 2]);
});

test("a server that is away is asked at growing intervals, and at once after a success", async () => {
  const line = new Line();
  line.stream.open();
  for (const wait of [300, 600, 1200, 2400, 4800, 5000, 5000]) {
    const before = line.world.asked.length;
    line.world.asked.at(-1)?.answer(new TypeError("refused"));
    await settled();
    await line.world.pass(wait - 1);
    assert.equal(line.world.asked.length, before);
    await line.world.pass(1);
    assert.equal(line.world.asked.length, before + 1);
  }
  (await line.answer()).close();
  await settled();
  const before = line.world.asked.length;
  await line.world.pass(300);
  assert.equal(line.world.asked.length, before + 1);
});

test("a busy server is asked again, one that says no is not", async () => {
  const line = new Line();
  line.stream.open();
  await line.refuse(503);
  await line.world.pass(300);
  assert.equal(line.world.asked.length, 2);
  await line.refuse(404);
  await line.world.pass(60_000);
  assert.deepEqual([line.world.asked.length, line.refusals], [2, [404]]);
});

test("a line without even a heartbeat is dead, one with heartbeats is not", async () => {
  const line = new Line();
  line.stream.open();
  const body = await line.answer();
  for (let beat = 0; beat < 10; beat += 1) {
    await line.world.pass(SILENCE_MS - 1);
    body.enqueue(bytes(": keepalive\n\n"));
    await settled();
  }
  assert.equal(line.world.asked.length, 1);
  await line.world.pass(SILENCE_MS);
  await line.world.pass(300);
  assert.equal(line.world.asked.length, 2);
  assert.ok(line.world.asked[0]?.signal.aborted);
});

test("after a sleep a quiet line is not trusted, and a lively one is", async () => {
  const line = new Line();
  line.stream.open();
  await line.answer();
  line.world.nowMs += 5_000;
  line.stream.wake(20_000);
  assert.equal(line.world.asked.length, 1);
  line.world.nowMs += 20_000;
  line.stream.wake(20_000);
  assert.equal(line.world.asked.length, 2);
  assert.equal(line.states.at(-1), "reconnecting");
});

test("a clock that is set back hides no dead line", async () => {
  for (const notice of ["by itself", "by waking up"]) {
    const line = new Line();
    line.stream.open();
    await line.answer();
    line.world.setBackMs = 3_600_000;
    if (notice === "by itself") {
      await line.world.pass(SILENCE_MS);
      await line.world.pass(300);
    } else {
      line.stream.wake(20_000);
    }
    assert.equal(line.world.asked.length, 2, notice);
  }
});

test("a stream that was closed says nothing more", async () => {
  const line = new Line();
  line.stream.open();
  const body = await line.answer();
  line.stream.close();
  body.enqueue(frame(1));
  await settled();
  line.stream.wake(0);
  await line.world.pass(60_000);
  assert.deepEqual([line.seqs, line.world.asked.length], [[], 1]);
});
