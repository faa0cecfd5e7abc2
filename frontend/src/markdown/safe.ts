/** Text from models and tools made harmless: terminal codes, direction overrides, unsafe links. */

const HREF_CHARS_MAX = 4096;
const IMAGE_CHARS_MAX = 2_000_000;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const CONTROLS_ALL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const OVERRIDES = /[\u202a-\u202e\u2066-\u2069]/;
const OVERRIDES_ALL = /[\u202a-\u202e\u2066-\u2069]/g;
// what a reader cannot see, and a program takes as something else than the reader
const UNSEEN_ALL =
  // biome-ignore lint/suspicious/noMisleadingCharacterClass: single code points are what is looked for
  /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;
const TERMINAL_ALL = new RegExp(
  [
    "\\x1b\\[[0-9;:?<=>!]{0,64}[ -/]{0,4}[@-~]", // colours, cursor moves
    "\\x1b\\][^\\x07\\x1b]{0,2048}(?:\\x07|\\x1b\\\\)", // titles, links
    "\\x1b[ -/]{0,4}[0-~]",
  ].join("|"),
  "g",
);

/** The text for reading: control characters become pictures of themselves, direction overrides become visible. */
export function harmless(text: string): string {
  let safe = text;
  if (CONTROLS.test(safe)) safe = safe.replace(/\r\n?/g, "\n").replace(CONTROLS_ALL, pictured);
  if (OVERRIDES.test(safe)) safe = safe.replace(OVERRIDES_ALL, named);
  return safe;
}

/** The text for deciding upon: every character that a reader would not see is named. */
export function exact(text: string): string {
  return text.replace(/\r/g, "\u240d").replace(CONTROLS_ALL, pictured).replace(UNSEEN_ALL, named);
}

/** What a terminal would show of a program's output, without colours; an overwritten line shows its last state. */
export function plainOutput(text: string): string {
  let plain = text.includes("\u001b") ? text.replace(TERMINAL_ALL, "") : text;
  if (plain.includes("\r")) {
    plain = plain
      .replace(/\r\n/g, "\n")
      .split("\n")
      .map((line) => {
        const end = line.endsWith("\r") ? line.length - 1 : line.length;
        return line.slice(line.lastIndexOf("\r", end - 1) + 1, end);
      })
      .join("\n");
  }
  return harmless(plain);
}

function pictured(char: string): string {
  const code = char.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : "\ufffd";
}

function named(char: string): string {
  return `\u27e8U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
}

/** The address if a person may be sent there (http, https, mailto), else "". */
export function safeHref(href: string): string {
  const wanted = href.trim();
  if (wanted.length > HREF_CHARS_MAX || !/^(?:https?:\/\/|mailto:)[^\s]/i.test(wanted)) return "";
  if (CONTROLS.test(wanted) || OVERRIDES.test(wanted)) return "";
  if (!URL.canParse(wanted)) return "";
  const url = new URL(wanted);
  return url.protocol === "mailto:" || url.hostname !== "" ? url.href : "";
}

/** The image itself if the text carries it, else "". */
export function inlineImage(src: string): string {
  const own = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=]+$/;
  return src.length <= IMAGE_CHARS_MAX && own.test(src) ? src : "";
}

/** The host that a link leads to, if its text names another one. */
export function hostBehind(href: string, text: string): string {
  const shown = /^\s*(?:https?:\/\/)?(?:[^\s/@]+@)?([a-z0-9-]+(?:\.[a-z0-9-]+)+)(?:[:/?#\s]|$)/i.exec(text);
  if (shown === null || !/^https?:/i.test(href)) return "";
  const host = new URL(href).hostname;
  const bare = (name: string) => name.toLowerCase().replace(/^www\./, "");
  return bare(host) === bare(shown[1] ?? "") ? "" : host;
}
