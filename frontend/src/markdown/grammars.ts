/** What the highlighter knows about languages: how comments and strings look, and which words are special. */

export type Grammar = {
  readonly lineComments: readonly string[];
  readonly blockComment: readonly [string, string] | null;
  /** Quotes of strings that end with their line, and of those that may go on. */
  readonly quotes: string;
  readonly longQuotes: readonly string[];
  readonly keywords: ReadonlySet<string>;
  readonly constants: ReadonlySet<string>;
  /** Words are compared in lower case. */
  readonly folded: boolean;
  readonly special: "" | "diff" | "markup" | "keys" | "shell" | "css";
};

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));

const PLAIN: Grammar = {
  lineComments: [],
  blockComment: null,
  quotes: "",
  longQuotes: [],
  keywords: new Set(),
  constants: new Set(),
  folded: false,
  special: "",
};

const C_LIKE: Grammar = {
  ...PLAIN,
  lineComments: ["//"],
  blockComment: ["/*", "*/"],
  quotes: "\"'",
  constants: words("true false null nullptr NULL nil None this self super"),
};

const script: Grammar = {
  ...C_LIKE,
  longQuotes: ["`"],
  keywords: words(
    "abstract as async await break case catch class const continue debugger declare default delete do else enum export extends finally for from function get if implements import in infer instanceof interface is keyof let namespace new of private protected public readonly return satisfies set static switch throw try type typeof unknown var void while with yield any boolean number string never object symbol bigint",
  ),
  constants: words("true false null undefined NaN Infinity this super globalThis"),
};

const python: Grammar = {
  ...PLAIN,
  lineComments: ["#"],
  quotes: "\"'",
  longQuotes: ['"""', "'''"],
  keywords: words(
    "and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try type while with yield",
  ),
  constants: words("True False None self cls __name__"),
};

const shell: Grammar = {
  ...PLAIN,
  lineComments: ["#"],
  longQuotes: ['"', "'"],
  keywords: words(
    "if then else elif fi for while until do done case esac in function select time return exit export local readonly declare set unset source alias cd echo eval exec trap shift sudo FROM RUN CMD COPY ADD ENV ARG WORKDIR EXPOSE ENTRYPOINT USER VOLUME LABEL AS",
  ),
  constants: words("true false"),
  special: "shell",
};

const sql: Grammar = {
  ...PLAIN,
  lineComments: ["--"],
  blockComment: ["/*", "*/"],
  longQuotes: ["'", '"'],
  keywords: words(
    "select from where insert into values update set delete create alter drop table index view trigger join left right inner outer full cross on using group by order having limit offset union all distinct as and or not in is like between exists case when then else end with recursive primary key foreign references unique check default constraint begin commit rollback returning over partition asc desc if pragma explain analyze vacuum cascade",
  ),
  constants: words(
    "null true false integer text real blob varchar int bigint boolean timestamp date numeric serial jsonb uuid",
  ),
  folded: true,
};

const c: Grammar = {
  ...C_LIKE,
  keywords: words(
    "alignas auto bool break case catch char class concept const consteval constexpr continue co_await co_return co_yield default delete do double else enum explicit export extern final float for friend goto if inline int long mutable namespace new noexcept operator override private protected public register requires return short signed sizeof static struct switch template throw try typedef typename union unsigned using virtual void volatile while include define ifdef ifndef endif pragma undef elif async await base decimal foreach get in internal is lock out params partial readonly ref sealed set string uint ulong var when where yield object abstract interface event delegate",
  ),
};

const go: Grammar = {
  ...C_LIKE,
  longQuotes: ["`"],
  keywords: words(
    "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var any bool byte error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64",
  ),
  constants: words("true false nil iota"),
};

const rust: Grammar = {
  ...C_LIKE,
  quotes: '"',
  keywords: words(
    "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return static struct super trait type union unsafe use where while bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize",
  ),
  constants: words("true false self Self None Some Ok Err"),
};

const java: Grammar = {
  ...C_LIKE,
  longQuotes: ['"""'],
  keywords: words(
    "abstract assert boolean break by byte case catch char class companion const continue data default defer do double else enum extends extension final finally float for fun func guard if implements import in init inner instanceof int interface internal is lateinit let long native new object open operator out override package private protected protocol public record return sealed short static strictfp struct suspend switch synchronized throw throws transient try typealias val var vararg void volatile when where while yield",
  ),
};

const ruby: Grammar = {
  ...PLAIN,
  lineComments: ["#"],
  quotes: "\"'",
  keywords: words(
    "alias and begin break case class def defined do else elsif end ensure for if in module next not or redo rescue retry return super then undef unless until when while yield require attr_reader attr_accessor attr_writer local function repeat elseif",
  ),
  constants: words("true false nil self"),
};

const php: Grammar = {
  ...C_LIKE,
  lineComments: ["//", "#"],
  keywords: words(
    "abstract and array as break callable case catch class clone const continue declare default do echo else elseif empty enum extends final finally fn for foreach function global if implements include instanceof interface isset list match namespace new or print private protected public readonly require require_once return static switch throw trait try unset use var while yield",
  ),
};

const data: Grammar = {
  ...PLAIN,
  quotes: "\"'",
  constants: words("true false null yes no on off"),
  special: "keys",
};
const json: Grammar = { ...data, lineComments: ["//"], blockComment: ["/*", "*/"] };
const yaml: Grammar = { ...data, lineComments: ["#"] };
const css: Grammar = {
  ...PLAIN,
  blockComment: ["/*", "*/"],
  lineComments: [],
  quotes: "\"'",
  special: "css",
};
const markup: Grammar = { ...PLAIN, blockComment: ["<!--", "-->"], quotes: "\"'", special: "markup" };
const diff: Grammar = { ...PLAIN, special: "diff" };

const BY_NAME: Readonly<Record<string, Grammar>> = {
  js: script,
  javascript: script,
  jsx: script,
  mjs: script,
  cjs: script,
  ts: script,
  typescript: script,
  tsx: script,
  mts: script,
  py: python,
  python: python,
  python3: python,
  pyi: python,
  pycon: python,
  sh: shell,
  bash: shell,
  zsh: shell,
  shell: shell,
  console: shell,
  fish: shell,
  ksh: shell,
  dockerfile: shell,
  docker: shell,
  make: shell,
  makefile: shell,
  sql: sql,
  sqlite: sql,
  postgres: sql,
  postgresql: sql,
  mysql: sql,
  c: c,
  h: c,
  cpp: c,
  "c++": c,
  cc: c,
  hpp: c,
  cs: c,
  csharp: c,
  "c#": c,
  objc: c,
  arduino: c,
  go: go,
  golang: go,
  rust: rust,
  rs: rust,
  java: java,
  kotlin: java,
  kt: java,
  swift: java,
  scala: java,
  groovy: java,
  dart: java,
  ruby: ruby,
  rb: ruby,
  lua: ruby,
  elixir: ruby,
  php: php,
  json: json,
  jsonc: json,
  json5: json,
  jsonl: json,
  yaml: yaml,
  yml: yaml,
  toml: yaml,
  ini: yaml,
  env: yaml,
  conf: yaml,
  properties: yaml,
  css: css,
  scss: css,
  less: css,
  html: markup,
  xml: markup,
  svg: markup,
  vue: markup,
  svelte: markup,
  diff: diff,
  patch: diff,
};

/** What is known about the language of this name, if anything. */
export function grammarOf(name: string): Grammar | null {
  return Object.hasOwn(BY_NAME, name) ? (BY_NAME[name] ?? null) : null;
}
