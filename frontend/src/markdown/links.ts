/** Addresses in running text: the target of a link, and bare addresses. */

const TARGET_CHARS_MAX = 4096;
const IMAGE_CHARS_MAX = 2_000_000;
const TITLE_CHARS_MAX = 1024;
const PARENTHESES_MAX = 32;

export type Target = { href: string; end: number };

/** The target of a link whose "(" is at `at`; "open" if the text ends before the link does. */
export function targetAt(text: string, at: number): Target | "open" | null {
  let from = skipSpace(text, at + 1);
  const carried = text.startsWith("data:image/", from);
  const limit = Math.min(text.length, from + (carried ? IMAGE_CHARS_MAX : TARGET_CHARS_MAX));
  const close = text[from] === "<" ? angleEnd(text, from + 1, limit) : bareEnd(text, from, limit);
  if (close < 0) return limit === text.length ? "open" : null;
  const angled = text[from] === "<";
  const href = unescaped(text.slice(angled ? from + 1 : from, close));
  from = skipSpace(text, angled ? close + 1 : close);
  if (text[from] === '"' || text[from] === "'" || text[from] === "(") {
    const sign = text[from] === "(" ? ")" : (text[from] ?? "");
    const titleEnd = text.slice(0, from + TITLE_CHARS_MAX).indexOf(sign, from + 1);
    if (titleEnd < 0) return "open";
    from = skipSpace(text, titleEnd + 1);
  }
  if (from >= text.length) return "open";
  return text[from] === ")" ? { href, end: from + 1 } : null;
}

function skipSpace(text: string, at: number): number {
  let from = at;
  while (text[from] === " " || text[from] === "\n") from += 1;
  return from;
}

function angleEnd(text: string, at: number, limit: number): number {
  for (let to = at; to < limit; to++) {
    if (text[to] === ">") return to;
    if (text[to] === "\n" || text[to] === "<") return -1;
  }
  return -1;
}

function bareEnd(text: string, at: number, limit: number): number {
  let deep = 0;
  for (let to = at; to < limit; to++) {
    const char = text[to];
    if (char === "\\") to += 1;
    else if (char === "(" && deep++ === PARENTHESES_MAX) return -1;
    else if (char === ")" && deep-- === 0) return to;
    else if (char === " " || char === "\n") return to;
  }
  return -1;
}

function unescaped(text: string): string {
  return text.replace(/\\([!-/:-@[-`{-~])/g, "$1").replace(/&amp;/g, "&");
}

const BARE = /(?:https?:\/\/|www\.)[^\s<>"`]{1,2048}/iy;
const MAIL = /[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}/y;
const ANGLED =
  /<((?:https?:\/\/|mailto:)[^\s<>]{1,2048}|[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8})>/iy;

/** The bare address at `at`, without the punctuation of the sentence around it. */
export function bareAt(text: string, at: number): string {
  BARE.lastIndex = at;
  const found = BARE.exec(text);
  return found === null ? "" : trimmed(found[0]);
}

/** The address between angle brackets at `at`. */
export function angledAt(text: string, at: number): string {
  ANGLED.lastIndex = at;
  return ANGLED.exec(text)?.[1] ?? "";
}

const HOST = /[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,6}\.[A-Za-z]{2,24}(?![\w-])/y;

/** The host name at `at`. */
export function hostAt(text: string, at: number): string {
  HOST.lastIndex = at;
  return HOST.exec(text)?.[0] ?? "";
}

/** Whether the whole text is a mail address. */
export function isMail(text: string): boolean {
  MAIL.lastIndex = 0;
  return MAIL.exec(text)?.[0].length === text.length;
}

function trimmed(address: string): string {
  let end = address.length;
  let open = 0;
  let close = 0;
  for (const char of address) {
    if (char === "(") open += 1;
    else if (char === ")") close += 1;
  }
  for (; end > 0; end--) {
    const char = address[end - 1] ?? "";
    if (char === ")" && close > open) close -= 1;
    else if (!".,:;!?'*_~]".includes(char)) break;
  }
  const entity = /&[a-z0-9]{2,10};$/i.exec(address.slice(Math.max(0, end - 12), end));
  return address.slice(0, entity === null ? end : end - entity[0].length);
}
