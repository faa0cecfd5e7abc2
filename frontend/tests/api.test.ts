/** Requests against a server that is slow, breaks off or answers with something else. */

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { call, type Result, uploadFile } from "../src/api.ts";
import type { Part } from "../src/events.ts";
import { settled } from "./browser.ts";

let asked: AbortSignal;
let answer: (given: Response) => void;

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
  Object.assign(globalThis, {
    fetch: (_: string, { signal }: { signal: AbortSignal }) =>
      new Promise<Response>((resolve, reject) => {
        asked = signal;
        answer = resolve;
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
  });
});

/** An answer whose body the test writes. */
function growing(): { given: Response; body: ReadableStreamDefaultController<Uint8Array> } {
  let body: ReadableStreamDefaultController<Uint8Array> | null = null;
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => {
      body = controller;
    },
  });
  assert.ok(body);
  return { given: new Response(stream), body };
}

function trouble(result: Result<unknown>): string {
  return result.ok ? "" : result.trouble.message;
}

test("a server that says nothing for half a minute is given up", async () => {
  const asking = call("GET", "/slow");
  mock.timers.tick(29_999);
  assert.equal(asked.aborted, false);
  mock.timers.tick(1);
  assert.equal(trouble(await asking), "Can't reach the server.");
});

test("a long answer may take minutes, and one that breaks off is none", async () => {
  for (const ends of [true, false]) {
    const asking = call("GET", "/long");
    const { given, body } = growing();
    answer(given);
    await settled();
    mock.timers.tick(120_000);
    assert.equal(asked.aborted, false);
    body.enqueue(new TextEncoder().encode('{"long": 1}'));
    if (ends) {
      body.close();
      assert.deepEqual(await asking, { ok: true, value: { long: 1 } });
    } else {
      body.error(new TypeError("network error"));
      assert.equal(trouble(await asking), "Can't reach the server.");
    }
  }
});

test("an answer that does not end in three minutes is given up", async () => {
  const asking = call("GET", "/endless");
  const { given, body } = growing();
  answer(given);
  await settled();
  mock.timers.tick(179_999);
  assert.equal(asked.aborted, false);
  mock.timers.tick(1);
  assert.equal(asked.aborted, true);
  body.error(asked.reason);
  assert.equal(trouble(await asking), "Can't reach the server.");
});

test("an answer that is no JSON is said to be unreadable, and none at all is fine", async () => {
  const asking = call("GET", "/portal");
  answer(new Response("<html>Welcome to our network</html>"));
  assert.equal(trouble(await asking), "The server returned an invalid response.");
  const refused = call("GET", "/big");
  const safari = new Response("<html>", { status: 413 });
  safari.json = () => Promise.reject(new DOMException("The string did not match", "SyntaxError"));
  answer(safari);
  const result = await refused;
  assert.equal(result.ok ? 200 : result.trouble.status, 413);
  const nothing = call("DELETE", "/one");
  answer(new Response(null, { status: 204 }));
  assert.deepEqual(await nothing, { ok: true, value: null });
});

/** The parts of a browser's request that an upload uses; the test says what becomes of it. */
class Request {
  static last: Request;
  readonly upload: { onprogress: (event: { loaded: number; total: number }) => void } = {
    onprogress: () => {},
  };
  onabort = (): void => {};
  onerror = (): void => {};
  onload = (): void => {};
  onloadend = (): void => {};
  status = 0;
  response: unknown = null;
  isAborted = false;

  constructor() {
    Request.last = this;
  }
  open(): void {}
  setRequestHeader(): void {}
  send(): void {}
  abort(): void {
    this.isAborted = true;
    this.onabort();
    this.onloadend();
  }
  fail(): void {
    this.onerror();
    this.onloadend();
  }
}

function uploading(file = new File(["abc"], "a.txt")): { part: Promise<Result<Part>>; told: number[] } {
  Object.assign(globalThis, { XMLHttpRequest: Request });
  const told: number[] = [];
  return { part: uploadFile(file, (share) => told.push(share)), told };
}

test("an upload may take as long as it gets on, and is given up after three minutes of silence", async () => {
  const { part, told } = uploading();
  for (const loaded of [1, 2, 3]) {
    mock.timers.tick(179_999);
    assert.equal(Request.last.isAborted, false);
    Request.last.upload.onprogress({ loaded, total: 4 });
  }
  assert.deepEqual(told, [0.25, 0.5, 0.75]);
  mock.timers.tick(179_999);
  assert.equal(Request.last.isAborted, false);
  mock.timers.tick(1);
  assert.equal(Request.last.isAborted, true);
  assert.equal(trouble(await part), "Can't reach the server.");
});

test("an upload that never begins is given up too, and one that is over is left alone", async () => {
  const never = uploading();
  mock.timers.tick(180_000);
  assert.equal(trouble(await never.part), "Can't reach the server.");
  const quick = uploading();
  Request.last.status = 200;
  Request.last.response = { blob: "b", media_type: "image/png" };
  Request.last.onload();
  Request.last.onloadend();
  mock.timers.tick(180_000);
  assert.equal(Request.last.isAborted, false);
  const value = { kind: "image", blob: "b", media_type: "image/png", name: "a.txt" };
  assert.deepEqual(await quick.part, { ok: true, value });
});

test("an upload says whether the server or the file is out of reach", async () => {
  const { part } = uploading();
  Request.last.fail();
  assert.equal(trouble(await part), "Can't reach the server.");
  const gone = new File(["abc"], "a.txt");
  gone.slice = () => {
    const blob = new Blob();
    blob.arrayBuffer = () => Promise.reject(new DOMException("gone", "NotFoundError"));
    return blob;
  };
  const vanished = uploading(gone);
  Request.last.fail();
  assert.equal(trouble(await vanished.part), "Can't read this file.");
});
