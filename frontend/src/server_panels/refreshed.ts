/** What the server knows, asked for again and again while someone looks: old values stay until new ones are there. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { newOrder } from "../state/order.ts";
import { connection } from "../state/signals.ts";
import type { Result } from "../state.ts";

export interface Refreshed<Value> {
  /** The newest value; null until the first one comes. */
  readonly value: Value | null;
  /** When it came. */
  readonly atMs: number;
  /** Why there is no newer one. */
  readonly trouble: string;
  readonly reload: () => void;
}

const WAIT_MS_MAX = 60_000;

/** After this many failures in a row; each makes the next wait twice as long. */
export function waitMs(everyMs: number, failures: number): number {
  return Math.min(everyMs * 2 ** failures, Math.max(everyMs, WAIT_MS_MAX));
}

/** Loads at once, whenever `what` changes, and then every so often while the tab is seen; one request at a time. */
export function useRefreshed<Value>(
  what: string,
  load: () => Promise<Result<Value>>,
  everyMs: number,
): Refreshed<Value> {
  const [state, setState] = useState<{ value: Value | null; atMs: number; trouble: string }>({
    value: null,
    atMs: 0,
    trouble: "",
  });
  const again = useRef<() => void>(() => {});
  useEffect(() => {
    let failures = 0;
    let busy = false;
    let isOld = false;
    let ended = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async (): Promise<void> => {
      clearTimeout(timer);
      if (busy || ended || document.hidden) return;
      busy = true;
      isOld = false;
      const result = await load();
      busy = false;
      if (ended) return;
      // someone has changed something since: the server may have answered before that
      if (isOld) return void look();
      failures = result.ok ? 0 : failures + 1;
      setState((known) =>
        result.ok
          ? { value: result.value, atMs: Date.now(), trouble: "" }
          : { ...known, trouble: result.trouble.message },
      );
      timer = setTimeout(look, waitMs(everyMs, failures));
    };
    const onSeen = (): void => void look();
    again.current = () => {
      isOld = true;
      void look();
    };
    document.addEventListener("visibilitychange", onSeen);
    void look();
    // after a restart of the server, the next look would be late
    let wasAway = false;
    const unfollow = connection.subscribe((now) => {
      if (now === "live" && wasAway) again.current();
      wasAway = now !== "live";
    });
    return () => {
      ended = true;
      unfollow();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onSeen);
    };
  }, [what]);
  return { ...state, reload: () => again.current() };
}

export interface Read<Value> {
  /** The newest value; null until the first one comes. */
  readonly value: Value | null;
  /** Why there is no newer one. */
  readonly trouble: string;
  readonly again: () => void;
}

/** Reads whenever it is told to: no reading is left out because another is under way, and the newest one counts. */
export function useRead<Value>(read: () => Promise<Result<Value>>): Read<Value> {
  const [state, setState] = useState<{ value: Value | null; trouble: string }>({ value: null, trouble: "" });
  const inOrder = useMemo(newOrder, []);
  const again = async (): Promise<void> => {
    const isNews = inOrder();
    const result = await read();
    if (!isNews()) return;
    setState((known) =>
      result.ok ? { value: result.value, trouble: "" } : { ...known, trouble: result.trouble.message },
    );
  };
  return { ...state, again: () => void again() };
}
