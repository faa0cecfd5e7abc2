/** The files of the message that is being written. */
import type { JSX } from "preact";
import { bytes } from "../format.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import { type Attachment, again, attached, detach } from "./attachments.ts";
import { Picture } from "./picture.tsx";

export function AttachmentList(): JSX.Element | null {
  const all = attached();
  if (all.length === 0) return null;
  return (
    <ul class="attachments" aria-label="Attachments">
      {all.map((one) => (
        <li key={one.id} class={`attachment ${one.state}`}>
          <One one={one} />
        </li>
      ))}
    </ul>
  );
}

function One({ one }: { readonly one: Attachment }): JSX.Element {
  const name = harmless(one.name) || "File";
  return (
    <>
      {one.preview === "" ? <Icon name="file" /> : <Picture path={one.preview} alt="" />}
      <span class="attachment-words">
        <span class="attachment-name" title={name}>
          {name}
        </span>
        {one.state === "failed" ? (
          <span class="problem" role="alert">
            {one.trouble}
          </span>
        ) : (
          <span class="muted">
            {one.state === "done"
              ? one.bytes > 0
                ? bytes(one.bytes)
                : ""
              : `${Math.round(100 * one.share)} %`}
          </span>
        )}
        {one.state === "uploading" ? (
          <progress value={one.share} max={1} aria-label={`Uploading ${name}`} />
        ) : null}
      </span>
      {one.state === "failed" && one.file !== null ? (
        <button
          type="button"
          class="icon-button small"
          aria-label={`Upload ${name} again`}
          title="Upload again"
          onClick={() => again(one)}
        >
          <Icon name="retry" />
        </button>
      ) : null}
      <button
        type="button"
        class="icon-button small"
        aria-label={`Remove ${name}`}
        title="Remove"
        onClick={() => detach(one.id)}
      >
        <Icon name="close" />
      </button>
    </>
  );
}
