/** Runs that nobody carries on: what the server says about them, and the way out. */

import { type Result, sessionPath } from "../api.ts";
import type { Page } from "../view/window.ts";
import { ask } from "./asking.ts";
import { Opened } from "./opened.ts";
import type { OpenSession } from "./page_state.ts";

/** Asks again; without an answer, what was known stays. */
export async function readMarks(here: OpenSession): Promise<void> {
  const result = await ask<Page>("GET", sessionPath(here.id, "/messages?limit=1"));
  if (result.ok && here instanceof Opened) {
    here.remark(result.value);
  }
}

/** Lets any server carry on a session whose own is gone. */
export function move({ id }: OpenSession): Promise<Result<unknown>> {
  return ask("POST", sessionPath(id, "/move"), { body: {} });
}
