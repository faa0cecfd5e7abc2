/** The attachments of a message or a tool's result: images to look at, files to download. */
import type { JSX } from "preact";
import type { Part } from "../events.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import { blobUrl } from "../state.ts";

export function Parts({ parts }: { readonly parts: readonly Part[] }): JSX.Element | null {
  const kept = parts.filter((part) => part.kind !== "text");
  if (kept.length === 0) return null;
  return (
    <ul class="parts">
      {kept.map((part) => (
        <li key={part.blob}>
          {part.kind === "image" ? (
            <a
              href={blobUrl(part.blob, part.media_type)}
              target="_blank"
              rel="noopener"
              title={harmless(part.name ?? "")}
            >
              <img
                class="part-image"
                src={blobUrl(part.blob, part.media_type)}
                alt={harmless(part.name ?? "") || "Attached image"}
                loading="lazy"
              />
            </a>
          ) : (
            <a class="part-file" href={blobUrl(part.blob)} download={part.name}>
              <Icon name="file" />
              <span>{harmless(part.name)}</span>
            </a>
          )}
        </li>
      ))}
    </ul>
  );
}
