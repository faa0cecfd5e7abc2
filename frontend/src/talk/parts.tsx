/** The attachments of a message or a tool's result: images to look at, files to download. */
import type { JSX } from "preact";
import type { Part } from "../events.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import { blobUrl, fetchFile } from "../state.ts";
import { Picture } from "./picture.tsx";

export function Parts({ parts }: { readonly parts: readonly Part[] }): JSX.Element | null {
  const kept = parts.filter((part) => part.kind !== "text");
  if (kept.length === 0) return null;
  return (
    <ul class="parts">
      {kept.map((part) => (
        <li key={part.blob}>
          {part.kind === "image" ? (
            <button
              type="button"
              title={harmless(part.name ?? "")}
              onClick={() => void fetchFile(blobUrl(part.blob, part.media_type))}
            >
              <Picture
                class="part-image"
                path={blobUrl(part.blob, part.media_type)}
                alt={harmless(part.name ?? "") || "Attached image"}
              />
            </button>
          ) : (
            <button
              type="button"
              class="part-file"
              onClick={() => void fetchFile(blobUrl(part.blob), part.name ?? "")}
            >
              <Icon name="file" />
              <span>{harmless(part.name)}</span>
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}
