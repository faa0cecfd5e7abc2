/** Requests of the page: a refusal for want of a key shows the sign-in, wherever it came from. */

import { type Asked, call, type Method, type Result } from "../api.ts";
import { connection } from "./signals.ts";

let gate: Promise<unknown> = Promise.resolve();

/** Requests wait until this is over: a sign-in that makes them welcome. */
export function askAfter(work: Promise<unknown>): void {
  gate = work;
}

export function mayAsk(): Promise<unknown> {
  return gate;
}

export async function ask<Value>(method: Method, path: string, asked: Asked = {}): Promise<Result<Value>> {
  await gate;
  const result = await call<Value>(method, path, asked);
  if (!result.ok && result.trouble.status === 401) {
    connection.value = "signed-out";
  }
  return result;
}
