/** The place of the note about a chat that began on another platform, by itself or as a fork. */
import type { JSX } from "preact";
import { originOf } from "../frame/origin.ts";
import type { OpenSession } from "../state.ts";
import { useParts } from "./fetched.ts";

export function OriginPlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const from = originOf(here.row.value);
  const source = here.forkedFrom.value;
  const parts = useParts(from + source !== "");
  return parts && <parts.OriginNote from={from} source={source} />;
}
