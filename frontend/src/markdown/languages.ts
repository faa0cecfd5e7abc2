/** The names of languages, as the lines that open code give them. */

const TITLES: Readonly<Record<string, string>> = {
  js: "JavaScript",
  javascript: "JavaScript",
  jsx: "JSX",
  ts: "TypeScript",
  typescript: "TypeScript",
  tsx: "TSX",
  py: "Python",
  python: "Python",
  sh: "Shell",
  bash: "Bash",
  zsh: "Zsh",
  shell: "Shell",
  console: "Console",
  sql: "SQL",
  c: "C",
  cpp: "C++",
  "c++": "C++",
  cs: "C#",
  csharp: "C#",
  go: "Go",
  rust: "Rust",
  rs: "Rust",
  java: "Java",
  kotlin: "Kotlin",
  swift: "Swift",
  ruby: "Ruby",
  rb: "Ruby",
  php: "PHP",
  json: "JSON",
  yaml: "YAML",
  yml: "YAML",
  toml: "TOML",
  css: "CSS",
  html: "HTML",
  xml: "XML",
  diff: "Diff",
  md: "Markdown",
  markdown: "Markdown",
};

/** The language of code from the line that opens it: by its name, and as people write it. */
export function languageOf(info: string): { name: string; title: string; language: string } {
  const first = /^\{?\.?([A-Za-z0-9+#_-]{1,24})/.exec(info.trim())?.[1] ?? "";
  const name = first.toLowerCase();
  const title = (Object.hasOwn(TITLES, name) ? TITLES[name] : undefined) ?? first;
  return { name, title, language: name };
}
