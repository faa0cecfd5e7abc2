/** What the page offers of plans and goals, with and without the feature. */
import assert from "node:assert/strict";
import { test } from "node:test";
import "../browser.ts";
import { server } from "../../src/state/signals.ts";
import { commands } from "../../src/talk/command_words.ts";

const NO_FEATURES = {
  version: "",
  model: "",
  auth: false,
  scopes: [],
  features: {},
  sandbox: "",
  mode: "",
  modes: [],
};

test("the commands of plans are there if the server has them", () => {
  const names = (): readonly string[] => commands().map(([name]) => name);
  server.value = { ...NO_FEATURES, features: { plans: true } };
  assert.deepEqual(names(), ["/plan", "/goal", "/compact", "/help"]);
  server.value = NO_FEATURES;
  assert.deepEqual(names(), ["/compact", "/help"]);
  server.value = null;
});
