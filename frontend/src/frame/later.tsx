/** A dialog in a chunk of its own: it is fetched when it is first opened. */
import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { NotFetched } from "./panel.tsx";
import { closeDialog, type DialogName } from "./ui.ts";

/** What stands for the dialog until it is there; one that could not be fetched is asked for again the next time. */
export function later(name: DialogName, fetchIt: () => Promise<ComponentType>): ComponentType {
  let found: ComponentType | null = null;
  return function Later(): JSX.Element | null {
    const [state, setState] = useState<"fetching" | "found" | "failed">(found ? "found" : "fetching");
    useEffect(() => {
      if (found !== null) return;
      fetchIt().then(
        (component) => {
          found = component;
          setState("found");
        },
        () => setState("failed"),
      );
    }, []);
    if (state === "failed") return <NotFetched onClose={() => closeDialog(name)} />;
    const Found = found;
    return Found === null ? null : <Found />;
  };
}
