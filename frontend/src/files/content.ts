/** Files of the workspace over HTTP: a folder's page, the beginning of a file, and a file on its way in. */
import { call, failed, pageHeader, type Result, sessionPath, type Trouble, troubleOf } from "../api.ts";
import type { FileStored, FolderListing } from "../bodies.ts";
import { MOUNT } from "../mount.ts";

export const PREVIEW_BYTES = 256 * 1024;
export const UPLOAD_BYTES_MAX = 25 * 1024 * 1024;
const PAGE = 500;
const PATIENCE_MS = 30_000;
const UPLOAD_PATIENCE_MS = 180_000;

const UNREACHABLE: Trouble = {
  message: "Can't reach the server.",
  code: "unreachable",
  status: 0,
  param: null,
};

export function contentPath(sessionId: string, path: string, more = ""): string {
  return sessionPath(sessionId, `/files/content?path=${encodeURIComponent(path)}${more}`);
}

export function listFolder(sessionId: string, path: string, cursor: string): Promise<Result<FolderListing>> {
  const query = `?path=${encodeURIComponent(path)}&limit=${PAGE}&cursor=${encodeURIComponent(cursor)}`;
  return call("GET", sessionPath(sessionId, `/files${query}`));
}

/** What a preview begins with: `text` is empty unless the server says that the file is text. */
export interface Beginning {
  readonly kind: "text" | "image" | "pdf" | "bytes";
  readonly text: string;
  readonly bytes: number;
  readonly isCut: boolean;
}

export async function readBeginning(
  sessionId: string,
  path: string,
  signal: AbortSignal,
): Promise<Result<Beginning>> {
  try {
    const answer = await fetch(MOUNT + contentPath(sessionId, path), {
      headers: { ...pageHeader(), Range: `bytes=0-${PREVIEW_BYTES - 1}` },
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]),
    });
    // an empty file has no first bytes to ask for
    if (answer.status === 416) return { ok: true, value: { kind: "text", text: "", bytes: 0, isCut: false } };
    if (!answer.ok) return failed(troubleOf(answer.status, await answer.json().catch(() => null)));
    const kind = kindOf(answer.headers.get("Content-Type") ?? "");
    const bytes = Number(answer.headers.get("X-Holdfast-Bytes"));
    const isCut = bytes > PREVIEW_BYTES;
    if (kind !== "text") {
      await answer.body?.cancel();
      return { ok: true, value: { kind, text: "", bytes, isCut } };
    }
    const text = await answer.text();
    // the last line may be half a line, or end in half a character
    const whole = isCut ? text.slice(0, text.lastIndexOf("\n") + 1) || text.replace(/\ufffd$/, "") : text;
    return { ok: true, value: { kind, text: whole, bytes, isCut } };
  } catch {
    return failed(UNREACHABLE);
  }
}

function kindOf(mediaType: string): Beginning["kind"] {
  if (mediaType.startsWith("text/plain")) return "text";
  if (mediaType.startsWith("image/")) return "image";
  return mediaType === "application/pdf" ? "pdf" : "bytes";
}

/** Sends a file into the workspace; one that is there is replaced only if `overwrite` says so. */
export async function sendFile(
  sessionId: string,
  path: string,
  file: File,
  overwrite: boolean,
): Promise<Result<FileStored>> {
  try {
    const answer = await fetch(MOUNT + contentPath(sessionId, path, overwrite ? "&overwrite=true" : ""), {
      method: "PUT",
      headers: { ...pageHeader(), "Content-Type": "application/octet-stream" },
      credentials: "same-origin",
      body: file,
      signal: AbortSignal.timeout(UPLOAD_PATIENCE_MS),
    });
    const body: unknown = await answer.json().catch(() => null);
    if (!answer.ok) return failed(troubleOf(answer.status, body));
    return { ok: true, value: body as FileStored };
  } catch {
    return failed({ ...UNREACHABLE, message: "Can't read this file or reach the server." });
  }
}
