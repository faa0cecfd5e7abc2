/** The secret of a webhook, which is shown once, and a delivery to try it with. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useActing } from "../../talk/acting.ts";
import { CopyButton } from "../../talk/copy_button.tsx";
import { Problem } from "../../talk/problem.tsx";
import { deliverTest } from "./requests.ts";
import { canSign, type HookKind } from "./signing.ts";
import { addressOf } from "./words.ts";

export interface Revealed {
  readonly name: string;
  readonly hook: string;
  readonly kind: HookKind;
  readonly secret: string;
}

interface SecretCardProps {
  readonly revealed: Revealed;
  readonly onDone: () => void;
}

export function SecretCard({ revealed, onDone }: SecretCardProps): JSX.Element {
  const testing = useActing();
  const [said, setSaid] = useState("");
  const address = addressOf(revealed.hook, location.origin);
  const test = async (): Promise<void> => {
    setSaid("");
    const { hook, kind, secret } = revealed;
    if (await testing.act(() => deliverTest(hook, kind, secret))) {
      setSaid("Delivered. The run will appear below shortly.");
    }
  };
  return (
    <section class="target secret-card" aria-label="Webhook secret">
      <h3>Copy the secret for “{revealed.name}” now. You won't see it again.</h3>
      <dl class="facts">
        <div>
          <dt>Address</dt>
          <dd>
            <code>{address}</code> <CopyButton text={() => address} what="address" />
          </dd>
        </div>
        <div>
          <dt>Secret</dt>
          <dd>
            <code>{revealed.secret}</code> <CopyButton text={() => revealed.secret} what="secret" />
          </dd>
        </div>
      </dl>
      <div class="target-try">
        {canSign(revealed.kind) ? (
          <button type="button" class="button small" aria-disabled={testing.busy} onClick={() => void test()}>
            Send a test delivery
          </button>
        ) : null}
        <button type="button" class="button small" onClick={onDone}>
          I've copied it
        </button>
        <div role="status">{said}</div>
        <Problem words={testing.trouble} />
      </div>
    </section>
  );
}
