/** The files of the message that is being written. */
import type { JSX } from "preact";
import { bytes } from "../format.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import type { Attachment } from "./attachments.ts";
import type { Picture } from "./picture.tsx";

interface Actions {
  readonly onAgain: (file: Attachment) => void;
  readonly onRemove: (id: Attachment["id"]) => void;
  /** Passed in, so that this script shares nothing with the page that would make a third script. */
  readonly thumbnail: typeof Picture;
}

interface AttachmentListProps extends Actions {
  readonly files: readonly Attachment[];
}

export function AttachmentList({ files, ...actions }: AttachmentListProps): JSX.Element {
  return (
    <ul class="attachments" aria-label="Attachments">
      {files.map((one) => (
        <li key={one.id} class={`attachment ${one.state}`}>
          <One one={one} {...actions} />
        </li>
      ))}
    </ul>
  );
}

interface OneProps extends Actions {
  readonly one: Attachment;
}

function One({ one, onAgain, onRemove, thumbnail: Thumbnail }: OneProps): JSX.Element {
  const name = harmless(one.name) || "File";
  return (
    <>
      {one.preview === "" ? <Icon name="file" /> : <Thumbnail path={one.preview} alt="" />}
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
          onClick={() => onAgain(one)}
        >
          <Icon name="retry" />
        </button>
      ) : null}
      <button
        type="button"
        class="icon-button small"
        aria-label={`Remove ${name}`}
        title="Remove"
        onClick={() => onRemove(one.id)}
      >
        <Icon name="close" />
      </button>
    </>
  );
}
