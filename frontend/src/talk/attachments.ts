/** Files on their way into a message: each has its progress, and one that failed stays until it is dealt with. */
import { signal } from "@preact/signals";
import type { Part } from "../events.ts";
import { bytes } from "../format.ts";
import { harmless } from "../markdown/safe.ts";
import { blobUrl, session, upload } from "../state.ts";

export interface Attachment {
  readonly id: number;
  readonly name: string;
  /** 0 is not known. */
  readonly bytes: number;
  /** Null if the server had it before: then there is nothing to upload again. */
  readonly file: File | null;
  /** An address of the picture, "" if it is none. */
  readonly preview: string;
  readonly state: "uploading" | "done" | "failed";
  readonly share: number;
  readonly part: Part | null;
  readonly trouble: string;
}

const FILES_MAX = 20;
const FILE_BYTES_MAX = 25 * 1024 * 1024;

const BEGUN = { name: "", bytes: 0, file: null, preview: "", share: 0, part: null, trouble: "" } as const;

/** By session id; "" is the start page. */
const kept = signal<Readonly<Record<string, readonly Attachment[]>>>({});
let lastId = 0;

function here(): string {
  return session.value?.id ?? "";
}

/** Those of the open session. */
export function attached(): readonly Attachment[] {
  return kept.value[here()] ?? [];
}

/** Why some of the files that came last were not taken, or "". */
export const leftOut = signal("");

/** Why a message with these files can't be sent yet, or "". */
export function whyNotReady(): string {
  const failed = attached().find((one) => one.state === "failed");
  if (failed !== undefined)
    return `${harmless(failed.name) || "A file"} isn't uploaded. ${failed.file === null ? "Remove it" : "Upload it again or remove it"}.`;
  return attached().some((one) => one.state === "uploading") ? "Wait for the uploads to finish." : "";
}

/** Begins to upload, as many as there is room for. */
export function attach(files: readonly File[]): void {
  const place = here();
  const room = FILES_MAX - attached().length;
  for (const file of files.slice(0, room)) begin(place, file);
  leftOut.value =
    files.length > room ? `You can attach up to ${FILES_MAX} files. The rest weren't added.` : "";
}

/** Attaches what was dropped; a folder is no file, though a browser says it is one. */
export function attachDropped(items: DataTransferItemList): void {
  const entries = [...items].filter((item) => item.kind === "file");
  const folders = entries.filter((item) => item.webkitGetAsEntry()?.isDirectory).length;
  const files = entries.flatMap((item) =>
    item.webkitGetAsEntry()?.isDirectory ? [] : (item.getAsFile() ?? []),
  );
  attach(files);
  if (folders > 0) leftOut.value = "Folders can't be attached. Attach the files inside instead.";
}

export function detach(id: number): void {
  const place = here();
  const one = attached().find((other) => other.id === id);
  if (one?.preview) URL.revokeObjectURL(one.preview);
  put(
    place,
    attached().filter((other) => other.id !== id),
  );
}

/** Uploads a failed one again. */
export function again(one: Attachment): void {
  void carry(here(), one);
}

/** The files of a message that is edited. */
export function attachAgain(parts: readonly Part[]): void {
  const taken = parts.flatMap((part): Attachment[] => {
    if (part.kind === "text") return [];
    lastId += 1;
    const preview = part.kind === "image" ? blobUrl(part.blob, part.media_type) : "";
    return [{ ...BEGUN, id: lastId, name: part.name ?? "", preview, state: "done", share: 1, part }];
  });
  put(here(), [...attached(), ...taken]);
}

/** Takes all that are done out, for a message. */
export function takeParts(): readonly Part[] {
  const all = attached();
  for (const one of all) if (one.preview) URL.revokeObjectURL(one.preview);
  put(here(), []);
  return all.flatMap((one) => (one.part === null ? [] : [one.part]));
}

function put(place: string, all: readonly Attachment[]): void {
  kept.value = { ...kept.value, [place]: all };
}

function change(place: string, id: number, how: Partial<Attachment>): void {
  put(
    place,
    (kept.value[place] ?? []).map((one) => (one.id === id ? { ...one, ...how } : one)),
  );
}

function begin(place: string, file: File): void {
  lastId += 1;
  const isPicture = /^image\/(?:png|jpeg|gif|webp|avif)$/.test(file.type);
  const preview = isPicture ? URL.createObjectURL(file) : "";
  const { name, size } = file;
  const one: Attachment = { ...BEGUN, state: "uploading", id: lastId, name, bytes: size, file, preview };
  put(place, [...(kept.value[place] ?? []), one]);
  void carry(place, one);
}

async function carry(place: string, one: Attachment): Promise<void> {
  if (one.file === null) return;
  const trouble = whyUnfit(one.bytes);
  if (trouble !== "") {
    // to upload it again would not help
    change(place, one.id, { state: "failed", trouble, file: null });
    return;
  }
  change(place, one.id, { state: "uploading", share: 0, trouble: "" });
  const result = await upload(one.file, (share) => change(place, one.id, { share }));
  if (result.ok) change(place, one.id, { state: "done", share: 1, part: result.value });
  else change(place, one.id, { state: "failed", trouble: result.trouble.message });
}

/** Why a file of this size is not uploaded at all, or "". */
function whyUnfit(size: number): string {
  if (size === 0) return "This file is empty.";
  return size > FILE_BYTES_MAX
    ? `${bytes(size)} is too large. Files can be up to ${bytes(FILE_BYTES_MAX)}.`
    : "";
}
