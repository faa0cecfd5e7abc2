/** Lets the model see again what was summarized or removed; says why not, and where it would fit. */
import type { JSX } from "preact";
import { revert } from "../state/context.ts";
import { useActing } from "./acting.ts";
import { Problem } from "./problem.tsx";

interface RevertProps {
  readonly seq: number;
  readonly sessionId: string;
  readonly reverted: boolean;
}

export function RevertButton({ seq, sessionId, reverted }: RevertProps): JSX.Element {
  const acting = useActing();
  if (reverted) return <span class="muted">Reverted</span>;
  return (
    <>
      <button
        type="button"
        class="button small"
        title="Let the model see the messages again"
        disabled={acting.busy}
        onClick={() => acting.act(() => revert(sessionId, seq))}
      >
        Revert
      </button>
      <Problem words={acting.trouble} />
    </>
  );
}
