/** Requests against a server that is slow, breaks off or answers with something else. */

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { call, type Result } from "../src/api.ts";
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
  assert.equal(trouble(await asking), "The server cannot be reached.");
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
      assert.equal(trouble(await asking), "The server cannot be reached.");
    }
  }
});

test("an answer that is no JSON is said to be unreadable, and none at all is fine", async () => {
  const asking = call("GET", "/portal");
  answer(new Response("<html>Welcome to our network</html>"));
  assert.equal(trouble(await asking), "The server's answer cannot be read.");
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
