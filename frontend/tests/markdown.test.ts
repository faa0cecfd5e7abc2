/** Markdown: what a text means, that it means the same however it arrives, and that no text can do harm. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parseGrowing, parseInline, plainText } from "../src/markdown/inline.ts";
import type { Block, Inline, List } from "../src/markdown/nodes.ts";
import { exact, harmless, hostBehind, inlineImage, plainOutput, safeHref } from "../src/markdown/safe.ts";
import { sentencesOf } from "../src/markdown/spoken.ts";
import { MarkdownStream, parseBlocks } from "../src/markdown/stream.ts";

/** The tree in one line: readable in an assertion. */
function sketch(blocks: readonly Block[]): string {
  return blocks.map(sketchBlock).join(" ");
}

function sketchBlock(block: Block): string {
  switch (block.kind) {
    case "paragraph":
      return `p(${[...block.settled, block.text].map((text) => sketchInline(parseInline(text))).join("")})`;
    case "heading":
      return `h${block.level}(${sketchInline(parseInline(block.text))})`;
    case "code":
      return `code${block.info ? `:${block.info}` : ""}(${JSON.stringify(block.text)})`;
    case "table":
      return `table[${block.align.map((align) => align || "-").join(",")}](${[block.head, ...block.rows].map((row) => row.join("|")).join(" / ")})`;
    case "rule":
      return "hr";
    case "quote":
      return `quote(${sketch(block.children)})`;
    case "maths":
      return `${block.closed ? "maths" : "open-maths"}(${JSON.stringify(block.text)})`;
    case "note":
      return `note:${block.label}(${sketch(block.children)})`;
    case "details":
      return `details:${block.summary}(${sketch(block.children)})`;
    case "list":
      return `${block.ordered ? `ol${block.start}` : "ul"}${block.loose ? "~" : ""}(${block.children.map((item) => `${item.task ? `[${item.task}]` : ""}${sketch(item.children)}`).join("; ")})`;
  }
}

function sketchInline(parts: readonly Inline[]): string {
  return parts
    .map((part) => {
      switch (part.kind) {
        case "text":
          return part.text;
        case "code":
          return `<c>${part.text}</c>`;
        case "break":
          return "<br>";
        case "image":
          return `<img ${part.src} ${part.alt}>`;
        case "maths":
          return `<m${part.display ? "d" : ""} ${part.text}>`;
        case "note":
          return `<note ${part.label}>`;
        case "link":
          return `<a ${part.href}>${sketchInline(part.children)}</a>`;
        default:
          return `<${part.kind}>${sketchInline(part.children)}</${part.kind}>`;
      }
    })
    .join("");
}

function table(
  name: string,
  cases: readonly (readonly [string, string])[],
  how: (text: string) => string,
): void {
  describe(name, () => {
    for (const [text, wanted] of cases) test(JSON.stringify(text), () => assert.equal(how(text), wanted));
  });
}

table(
  "blocks",
  [
    ["", ""],
    ["hello", "p(hello)"],
    ["one\ntwo", "p(one<br>two)"],
    ["one\n\ntwo", "p(one) p(two)"],
    ["one  \ntwo\\\nthree", "p(one<br>two<br>three)"],
    ["one\r\ntwo\rthree", "p(one<br>two<br>three)"],
    ["# One\n###### Six ##\n####### seven", "h1(One) h6(Six) p(####### seven)"],
    ["#no heading", "p(#no heading)"],
    ["# *a* `#`", "h1(<em>a</em> <c>#</c>)"],
    ["Title\n===\nSub\n---", "h1(Title) h2(Sub)"],
    ["---\n***\n_ _ _", "hr hr hr"],
    ["a\n***\nb", "p(a) hr p(b)"],
    ["```py\nx = 1\n\n  y\n```\nafter", 'code:py("x = 1\\n\\n  y") p(after)'],
    ["~~~\n```\n~~~", 'code("```")'],
    ["````\n```\n````", 'code("```")'],
    ["```\nnever closed", 'code("never closed")'],
    ["``` a`b", "p(``` a`b)"],
    ["```make\n\ttab kept\n```", 'code:make("\\ttab kept")'],
    ["  ```\n  x\n    y\n  ```", 'code("x\\n  y")'],
    ["    indented\n\n      more\n\nout", 'code("indented\\n\\n  more") p(out)'],
    ["text\n    not code", "p(text<br>not code)"],
    ["> a\n> b\n\nc", "quote(p(a<br>b)) p(c)"],
    ["> a\nlazy", "quote(p(a<br>lazy))"],
    ["> a\n>\n> - b\n>> c", "quote(p(a) ul(p(b)) quote(p(c)))"],
    ["> ```\n> x\nout", 'quote(code("x")) p(out)'],
    ["- a\n- b", "ul(p(a); p(b))"],
    ["- a\n\n- b", "ul~(p(a); p(b))"],
    ["- a\n\n  more", "ul~(p(a) p(more))"],
    ["* a\n+ b", "ul(p(a)) ul(p(b))"],
    ["3. a\n4. b", "ol3(p(a); p(b))"],
    ["1) a\n\n2. b", "ol1(p(a)) ol2(p(b))"],
    ["- a\n  - b\n    - c\n- d", "ul(p(a) ul(p(b) ul(p(c))); p(d))"],
    ["1. a\n   ```sh\n   ls\n   ```\n2. b", 'ol1(p(a) code:sh("ls"); p(b))'],
    ["- [ ] todo\n- [x] done\n- [y] text", "ul([todo]p(todo); [done]p(done); p([y] text))"],
    ["- a\nlazy\n- b", "ul(p(a<br>lazy); p(b))"],
    ["text\n- a", "p(text) ul(p(a))"],
    ["text\n2. a", "p(text<br>2. a)"],
    ["- a\n\ntext", "ul(p(a)) p(text)"],
    ["-\n- b", "ul(; p(b))"],
    ["- > q\n  > r", "ul(quote(p(q<br>r)))"],
    ["* ---", "ul(hr)"],
    ["- - -", "hr"],
    ["-\ta", "ul(p(a))"],
    ["| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |\n\nx", "table[-,center](a|b / 1|2 / 3|) p(x)"],
    ["a | b\n:-- | --:\n1 | 2 | 3", "table[left,right](a|b / 1|2)"],
    ["intro\n| a |\n|---|\n| x \\| y |", "p(intro) table[-](a / x | y)"],
    ["| a | b |\n|---|", "p(| a | b |<br>|---|)"],
    ["| a |\n|---|\n| b |\n> q", "table[-](a / b) quote(p(q))"],
    ["<div onclick=x>\n<script>alert(1)</script>", "p(<div onclick=x><br><script>alert(1)</script>)"],
    ["[a]: https://example.com", "p([a]: <a https://example.com/>https://example.com</a>)"],
  ],
  (text) => sketch(parseBlocks(text)),
);

table(
  "inline parts",
  [
    ["*a* **b** ***c***", "<em>a</em> <strong>b</strong> <em><strong>c</strong></em>"],
    ["_a_ __b__ snake_case_name", "<em>a</em> <strong>b</strong> snake_case_name"],
    ["a * b * c 2*3*4", "a * b * c 2<em>3</em>4"],
    ["**a *b* c**", "<strong>a <em>b</em> c</strong>"],
    ["*a **b* c**", "<em>a <em><em>b</em> c</em></em>"],
    ["**unclosed", "**unclosed"],
    ["~~gone~~ ~one~ ~~~three~~~", "<strike>gone</strike> <strike>one</strike> ~~~three~~~"],
    ["`a*b*` ``x ` y`` ` lone", "<c>a*b*</c> <c>x ` y</c> ` lone"],
    ["`` ` ``", "<c>`</c>"],
    ["\\*a\\* \\a \\\\", "*a* \\a \\"],
    ["&amp; &lt;b&gt; &copy; &#65; &#x42; &nope; &", "& <b> \u00a9 A B &nope; &"],
    ["&#8238;x &#0; &#27;", "\ufffdx \ufffd \ufffd"],
    ["[a](https://example.com)", "<a https://example.com/>a</a>"],
    ['[a *b*](<https://example.com/x y> "title")', "<a https://example.com/x%20y>a <em>b</em></a>"],
    ['[a](https://example.com/(x) "title")', "<a https://example.com/(x)>a</a>"],
    ["[a](javascript:alert(1))", "a"],
    [
      "[a](JaVaScRiPt:alert(1)) [b](data:text/html,x) [c](/relative) [d](//host) [e](vbscript:x)",
      "a b c d e",
    ],
    ["[a](\u0001javascript:x) [b](java\nscript:x)", "a [b](java<br>script:x)"],
    ["[a](mailto:me@example.com)", "<a mailto:me@example.com>a</a>"],
    ["[[x]](https://a.b) [1] [ ]", "<a https://a.b/>[x]</a> [1] [ ]"],
    ["[a [b](https://b.c) d](https://e.f)", "[a <a https://b.c/>b</a> d](<a https://e.f/>https://e.f</a>)"],
    ["![alt](https://a.b/c.png)", "<img https://a.b/c.png alt>"],
    ["![alt](javascript:x)", "alt"],
    ["[![i](https://a.b/c.png)](https://d.e)", "<a https://d.e/><img https://a.b/c.png i></a>"],
    [
      "see https://a.b/c(d), or www.e.f.",
      "see <a https://a.b/c(d)>https://a.b/c(d)</a>, or <a https://www.e.f/>www.e.f</a>.",
    ],
    ["(https://a.b/c) xhttps://no.link", "(<a https://a.b/c>https://a.b/c</a>) xhttps://no.link"],
    [
      "[https://a.b](https://c.d/e) [www.a.b]",
      "<a https://c.d/e>https://a.b</a> [<a https://www.a.b/>www.a.b</a>]",
    ],
    [
      "ask me.you+x@a.b.org. or @you, a@b",
      "ask <a mailto:me.you+x@a.b.org>me.you+x@a.b.org</a>. or @you, a@b",
    ],
    ["[mail me@a.org](https://c.d) `x@a.org`", "<a https://c.d/>mail me@a.org</a> <c>x@a.org</c>"],
    ["**https://a.b**", "<strong><a https://a.b/>https://a.b</a></strong>"],
    ["<https://a.b> <me@a.b> <b>", "<a https://a.b/>https://a.b</a> <a mailto:me@a.b>me@a.b</a> <b>"],
    ["a<br>b<br/>c", "a<br>b<br>c"],
    ["*привет*世界*你好*", "<em>привет</em>世界<em>你好</em>"],
    ["5 < 6 && 7 > 3", "5 < 6 && 7 > 3"],
  ],
  (text) => sketchInline(parseInline(text)),
);

table(
  "a text that goes on is shown as if it were closed",
  [
    ["**bol", "<strong>bol</strong>"],
    ["a *b", "a <em>b</em>"],
    ["a **", "a "],
    ["run `ls -l", "run <c>ls -l</c>"],
    ["run `", "run "],
    ["see [the docs](https://exam", "see the docs"],
    ["see [the docs](https://a.b) and **m", "see <a https://a.b/>the docs</a> and <strong>m</strong>"],
    ["2 * 3", "2 * 3"],
    ["~~no", "<strike>no</strike>"],
  ],
  (text) => sketchInline(parseGrowing(text)),
);

const EVERYTHING = `# Title

A *paragraph* with **bold**, \`code\`, a [link](https://example.com) and
two lines.

- one
- two
  - nested

    loose
- [x] done

1. first
   \`\`\`python
   def f(x):
       return "y"
   \`\`\`
2. second

> quoted
lazily
> - list

| a | b |
|---|--:|
| 1 | 2 |
| 3 | 4 |

Setext
------

\`\`\`
open
code
\`\`\`

***

$$
a \\, b
- c
$$

A note[^n] and \\(x_1\\).

[^n]: What it says
    in two lines.

<details>
<summary>More</summary>

- inside

</details>

    indented

after \ud83d\ude80 the end`;

table(
  "maths",
  [
    ["so \\(a+b\\) is", "p(so <m a+b> is)"],
    ["\\(a\\,b\\) and \\[c \\;d\\]", "p(<m a\\,b> and <md c \\;d>)"],
    ["the $x$-axis, $n$ and $a_1 + b^{2}$.", "p(the <m x>-axis, <m n> and <m a_1 + b^{2}>.)"],
    ["in text $$x^2$$ goes", "p(in text <md x^2> goes)"],
    // prices and variables
    ["costs $5 and $6", "p(costs $5 and $6)"],
    ["$5-$6, US$7, A$8 or 9$", "p($5-$6, US$7, A$8 or 9$)"],
    ["$5 for the first and 6$.", "p($5 for the first and 6$.)"],
    ["$HOME/$USER and $PATH", "p($HOME/$USER and $PATH)"],
    ["\\$5 and 6\\$", "p($5 and 6$)"],
    ["`$a$` and $`b`$", "p(<c>$a$</c> and $<c>b</c>$)"],
    ["a $ b $ c", "p(a $ b $ c)"],
    // brackets that are meant as such
    ["\\[not a link\\](https://a.example)", "p([not a link](<a https://a.example/>https://a.example</a>))"],
    ["see \\[1\\] and \\[x = 1\\]", "p(see [1] and <md x = 1>)"],
    ["\\(open", "p((open)"],
    ["cut \\(c\\,d *a*", "p(cut \\(c\\,d *a*)"],
    ["*a \\(b*c\\) d*", "p(<em>a <m b*c> d</em>)"],
    // blocks
    ["$$\na = b\n- c\n= d\n$$", 'maths("$$\\na = b\\n- c\\n= d\\n$$")'],
    ["\\[\nx \\\\[2pt]\ny\n\\]\nafter", 'maths("\\\\[\\nx \\\\\\\\[2pt]\\ny\\n\\\\]") p(after)'],
    ["It is:\n$$x$$\nso", 'p(It is:) maths("$$x$$") p(so)'],
    ["$$x$$ and more", "p(<md x> and more)"],
    ["- item\n  $$\n  x\n  $$\n- next", 'ul(p(item) maths("$$\\nx\\n$$"); p(next))'],
    // nothing is lost if nothing closes it
    ["$$\nx\n\n*after*", "p($$<br>x) p(<em>after</em>)"],
    ["$$", "p($$)"],
    ["```\n$$\nx\n$$\n```", 'code("$$\\nx\\n$$")'],
  ],
  (text) => sketch(parseBlocks(text)),
);

table(
  "footnotes and parts that fold",
  [
    ["a[^1] b\n\n[^1]: one *x*\n[^2]: two", "p(a<note 1> b) note:1(p(one <em>x</em>)) note:2(p(two))"],
    ["[^a]: one\n    more\n\n    - list\n\nout", "note:a(p(one<br>more) ul(p(list))) p(out)"],
    ["[^1](https://a.example)", "p(<a https://a.example/>^1</a>)"],
    [
      "<details>\n<summary>More *x*</summary>\n\n- a\n</details>\n\nafter",
      "details:More *x*(ul(p(a))) p(after)",
    ],
    ["<details><summary>S</summary>\ntext\n</details>", "details:S(p(text))"],
    ["<details open>\n<details>\nin\n</details>\nout\n</details>", "details:(details:(p(in)) p(out))"],
    ["<details>\n```\n</details>\n```\n</details>", 'details:(code("</details>"))'],
    ["</details>", "p(</details>)"],
    ["<details onclick=x>", "p(<details onclick=x>)"],
  ],
  (text) => sketch(parseBlocks(text)),
);

test("maths that is under way is its source, and no dollar closes before the next sign is known", () => {
  assert.equal(sketchInline(parseGrowing("so \\(a+b")), "so \\(a+b");
  assert.equal(sketchInline(parseGrowing("so \\(a*b*c\\,d")), "so \\(a*b*c\\,d");
  assert.equal(sketchInline(parseGrowing("so $a$")), "so $a$");
  assert.equal(sketchInline(parseGrowing("so $a$ ")), "so <m a> ");
  const stream = new MarkdownStream();
  stream.push("$$\nx = ");
  assert.equal(sketch(stream.snapshot().blocks), 'open-maths("$$\\nx = ")');
});

describe("a text in pieces", () => {
  test("the settled blocks of every prefix begin the blocks of the whole", () => {
    const whole = parseBlocks(EVERYTHING);
    const stream = new MarkdownStream();
    for (const char of EVERYTHING) {
      stream.push(char);
      const { blocks, settled } = stream.snapshot();
      assert.deepEqual(blocks.slice(0, settled), whole.slice(0, settled));
    }
    stream.end();
    assert.deepEqual(stream.snapshot().blocks, whole);
  });

  test("a settled block stays the same object", () => {
    const stream = new MarkdownStream();
    let before: readonly Block[] = [];
    for (const char of EVERYTHING) {
      stream.push(char);
      const { blocks, settled } = stream.snapshot();
      for (const [at, block] of before.entries()) assert.equal(blocks[at], block);
      before = blocks.slice(0, settled);
    }
    assert.ok(before.length > 8);
  });

  test("a finished item of a growing list stays the same object", () => {
    const stream = new MarkdownStream();
    stream.push("- a\n- b\n- c");
    const first = stream.snapshot().blocks[0] as List;
    stream.push(" and more\n- d");
    const second = stream.snapshot().blocks[0] as List;
    assert.equal(second.children[0], first.children[0]);
    assert.notEqual(second, first);
  });

  test("a snapshot shows the line that is under way and changes nothing", () => {
    const stream = new MarkdownStream();
    stream.push("one\n\ntw");
    assert.equal(sketch(stream.snapshot().blocks), "p(one) p(tw)");
    assert.equal(sketch(stream.snapshot().blocks), "p(one) p(tw)");
    stream.push("o\n");
    assert.equal(sketch(stream.snapshot().blocks), "p(one) p(two)");
  });

  test("cut at any place into three, the whole is the same", () => {
    const whole = parseBlocks(EVERYTHING);
    for (let cut = 0; cut < EVERYTHING.length; cut += 7) {
      const stream = new MarkdownStream();
      for (const piece of [
        EVERYTHING.slice(0, cut),
        EVERYTHING.slice(cut, cut + 5),
        EVERYTHING.slice(cut + 5),
      ])
        stream.push(piece);
      stream.end();
      assert.deepEqual(stream.snapshot().blocks, whole);
    }
  });

  test("a line break in two halves is one", () => {
    const stream = new MarkdownStream();
    stream.push("one\r");
    stream.push("\ntwo");
    stream.end();
    assert.equal(sketch(stream.snapshot().blocks), "p(one<br>two)");
  });

  for (const [text, wanted] of [
    ["text\n-", "p(text)"],
    ["text\n```", "p(text)"],
    ["text\n#", "p(text)"],
    ["- [", ""],
    ["1.", ""],
    ["```\ncode\n``", 'code("code")'],
    ["| a | b |\n", "table[-,-](a|b)"],
    ["| a | b |\n|--", "table[-,-](a|b)"],
    ["42", "p(42)"],
  ] as const)
    test(`what ${JSON.stringify(text)} begins is not shown before it is known`, () => {
      const stream = new MarkdownStream();
      stream.push(text);
      assert.equal(sketch(stream.snapshot().blocks), wanted);
      stream.end();
      assert.notEqual(sketch(stream.snapshot().blocks), "");
    });

  test("random texts mean the same however they arrive", () => {
    const signs = [
      "a",
      "b ",
      "\n",
      "\n\n",
      "- ",
      "1. ",
      "  ",
      "    ",
      "> ",
      "```",
      "|",
      "---",
      "# ",
      "*",
      "`",
      "[x](",
      ")",
      "\t",
      "=",
      "\r",
    ];
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return Math.floor((seed / 2147483648) * below);
    };
    for (let round = 0; round < 300; round++) {
      const text = Array.from({ length: 40 }, () => signs[random(signs.length)]).join("");
      const whole = parseBlocks(text);
      const stream = new MarkdownStream();
      for (let at = 0; at < text.length; ) {
        const size = 1 + random(4);
        stream.push(text.slice(at, at + size));
        at += size;
        const { blocks, settled } = stream.snapshot();
        assert.deepEqual(blocks.slice(0, settled), whole.slice(0, settled), JSON.stringify(text));
      }
      stream.end();
      assert.deepEqual(stream.snapshot().blocks, whole, JSON.stringify(text));
    }
  });
});

test("a text is read aloud sentence by sentence, and no two words become one", () => {
  const text =
    "# Title\n\nFirst *line*\nsecond. Next one! v1.2 ok?\n\n- one\n- two\n\n| a | b |\n|-|-|\n| c | d |\n\n```\nx = 1\n```";
  assert.deepEqual(sentencesOf(text), [
    "Title",
    "First line second.",
    "Next one!",
    "v1.2 ok?",
    "one",
    "two",
    "a, b",
    "c, d",
    "Code.",
    "x = 1",
  ]);
});

describe("hostile texts", () => {
  const MANY = 100_000;
  const repeated = (unit: string) => unit.repeat(Math.ceil(MANY / unit.length)).slice(0, MANY);
  for (const unit of [
    "a",
    "*",
    "**a ",
    "*a _b ",
    "_",
    "`",
    "`a``b",
    "[",
    "[a](",
    "[](a (",
    "](",
    "![",
    "<",
    "<a",
    "http://",
    "http://[",
    "&",
    "\\",
    "~~a",
    "> ",
    "- ",
    "1. ",
    "#",
    "|",
    "| a ",
    "-",
    "=",
    " ",
    "\t",
    "\n",
    "*\n",
    "- a\n",
    "> > a\n",
    "|a|\n|-|\n",
    "```\n",
    "\u202e",
    "\u001b[31m",
    "😀",
    "a@b.co",
    "@",
    "$",
    "$a ",
    "$$ ",
    "$$\n",
    "\\(",
    "\\(a\\)",
    "\\[x^ ",
    "\\[\n",
    "[^",
    "[^a]",
    "[^a]: ",
    "[^a]: b\n",
    "<details>",
    "<details>\n",
    "</details>\n",
  ])
    test(`very much of ${JSON.stringify(unit)} is parsed without ado`, { timeout: 60_000 }, () => {
      const blocks = parseBlocks(repeated(unit));
      let chars = 0;
      const walk = (block: Block): void => {
        if (block.kind === "paragraph")
          for (const text of [...block.settled, block.text]) {
            assert.ok(text.length <= 16_384);
            chars += plainText(parseInline(text)).length + plainText(parseGrowing(text)).length;
          }
        else if (block.kind === "quote" || block.kind === "note" || block.kind === "details")
          block.children.forEach(walk);
        else if (block.kind === "list") for (const item of block.children) item.children.forEach(walk);
      };
      blocks.forEach(walk);
      assert.ok(chars <= 16 * MANY);
    });

  test("a line of a million characters costs its length, not its square", { timeout: 60_000 }, () => {
    const stream = new MarkdownStream();
    let pieces = 0;
    for (let at = 0; at < 1_000_000; at += 500) {
      stream.push("word ".repeat(100));
      const [only] = stream.snapshot().blocks;
      if (only?.kind === "paragraph") pieces = only.settled.length;
    }
    assert.equal(pieces, 61);
  });

  test("a long line keeps every character, wherever it is cut", () => {
    const text = `${"word ".repeat(9_000)}😀${"x".repeat(40_000)}`;
    const stream = new MarkdownStream();
    for (let at = 0; at < text.length; at += 997) stream.push(text.slice(at, at + 997));
    stream.end();
    assert.deepEqual(stream.snapshot().blocks, parseBlocks(text));
    const [only] = parseBlocks(text);
    assert.ok(only?.kind === "paragraph");
    assert.equal([...only.settled, only.text].join(""), text);
  });

  test("deep nesting has a floor", () => {
    const depth = (blocks: readonly Block[]): number =>
      1 + Math.max(0, ...blocks.map((block) => (block.kind === "quote" ? depth(block.children) : 0)));
    assert.ok(depth(parseBlocks(`${">".repeat(500)} deep`)) < 30);
    const inner = (parts: readonly Inline[]): number =>
      1 + Math.max(0, ...parts.map((part) => ("children" in part ? inner(part.children) : 0)));
    assert.ok(inner(parseInline(`${"*a _b ".repeat(200)}c${"_ d*".repeat(200)}`)) < 60);
  });
});

describe("harmless text", () => {
  test("terminal codes become pictures", () => {
    assert.equal(harmless("\u001b[31mred\u0007\u009b\u007f\ta\nb"), "\u241b[31mred\u2407\ufffd\u2421\ta\nb");
  });
  test("direction overrides become visible, letters of right-to-left scripts stay", () => {
    assert.equal(
      harmless("a\u202eb\u2066c\u2069"),
      "a\u27e8U+202E\u27e9b\u27e8U+2066\u27e9c\u27e8U+2069\u27e9",
    );
    assert.equal(harmless("שלום\u200f"), "שלום\u200f");
  });
  test("what is decided upon shows all that cannot be seen", () => {
    assert.equal(
      exact("rm\u200b -r\u00ad\u{e0041} x\r\u001b"),
      "rm\u27e8U+200B\u27e9 -r\u27e8U+00AD\u27e9\u27e8U+E0041\u27e9 x\u240d\u241b",
    );
    assert.equal(exact("a\n\tb"), "a\n\tb");
  });
  test("a program's output loses its colours and its overwritten lines", () => {
    assert.equal(plainOutput("\u001b[1;32mok\u001b[0m \u001b]0;title\u0007x"), "ok x");
    assert.equal(plainOutput("10%\r50%\r100%\ndone\r\nnext\r"), "100%\ndone\nnext");
  });
  test("only three kinds of address are links", () => {
    assert.equal(safeHref(" https://example.com/a?b#c "), "https://example.com/a?b#c");
    for (const bad of [
      "",
      "javascript:x",
      "data:text/html,x",
      "file:///etc/passwd",
      "https://",
      "http:\\\\a",
      "https://a\u202eb",
      "ftp://a",
      "//a",
      `https://a/${"x".repeat(5000)}`,
    ])
      assert.equal(safeHref(bad), "");
  });
  test("only images that the text carries are shown at once", () => {
    assert.equal(inlineImage("data:image/png;base64,AAAA"), "data:image/png;base64,AAAA");
    for (const bad of ["data:image/svg+xml;base64,AAAA", "https://a.b/c.png", "data:image/png,x"])
      assert.equal(inlineImage(bad), "");
  });
  test("a link whose text names another host says where it leads", () => {
    assert.equal(hostBehind("https://evil.example/", "https://bank.example"), "evil.example");
    assert.equal(hostBehind("https://www.bank.example/x", "bank.example/x"), "");
    assert.equal(hostBehind("https://bank.example/", "our bank"), "");
  });
});
