/** Footnotes: a reference becomes a link once the note that it refers to is there; until then it is as it was written. */

/** A reference; it finds its note by itself. */
export function noteReference(label: string): HTMLElement {
  const host = document.createElement("span");
  host.dataset.refersTo = label;
  host.textContent = `[^${label}]`;
  // it is placed first, and looks around then
  queueMicrotask(() => {
    if (noteFor(host, label) !== null) link(host, label);
  });
  return host;
}

/** Makes links of the references to this note. */
export function linkReferences(note: HTMLElement, label: string): void {
  const found = note.closest(".prose")?.querySelectorAll<HTMLElement>("[data-refers-to]") ?? [];
  for (const host of found) if (host.dataset.refersTo === label) link(host, label);
}

/** Back to the first place that refers to the note. */
export function showReference(note: HTMLElement, label: string): void {
  const found = [...(note.closest(".prose")?.querySelectorAll<HTMLElement>("[data-refers-to]") ?? [])];
  found
    .find((host) => host.dataset.refersTo === label)
    ?.querySelector("button")
    ?.focus();
}

function noteFor(host: HTMLElement, label: string): HTMLElement | null {
  const notes = [...(host.closest(".prose")?.querySelectorAll<HTMLElement>("[data-note]") ?? [])];
  return notes.find((note) => note.dataset.note === label) ?? null;
}

function link(host: HTMLElement, label: string): void {
  if (host.firstElementChild !== null) return;
  const raised = document.createElement("sup");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "note-link";
  button.textContent = label;
  button.ariaLabel = `Footnote ${label}`;
  button.addEventListener("click", () => {
    const note = noteFor(host, label);
    note?.scrollIntoView({ block: "nearest" });
    note?.querySelector<HTMLElement>("button")?.focus({ preventScroll: true });
  });
  raised.append(button);
  host.replaceChildren(raised);
}
