/** The server over HTTP: every answer is a value, a failure too, with the words that the server gave. */

import type { Part } from "./events.ts";
import { MOUNT } from "./mount.ts";
import { keep, kept } from "./state/storage.ts";

/** What went wrong, for the person who asked; `status` 0 is that no answer came at all. */
export interface Trouble {
  readonly message: string;
  readonly code: string;
  readonly status: number;
  readonly param: string | null;
}

export type Result<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly trouble: Trouble };

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface Asked {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Whether the request may outlive the page (a draft on its way out). */
  readonly keepalive?: boolean;
}

// Servers under several paths of one host share its storage.
const SIGNED_IN = `holdfast.page${MOUNT}`;
const HEADER = "X-Holdfast-Page";
let secret = "";

/** What goes with the cookie: a browser hands the cookie to every port of this host, but this to our pages alone. */
export function pageSecret(): string {
  return (kept(SIGNED_IN) as string | null) ?? secret;
}

/** Kept where other tabs and the next visit find it; "" forgets it. */
export function keepSecret(value: string): void {
  secret = value;
  keep(SIGNED_IN, value);
}

export function pageHeader(): Record<string, string> {
  return { [HEADER]: pageSecret() };
}

const UNREACHABLE: Trouble = {
  message: "Can't reach the server.",
  code: "unreachable",
  status: 0,
  param: null,
};
const UNREADABLE: Trouble = { ...UNREACHABLE, message: "The server returned an invalid response." };
const FILE_GONE: Trouble = { ...UNREACHABLE, message: "Can't read this file." };
const PATIENCE_MS = 30_000;
const LONG_PATIENCE_MS = 180_000;

/** Trouble that goes by itself: no answer, or a server that is busy or going down. */
export function isPassing(trouble: Trouble | null): boolean {
  return trouble === null || trouble.status === 0 || trouble.status === 429 || trouble.status >= 500;
}

export function failed(trouble: Trouble): { readonly ok: false; readonly trouble: Trouble } {
  return { ok: false, trouble };
}

/** The envelope of an error as a value; an answer without one is described by its status. */
export function troubleOf(status: number, body: unknown): Trouble {
  const error = (body as { error?: Partial<Trouble> } | null)?.error;
  return {
    message: typeof error?.message === "string" ? error.message : `The server returned status ${status}.`,
    code: typeof error?.code === "string" ? error.code : "unknown",
    status,
    param: typeof error?.param === "string" ? error.param : null,
  };
}

/** One request; it never throws, and gives up if no answer begins in half a minute, or ends in three. */
export async function call<Value>(method: Method, path: string, asked: Asked = {}): Promise<Result<Value>> {
  const patience = new AbortController();
  const giveUp = (): void => patience.abort();
  let timer = setTimeout(giveUp, PATIENCE_MS);
  const headers: Record<string, string> = { Accept: "application/json", ...pageHeader(), ...asked.headers };
  const init: RequestInit = {
    method,
    headers,
    credentials: "same-origin",
    cache: "no-store",
    keepalive: asked.keepalive ?? false,
    signal: asked.signal ? AbortSignal.any([asked.signal, patience.signal]) : patience.signal,
  };
  if (asked.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(asked.body);
  }
  try {
    const answer = await fetch(MOUNT + path, init);
    clearTimeout(timer);
    timer = setTimeout(giveUp, LONG_PATIENCE_MS);
    const body: unknown = await answer.json().catch(noJson);
    if (!answer.ok) {
      return failed(troubleOf(answer.status, body));
    }
    return body === null && answer.status !== 204 ? failed(UNREADABLE) : { ok: true, value: body as Value };
  } catch {
    return failed(UNREACHABLE);
  } finally {
    clearTimeout(timer);
  }
}

/** An answer that broke off is no answer; one that is whole and no JSON is null. */
function noJson(error: unknown): null {
  // Safari's is a DOMException of that name.
  if (error instanceof Error && error.name === "SyntaxError") {
    return null;
  }
  throw error;
}

export function sessionPath(sessionId: string, rest = ""): string {
  return `/api/sessions/${encodeURIComponent(sessionId)}${rest}`;
}

export function runPath(runId: string, rest = ""): string {
  return `/v1/runs/${encodeURIComponent(runId)}${rest}`;
}

/** Where an attachment can be read back; images that cannot hold a script are shown, all else is a download. */
export function blobUrl(blob: string, mediaType = ""): string {
  const query = mediaType ? `?media_type=${encodeURIComponent(mediaType)}` : "";
  return `/api/blobs/${encodeURIComponent(blob)}${query}`;
}

/** A random id; `crypto.randomUUID` is missing where the page is not on HTTPS or loopback. */
export function newId(prefix: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return prefix + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

interface Uploaded {
  readonly blob: string;
  readonly media_type: string;
}

/** Sends a file and tells how far it is (0 to 1), until it is no further for minutes.
 *
 * The part is what a message refers to it by.
 */
export function uploadFile(file: File, onProgress: (share: number) => void): Promise<Result<Part>> {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wait = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => request.abort(), LONG_PATIENCE_MS);
    };
    request.open("POST", `${MOUNT}/api/blobs`);
    request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
    request.setRequestHeader(HEADER, pageSecret());
    request.responseType = "json";
    request.upload.onprogress = (event) => {
      wait();
      onProgress(event.total > 0 ? event.loaded / event.total : 0);
    };
    request.onload = () => resolve(uploaded(request, file.name));
    const unreachable = (): void => resolve(failed(UNREACHABLE));
    request.onabort = unreachable;
    // The browser does not say whether the server or the file is out of reach.
    request.onerror = () =>
      file
        .slice(0, 1)
        .arrayBuffer()
        .then(unreachable, () => resolve(failed(FILE_GONE)));
    request.onloadend = () => clearTimeout(timer);
    wait();
    request.send(file);
  });
}

function uploaded({ status, response }: XMLHttpRequest, name: string): Result<Part> {
  if (status >= 300) {
    return failed(troubleOf(status, response));
  }
  if (response === null) {
    return failed(UNREADABLE);
  }
  const { blob, media_type } = response as Uploaded;
  const kind = media_type.startsWith("image/") ? "image" : "file";
  return { ok: true, value: { kind, blob, media_type, name } };
}
