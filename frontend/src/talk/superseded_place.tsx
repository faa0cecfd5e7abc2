/** The place of cut-off text that the model is writing again. */
import type { JSX } from "preact";
import type { OpenSession } from "../state.ts";
import { useParts } from "./fetched.ts";

export function SupersededPlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const run = [...here.runs.value.values()].at(-1);
  const parts = useParts(!!run?.superseded);
  return parts && run ? <parts.Superseded run={run} /> : null;
}
