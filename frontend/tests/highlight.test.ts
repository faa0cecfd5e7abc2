/** Highlighting: no character is lost or changed, and the shades are those that a reader expects. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { highlighterOf, type Shade } from "../src/markdown/highlight.ts";
import { languageOf } from "../src/markdown/languages.ts";

function shades(info: string, code: string): [Shade, string][] {
  const highlighter = highlighterOf(languageOf(info).language);
  assert.ok(highlighter !== null);
  return code.split("\n").flatMap((line) => {
    const tokens = highlighter.line(line);
    assert.equal(tokens.map((token) => token.text).join(""), line);
    return tokens
      .filter((token) => token.shade !== "")
      .map((token): [Shade, string] => [token.shade, token.text]);
  });
}

test("Python: keywords, names, strings over several lines, comments", () => {
  assert.deepEqual(
    shades("python", 'def f(x: Thing) -> None:  # why\n    """one\n    two"""\n    return g("a # b", 0x1F)'),
    [
      ["keyword", "def"],
      ["name", "f"],
      ["type", "Thing"],
      ["number", "None"],
      ["comment", "# why"],
      ["string", '"""one'],
      ["string", '    two"""'],
      ["keyword", "return"],
      ["name", "g"],
      ["string", '"a # b"'],
      ["number", "0x1F"],
    ],
  );
});

test("TypeScript: templates and comments that go on", () => {
  assert.deepEqual(shades("ts", "const a = `x\ny`; /* b\nc */ let d"), [
    ["keyword", "const"],
    ["string", "`x"],
    ["string", "y`"],
    ["comment", "/* b"],
    ["comment", "c */"],
    ["keyword", "let"],
  ]);
});

test("Shell: options, variables, a hash inside a word", () => {
  assert.deepEqual(shades("bash", 'ls -l --all "$HOME/x" a#b # note'), [
    ["type", "-l"],
    ["type", "--all"],
    ["string", '"$HOME/x"'],
    ["comment", "# note"],
  ]);
});

test("JSON and YAML: keys are names", () => {
  assert.deepEqual(shades("json", '{"a": "b", "c": 1.5}'), [
    ["name", '"a"'],
    ["string", '"b"'],
    ["name", '"c"'],
    ["number", "1.5"],
  ]);
  assert.deepEqual(shades("yaml", "key: true # x\n- url: http://a"), [
    ["name", "key"],
    ["number", "true"],
    ["comment", "# x"],
    ["name", "- url"],
  ]);
});

test("diffs: by their first sign", () => {
  assert.deepEqual(
    shades("diff", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z").map(([shade]) => shade),
    ["comment", "comment", "hunk", "remove", "add"],
  );
});

test("markup: tags and attributes", () => {
  assert.deepEqual(shades("html", '<a href="x">b</a>'), [
    ["keyword", "<a"],
    ["name", "href"],
    ["string", '"x"'],
    ["keyword", ">"],
    ["keyword", "</a>"],
  ]);
});

test("any line in any language keeps its characters", () => {
  const hostile = [
    "'",
    '"',
    "`",
    "/*",
    "-->",
    "\\",
    "\u{1f680}",
    "é$x",
    "<",
    "#",
    "1e",
    "0x",
    "a".repeat(3000),
    "'".repeat(1999),
    "\\".repeat(1999),
    "",
    "\t ",
  ];
  for (const name of [
    "js",
    "py",
    "sh",
    "sql",
    "c",
    "go",
    "rust",
    "java",
    "rb",
    "php",
    "json",
    "yaml",
    "css",
    "html",
    "diff",
  ])
    shades(name, hostile.join("\n") + hostile.join(""));
});

test("names of languages: as models write them, and as nobody should", () => {
  assert.equal(languageOf("py title=x").title, "Python");
  assert.equal(languageOf("{.rust}").title, "Rust");
  assert.equal(languageOf("Weird").title, "Weird");
  for (const odd of ["", "constructor", "__proto__", "toString"])
    assert.equal(highlighterOf(languageOf(odd).language), null);
});
