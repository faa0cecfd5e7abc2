/** Requests of the page: a refusal for want of a key shows the sign-in, wherever it came from. */

import { type Asked, call, type Method, pageSecret, type Result } from "../api.ts";
import { MOUNT } from "../mount.ts";
import { connection, storeError } from "./signals.ts";

let gate: Promise<unknown> = Promise.resolve();
/** How often somebody signed in: a refusal from before says nothing about who is signed in now. */
let entered = 0;

export function signedIn(): void {
  entered += 1;
}

/** Requests wait until this is over: a sign-in that makes them welcome. */
export function askAfter(work: Promise<unknown>): void {
  gate = work;
}

export function mayAsk(): Promise<unknown> {
  return gate;
}

export async function ask<Value>(method: Method, path: string, asked: Asked = {}): Promise<Result<Value>> {
  await gate;
  const before = entered;
  const result = await call<Value>(method, path, asked);
  if (!result.ok && result.trouble.status === 401 && before === entered) {
    connection.value = "signed-out";
  }
  noteStore(method, result);
  return result;
}

/** Records whether the server's store accepts writes. */
export function noteStore(method: Method, result: Result<unknown>): void {
  if (method === "GET") {
    return;
  }
  if (result.ok) {
    storeError.value = "";
  } else if (result.trouble.code.startsWith("store_")) {
    storeError.value = result.trouble.message;
  }
}

/** The address for what cannot send our header: an image, a download, another tab. It is good for a minute. */
export async function ticketed(path: string): Promise<string> {
  if (!path.startsWith("/")) return path;
  if (!pageSecret()) return MOUNT + path;
  const result = await ask<{ ticket: string }>("POST", "/api/tickets", { body: { path } });
  const ticket = result.ok ? `${path.includes("?") ? "&" : "?"}ticket=${result.value.ticket}` : "";
  return MOUNT + path + ticket;
}

/** Saves a file under a name, "" being the server's own; without a name it is opened in another tab. */
export async function fetchFile(path: string, name?: string): Promise<void> {
  const link = document.createElement("a");
  link.href = await ticketed(path);
  if (name === undefined) {
    link.target = "_blank";
  } else {
    link.download = name;
  }
  link.click();
}
