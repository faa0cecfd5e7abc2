/** The browser's storage, which may be full, forbidden or broken: then nothing is kept, and nothing else fails. */

/** Where the settings are kept. */
export const SETTINGS = "holdfast.settings";

/** What was kept under the key, or null. */
export function kept(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}

/** All that was kept under keys that begin so. */
export function keptUnder(prefix: string): unknown[] {
  return keysUnder(prefix).map(kept);
}

/** Removes all of them. */
export function forgetUnder(prefix: string): void {
  for (const key of keysUnder(prefix)) {
    keep(key, null);
  }
}

function keysUnder(prefix: string): string[] {
  try {
    const keys = Array.from({ length: localStorage.length }, (_, at) => localStorage.key(at) ?? "");
    return keys.filter((key) => key.startsWith(prefix));
  } catch {
    return [];
  }
}

/** Keeps a value; an empty text or list removes it. */
export function keep(key: string, value: unknown): void {
  const isEmpty = value === "" || value === null || (Array.isArray(value) && value.length === 0);
  try {
    if (isEmpty) {
      localStorage.removeItem(key);
    } else {
      localStorage.setItem(key, JSON.stringify(value));
    }
  } catch {
    // A full or forbidden storage: the page works without it.
  }
}
