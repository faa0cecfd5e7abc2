/** The way in: by the link that the server prints when it starts, or by a key. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Mark } from "../icons.tsx";
import { linkTrouble, signIn } from "../state.ts";

export function SignIn(): JSX.Element {
  const [trouble, setTrouble] = useState(linkTrouble.value);
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
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
          Open the link that <code>holdfast serve</code> prints when it starts, or enter a key.
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
          The key stands in the file <code>api-key</code> of the server's data directory. It is exchanged for
          a cookie and not kept in this browser.
        </p>
      </form>
    </main>
  );
}
