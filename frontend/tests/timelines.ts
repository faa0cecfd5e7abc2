/** Compares the page's timelines of the golden logs with those of the server (a file that is named). */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { timeline, totalMs } from "../src/timeline.ts";
import { logOf } from "./golden.ts";

const given: Record<string, unknown> = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8"));
for (const [name, expected] of Object.entries(given)) {
  const made = timeline(logOf(name));
  assert.deepEqual({ ...made, total_ms: totalMs(made) }, expected, name);
}
process.stdout.write(`${Object.keys(given).length}\n`);
