/** What this browser was told to do: theme, send key, notifications. */

import { signal } from "@preact/signals";
import type { Settings } from "./page_state.ts";
import { SETTINGS as KEY, keep, kept } from "./storage.ts";

export const DEFAULTS: Settings = {
  theme: "system",
  sendKey: "enter",
  notifications: false,
  bareKeys: true,
  model: "",
  effort: "",
  temperature: "",
  maxTokens: "",
  sidebar: "open",
};

export const settings = signal<Settings>(DEFAULTS);

/** What was kept, field by field: a value of the wrong type, or of an older page, is the default. */
export function readSettings(): void {
  const found = kept(KEY);
  const known = typeof found === "object" && found !== null ? (found as Record<string, unknown>) : {};
  const fits = Object.entries(DEFAULTS).filter(([name, value]) => typeof known[name] === typeof value);
  settings.value = { ...DEFAULTS, ...Object.fromEntries(fits.map(([name]) => [name, known[name]])) };
}

export function changeSettings(change: Partial<Settings>): void {
  settings.value = { ...settings.value, ...change };
  keep(KEY, settings.value);
}
