/** The parts of the page that are fetched when they are first needed: each is a script and, if it has one, a style sheet. */
import { MOUNT } from "./mount.ts";

declare global {
  /** The addresses of the style sheets that the first load leaves out; the build fills them in. */
  const STYLES: { readonly panels: string; readonly parts: string; readonly maths: string };
}

const pending = new Map<string, Promise<void>>();

/** Resolves once the style sheet applies; one that could not be fetched is asked for again the next time. */
export function addStyles(href: string): Promise<void> {
  const known = pending.get(href);
  if (known !== undefined) return known;
  const link = document.createElement("link");
  const added = new Promise<void>((resolve, reject) => {
    link.onload = () => resolve();
    link.onerror = () => {
      pending.delete(href);
      link.remove();
      reject(new Error(`could not fetch ${href}`));
    };
  });
  pending.set(href, added);
  link.rel = "stylesheet";
  link.href = MOUNT + href;
  document.head.append(link);
  return added;
}
