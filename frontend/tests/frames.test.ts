/** When what changed comes to the screen. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { atReadersPace } from "../src/state/frames.ts";
import { FRAME_MS, framesDue, nextFrame } from "./browser.ts";

test("the first change after a pause is in the next frame, and many changes are one", () => {
  let shown = 0;
  const show = atReadersPace(() => {
    shown += 1;
  });
  show();
  show();
  assert.equal(framesDue(), 1);
  nextFrame();
  assert.equal(shown, 1);
});

test("changes in a row are shown at a pace, and the last of them is never left out", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let shown = 0;
  const show = atReadersPace(() => {
    shown += 1;
  });
  for (let change = 0; change < 60; change += 1) {
    show();
    nextFrame(FRAME_MS);
    mock.timers.tick(FRAME_MS);
  }
  nextFrame();
  mock.timers.reset();
  assert.ok(shown > 10 && shown < 22, String(shown));
});
