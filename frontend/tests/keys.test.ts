/** The keyboard's table: which keys mean what, where. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { caps, commandOf, hint, isBare, isBrowserFind, type Pressed, SHORTCUTS } from "../src/keys.ts";

const key = (name: string, held: Partial<Pressed> = {}): Pressed => ({
  key: name,
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  shiftKey: false,
  ...held,
});
const reading = { isMac: false, isTyping: false, bareKeys: true };
const typing = { ...reading, isTyping: true };

test("a letter is a command while nobody types, and a letter while someone does", () => {
  assert.equal(commandOf(key("n"), reading), "new");
  assert.equal(commandOf(key("n"), typing), null);
  assert.equal(commandOf(key("?", { shiftKey: true }), reading), "help");
  assert.equal(commandOf(key("?", { shiftKey: true }), typing), null);
});

test("single keys can be switched off, and every command still has a key", () => {
  const off = { ...reading, bareKeys: false };
  for (const bare of ["n", "/", "c", "t", "?"]) assert.equal(commandOf(key(bare), off), null);
  assert.equal(commandOf(key("k", { ctrlKey: true }), off), "search");
  assert.ok(SHORTCUTS.every(({ keys }) => keys.some((one) => !isBare(one))));
});

test("a combination counts while someone types, too", () => {
  assert.equal(commandOf(key("k", { ctrlKey: true }), typing), "search");
  assert.equal(commandOf(key("ArrowDown", { altKey: true }), typing), "next");
  assert.equal(commandOf(key(".", { ctrlKey: true }), typing), "stop");
});

test("the browser's own search is seen and is no command", () => {
  assert.equal(isBrowserFind(key("f", { ctrlKey: true }), false), true);
  assert.equal(isBrowserFind(key("f", { metaKey: true }), true), true);
  assert.equal(isBrowserFind(key("f", { ctrlKey: true, shiftKey: true }), false), false);
  assert.equal(isBrowserFind(key("f"), false), false);
  assert.equal(commandOf(key("f", { ctrlKey: true }), reading), null);
  assert.equal(commandOf(key("F", { ctrlKey: true, shiftKey: true }), typing), "find");
});

test("the same key with more or other modifiers held is something else", () => {
  assert.equal(commandOf(key("k", { ctrlKey: true, shiftKey: true }), typing), null);
  assert.equal(commandOf(key("k", { ctrlKey: true, altKey: true }), typing), null);
  assert.equal(commandOf(key("n", { shiftKey: true }), reading), null);
  assert.equal(commandOf(key("O", { ctrlKey: true, shiftKey: true }), typing), "new");
});

test("a mark counts with or without Shift, since keyboards differ", () => {
  assert.equal(commandOf(key("/"), reading), "search");
  assert.equal(commandOf(key("/", { shiftKey: true }), reading), "search");
});

test("on a Mac the Command key takes the place of Control", () => {
  const mac = { ...typing, isMac: true };
  assert.equal(commandOf(key("k", { metaKey: true }), mac), "search");
  assert.equal(commandOf(key("k", { ctrlKey: true }), mac), null);
  assert.equal(hint("search", true), "⌘K");
  assert.equal(hint("search", false), "Ctrl+K");
});

test("letters that are still being composed are no command", () => {
  assert.equal(commandOf(key("n", { isComposing: true }), reading), null);
});

test("no combination means two commands", () => {
  const all = SHORTCUTS.flatMap((shortcut) => shortcut.keys);
  assert.equal(new Set(all).size, all.length);
  assert.deepEqual(caps("alt+arrowup", false), ["Alt", "↑"]);
});
