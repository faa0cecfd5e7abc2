/** The permission mode in the composer: what needs the person's approval, and a way to change it. */
import type { JSX } from "preact";
import { changeMode, modeNow, server } from "../state.ts";
import type { Acting } from "./acting.ts";
import { type Option, PickChip } from "./pick_chip.tsx";

const MODES: readonly Option[] = [
  ["plan", "Plan", "The agent only reads until you accept its plan"],
  ["ask", "Ask", "Every change needs your approval"],
  ["edits", "Edits", "Edits of workspace files that undo covers need no approval"],
  ["workspace", "Workspace", "Sandboxed actions need no approval"],
  ["unattended", "Unattended", "Anything that needs approval is denied"],
];

export function PermissionMode({ acting }: { readonly acting: Acting }): JSX.Element | null {
  const now = modeNow();
  if (now === "") return null;
  const allowed = server.value?.modes ?? [];
  return (
    <PickChip
      label="Permission mode"
      options={MODES.filter(([mode]) => mode === now || allowed.includes(mode))}
      value={now}
      tone={now === "workspace" ? "tone-warn" : ""}
      onPick={(mode) => void acting.act(() => changeMode(mode))}
    />
  );
}
