/** An action of a person: while it is under way it cannot be done twice, and its trouble is said where it was done. */
import { useState } from "preact/hooks";
import type { Result } from "../state.ts";

export interface Acting {
  readonly busy: boolean;
  readonly trouble: string;
  /** Does it; gives back whether it worked. */
  readonly act: (work: () => Promise<Result<unknown>>) => Promise<boolean>;
  readonly forget: () => void;
}

export function useActing(): Acting {
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState("");
  const act = async (work: () => Promise<Result<unknown>>): Promise<boolean> => {
    if (busy) return false;
    setBusy(true);
    setTrouble("");
    const result = await work();
    setBusy(false);
    if (!result.ok) setTrouble(result.trouble.message);
    return result.ok;
  };
  return { busy, trouble, act, forget: () => setTrouble("") };
}
