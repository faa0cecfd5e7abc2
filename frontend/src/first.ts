/** What must be known before anything is painted: which theme was chosen, and whether the list is shown. */
import { kept, SETTINGS } from "./state/storage.ts";

const found = kept(SETTINGS) as { readonly theme?: unknown; readonly sidebar?: unknown } | null;
const { dataset } = document.documentElement;
if (found?.theme === "dark" || found?.theme === "light") dataset.theme = found.theme;
if (found?.sidebar === "closed") dataset.list = "closed";
