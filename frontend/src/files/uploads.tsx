/** Files on their way into a folder: one after the other, and over nothing without being told. */
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { bytes } from "../format.ts";
import { exact, harmless } from "../markdown/safe.ts";
import { sendFile, UPLOAD_BYTES_MAX } from "./content.ts";
import { joined } from "./tree_state.ts";

const FILES_MAX = 50;

interface Upload {
  readonly id: number;
  readonly folder: string;
  readonly file: File;
  readonly state: "waiting" | "sending" | "exists" | "failed";
  readonly trouble: string;
}

export interface UploadList {
  readonly all: readonly Upload[];
  readonly add: (folder: string, files: readonly File[]) => void;
  readonly replace: (id: number) => void;
  readonly drop: (id: number) => void;
}

export function useUploads(sessionId: string, onStored: (folder: string) => void): UploadList {
  const [all, setAll] = useState<readonly Upload[]>([]);
  const lastId = useRef(0);
  const stored = useRef(onStored);
  stored.current = onStored;
  const line = useRef<Promise<void>>(Promise.resolve());
  const change = (id: number, how: Partial<Upload>): void =>
    setAll((known) => known.map((one) => (one.id === id ? { ...one, ...how } : one)));
  const drop = (id: number): void => setAll((known) => known.filter((one) => one.id !== id));
  const carry = async (one: Upload, overwrite: boolean): Promise<void> => {
    change(one.id, { state: "sending", trouble: "" });
    const result = await sendFile(sessionId, joined(one.folder, one.file.name), one.file, overwrite);
    if (result.ok) {
      drop(one.id);
      stored.current(one.folder);
    } else if (result.trouble.code === "file_exists") change(one.id, { state: "exists" });
    else change(one.id, { state: "failed", trouble: result.trouble.message });
  };
  const begin = (one: Upload, overwrite: boolean): void => {
    line.current = line.current.then(() => carry(one, overwrite));
  };
  return {
    all,
    drop,
    add: (folder, files) => {
      const taken = files.slice(0, FILES_MAX).map((file): Upload => {
        lastId.current += 1;
        const isLarge = file.size > UPLOAD_BYTES_MAX;
        const trouble = isLarge
          ? `${bytes(file.size)} is too large. The limit is ${bytes(UPLOAD_BYTES_MAX)}.`
          : "";
        return { id: lastId.current, folder, file, state: isLarge ? "failed" : "waiting", trouble };
      });
      setAll((known) => [...known, ...taken]);
      for (const one of taken) if (one.state === "waiting") begin(one, false);
    },
    replace: (id) => {
      const one = all.find((other) => other.id === id);
      if (one !== undefined) begin(one, true);
    },
  };
}

export function Uploads({ uploads }: { readonly uploads: UploadList }): JSX.Element | null {
  if (uploads.all.length === 0) return null;
  return (
    <ul class="files-uploads" aria-label="Uploads">
      {uploads.all.map((one) => {
        const name = exact(joined(one.folder, one.file.name));
        return (
          <li key={one.id} class="files-upload">
            <span
              class="files-name"
              role={one.state === "exists" || one.state === "failed" ? "alert" : undefined}
            >
              {one.state === "exists" ? `${name} already exists. Replace it?` : null}
              {one.state === "failed" ? `${name}: ${harmless(one.trouble)}` : null}
              {one.state === "sending" || one.state === "waiting" ? `Uploading ${name}` : null}
            </span>
            {one.state === "exists" ? (
              <button type="button" class="button small danger" onClick={() => uploads.replace(one.id)}>
                Replace
              </button>
            ) : null}
            {one.state === "sending" ? (
              <span class="spinner" />
            ) : (
              <button type="button" class="button small" onClick={() => uploads.drop(one.id)}>
                {one.state === "exists" ? "Keep" : "Dismiss"}
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}
