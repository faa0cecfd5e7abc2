/** The theme that was chosen, on the root element before the first paint. */
import { effect } from "@preact/signals";
import { settings } from "../state.ts";

export function followTheme(): void {
  effect(() => {
    const { theme } = settings.value;
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  });
}
