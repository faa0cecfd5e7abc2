/** The server over HTTP: every answer is a value, a failure too, with the words that the server gave. */

import type { Part } from "./events.ts";

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

const UNREACHABLE: Trouble = {
  message: "The server cannot be reached.",
  code: "unreachable",
  status: 0,
  param: null,
};
const PATIENCE_MS = 30_000;

export function failed(trouble: Trouble): { readonly ok: false; readonly trouble: Trouble } {
  return { ok: false, trouble };
}

/** The envelope of an error as a value; an answer without one is described by its status. */
export function troubleOf(status: number, body: unknown): Trouble {
  const error = (body as { error?: Partial<Trouble> } | null)?.error;
  return {
    message:
      typeof error?.message === "string" ? error.message : `The server answered with status ${status}.`,
    code: typeof error?.code === "string" ? error.code : "unknown",
    status,
    param: typeof error?.param === "string" ? error.param : null,
  };
}

/** One request; it never throws, and gives up after half a minute of silence. */
export async function call<Value>(method: Method, path: string, asked: Asked = {}): Promise<Result<Value>> {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  const headers: Record<string, string> = { Accept: "application/json", ...asked.headers };
  const init: RequestInit = {
    method,
    headers,
    credentials: "same-origin",
    cache: "no-store",
    keepalive: asked.keepalive ?? false,
    signal: asked.signal ? AbortSignal.any([asked.signal, patience]) : patience,
  };
  if (asked.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(asked.body);
  }
  try {
    const answer = await fetch(path, init);
    const body: unknown = answer.status === 204 ? null : await answer.json().catch(() => null);
    return answer.ok ? { ok: true, value: body as Value } : failed(troubleOf(answer.status, body));
  } catch {
    return failed(UNREACHABLE);
  }
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

/** Sends a file and tells how far it is (0 to 1); the part is what a message refers to it by. */
export function uploadFile(file: File, onProgress: (share: number) => void): Promise<Result<Part>> {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/api/blobs");
    request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = (event) => onProgress(event.total > 0 ? event.loaded / event.total : 0);
    request.onload = () => {
      if (request.status >= 300) {
        resolve(failed(troubleOf(request.status, request.response)));
        return;
      }
      const { blob, media_type } = request.response as Uploaded;
      const kind = media_type.startsWith("image/") ? "image" : "file";
      resolve({ ok: true, value: { kind, blob, media_type, name: file.name } });
    };
    request.onerror = () => resolve(failed(UNREACHABLE));
    request.onabort = request.onerror;
    request.send(file);
  });
}
