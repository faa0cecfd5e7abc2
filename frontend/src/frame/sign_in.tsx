/** The way in: by a link of `holdfast sign-in`, or by a key. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { pageSecret } from "../api.ts";
import { Mark } from "../icons.tsx";
import { linkTrouble, signIn } from "../state.ts";

const SIGNED_OUT =
  "You've been signed out: your key was revoked or your sign-in expired. Your drafts are saved.";

export function SignIn(): JSX.Element {
  // only a browser that was signed in before has a secret
  const [trouble, setTrouble] = useState(linkTrouble.value || (pageSecret() ? SIGNED_OUT : ""));
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const key = new FormData(event.currentTarget as HTMLFormElement).get("key");
    if (typeof key !== "string" || !key.trim()) {
      setTrouble("Enter a key.");
      return;
    }
    setBusy(true);
    const result = await signIn(key.trim());
    setBusy(false);
    setTrouble(result.ok ? "" : result.trouble.message);
  };
  return (
    <main class="sign-in">
      <form class="sign-in-card" onSubmit={submit}>
        <Mark size={48} />
        <h1>Sign in to Holdfast</h1>
        <p class="muted">
          Run <code>holdfast sign-in</code> on the server and open the link it prints, or enter a key.
        </p>
        <label class="sign-in-field">
          <span>Key</span>
          <input
            ref={field}
            class="field"
            type="password"
            name="key"
            autoComplete="current-password"
            spellcheck={false}
            aria-invalid={trouble !== ""}
            aria-describedby="sign-in-problem"
          />
        </label>
        <p id="sign-in-problem" class="problem" role="alert">
          {trouble}
        </p>
        <button type="submit" class="button primary" disabled={busy}>
          {busy ? "Signing in…" : "Sign in"}
        </button>
        <p class="fine muted">
          The key is in the <code>api-key</code> file in the server's data directory. Your browser doesn't
          store it.
        </p>
      </form>
    </main>
  );
}
