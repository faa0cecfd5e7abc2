/** One file: text with colours, markdown, a table, a picture or a PDF; of a long one, the beginning. */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Result } from "../api.ts";
import { bytes, plural } from "../format.ts";
import { focusComposer } from "../frame/ui.ts";
import { Icon } from "../icons.tsx";
import { languageOf } from "../markdown/languages.ts";
import { exact, harmless } from "../markdown/safe.ts";
import { fetchFile, saveDraft, session, ticketed } from "../state.ts";
import { ShadedText } from "../talk/code_block.tsx";
import { Prose } from "../talk/prose.tsx";
import { type Beginning, contentPath, PREVIEW_BYTES, readBeginning } from "./content.ts";
import { sheetOf } from "./csv.ts";
import { mention, nameOf } from "./tree_state.ts";

interface PreviewProps {
  readonly sessionId: string;
  readonly path: string;
  readonly onBack: () => void;
}

type Look = "markdown" | "table" | "source";

export function Preview({ sessionId, path, onBack }: PreviewProps): JSX.Element {
  const [found, setFound] = useState<Result<Beginning> | null>(null);
  const [asSource, setAsSource] = useState(false);
  const back = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => back.current?.focus(), []);
  useEffect(() => {
    const left = new AbortController();
    readBeginning(sessionId, path, left.signal).then((result) => {
      if (!left.signal.aborted) setFound(result);
    });
    return () => left.abort();
  }, [sessionId, path]);
  const look = lookOf(path);
  const isText = found?.ok === true && found.value.kind === "text";
  return (
    <>
      <div class="files-tools">
        <button
          ref={back}
          type="button"
          class="icon-button small back"
          aria-label="Back to files"
          onClick={onBack}
        >
          <Icon name="chevron" />
        </button>
        <h2 class="files-where" title={exact(path)}>
          {exact(nameOf(path))}
        </h2>
        <span class="spread" />
        {isText && look !== "source" ? (
          <button
            type="button"
            class="button small"
            aria-pressed={asSource}
            onClick={() => setAsSource(!asSource)}
          >
            Source
          </button>
        ) : null}
        <button
          type="button"
          class="icon-button small"
          aria-label="Mention in the message"
          title="Mention in the message"
          onClick={() => addMention(path)}
        >
          <Icon name="attach" />
        </button>
        <button
          type="button"
          class="icon-button small"
          aria-label="Download"
          title="Download"
          onClick={() => void fetchFile(contentPath(sessionId, path, "&download=true"), "")}
        >
          <Icon name="download" />
        </button>
      </div>
      {found === null ? (
        <p class="panel-note">
          <span class="spinner" /> Reading the file
        </p>
      ) : found.ok ? (
        <Shown sessionId={sessionId} path={path} file={found.value} look={asSource ? "source" : look} />
      ) : (
        <p class="panel-note problem" role="alert">
          {harmless(found.trouble.message)}
        </p>
      )}
    </>
  );
}

/** Puts the file's name at the end of the message that is being written. */
function addMention(path: string): void {
  const draft = session.value?.draft.value ?? "";
  const space = draft === "" || /\s$/.test(draft) ? "" : " ";
  saveDraft(`${draft}${space}${mention(path)} `);
  focusComposer();
}

/** How a text is shown first, from its name. */
function lookOf(path: string): Look {
  if (/\.(?:md|markdown)$/i.test(path)) return "markdown";
  return /\.(?:csv|tsv)$/i.test(path) ? "table" : "source";
}

interface ShownProps {
  readonly sessionId: string;
  readonly path: string;
  readonly file: Beginning;
  readonly look: Look;
}

function Shown({ sessionId, path, file, look }: ShownProps): JSX.Element {
  const address = contentPath(sessionId, path);
  switch (file.kind) {
    case "image":
      return <Picture address={address} name={exact(nameOf(path))} />;
    case "pdf":
      return <Pdf address={address} name={exact(nameOf(path))} />;
    case "bytes":
      return <p class="panel-note">No preview for this file ({bytes(file.bytes)}). Download it instead.</p>;
    case "text":
      return (
        <>
          {file.isCut ? (
            <p class="panel-note">
              The first {bytes(PREVIEW_BYTES)} of {bytes(file.bytes)}. Download it to see the rest.
            </p>
          ) : null}
          {file.bytes === 0 ? (
            <p class="panel-note">This file is empty.</p>
          ) : (
            <TextView path={path} file={file} look={look} />
          )}
        </>
      );
  }
}

function TextView({ path, file, look }: Omit<ShownProps, "sessionId">): JSX.Element {
  const text = useMemo(() => harmless(file.text), [file.text]);
  if (look === "markdown")
    return (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      <div class="files-view prose-view" tabIndex={0} role="group" aria-label="Document">
        <Prose text={text} />
      </div>
    );
  if (look === "table") return <SheetView text={text} />;
  const ending = /\.([A-Za-z0-9]+)$/.exec(path)?.[1] ?? "";
  return (
    <div class="files-view source">
      <ShadedText
        text={text}
        language={languageOf(ending === "patch" ? "diff" : ending).language}
        label="Contents"
      />
    </div>
  );
}

function SheetView({ text }: { readonly text: string }): JSX.Element {
  const sheet = useMemo(() => sheetOf(text), [text]);
  const [head = [], ...rows] = sheet.rows;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div class="files-view" tabIndex={0} role="group" aria-label="Table">
      {sheet.isCut ? (
        <p class="panel-note">The first {plural(sheet.rows.length, "row")}, as far as they fit.</p>
      ) : null}
      <table class="files-sheet">
        <thead>
          <tr>
            {head.map((cell, at) => (
              <th key={at} scope="col">
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, nth) => (
            <tr key={nth}>
              {row.map((cell, at) => (
                <td key={at}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What the browser fetches by itself has an address with a ticket in it. */
function useTicketed(address: string): string {
  const [src, setSrc] = useState("");
  useEffect(() => {
    let isWanted = true;
    void ticketed(address).then((found) => isWanted && setSrc(found));
    return () => {
      isWanted = false;
    };
  }, [address]);
  return src;
}

interface TicketedProps {
  readonly address: string;
  readonly name: string;
}

function Picture({ address, name }: TicketedProps): JSX.Element {
  const src = useTicketed(address);
  return (
    <div class="files-view">{src === "" ? null : <img class="files-picture" alt={name} src={src} />}</div>
  );
}

/** The browser's own viewer; one that has none shows nothing here, and the file can be downloaded. */
function Pdf({ address, name }: TicketedProps): JSX.Element {
  const src = useTicketed(address);
  return src === "" ? (
    <p class="panel-note">Opening the PDF</p>
  ) : (
    <iframe class="files-pdf" title={name} src={src} />
  );
}
