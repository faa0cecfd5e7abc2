/** When what changed comes to the screen. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { forReaders } from "../src/state/frames.ts";
import "./browser.ts";

test("what changed is shown at once where someone looks, and once in a while where nobody does", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let shown = 0;
  const show = forReaders(() => {
    shown += 1;
  });
  show();
  show();
  assert.equal(shown, 2);
  Object.assign(document, { visibilityState: "hidden" });
  for (let change = 0; change < 60; change += 1) {
    show();
  }
  assert.equal(shown, 2);
  mock.timers.tick(1000);
  assert.equal(shown, 3);
  show();
  mock.timers.tick(1000);
  assert.equal(shown, 4, "the last change is never left out");
  Object.assign(document, { visibilityState: "visible" });
  mock.timers.reset();
});
