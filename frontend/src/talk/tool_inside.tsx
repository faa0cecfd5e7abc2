/** An opened tool call: its input and output. */
import type { JSX } from "preact";
import { bytes } from "../format.ts";
import { Icon } from "../icons.tsx";
import { languageOf } from "../markdown/languages.ts";
import { exact, plainOutput } from "../markdown/safe.ts";
import { blobUrl, fetchFile, type ToolEntry } from "../state.ts";
import { AskRow } from "./ask_row.tsx";
import { ShadedText } from "./code_block.tsx";
import { CopyButton } from "./copy_button.tsx";
import { Parts } from "./parts.tsx";
import type { ToolRowProps } from "./tool_row.tsx";
import { isTyped, patchIn } from "./tool_words.ts";

const SHOWN_CHARS_MAX = 64 * 1024;

export function ToolInside({ tool, asked }: ToolRowProps): JSX.Element {
  const output = plainOutput(tool.output);
  const result = plainOutput(tool.result);
  const said = tool.state === "ended" && output.trim() !== "" && result.includes(output.trim()) ? "" : output;
  return (
    <>
      {asked === undefined ? null : <AskRow entry={asked} />}
      {isTyped(tool) ? null : <Arguments tool={tool} />}
      {said.trim() === "" ? null : <Box title="Output" text={said} note={cutNote(tool)} />}
      {tool.state === "ended" ? <Box title="Result" text={result} note="" /> : null}
      <Parts parts={tool.parts} />
      {tool.blob === "" ? null : (
        <button
          type="button"
          class="button quiet small"
          onClick={() => void fetchFile(blobUrl(tool.blob), "")}
        >
          <Icon name="download" />
          Download full output
        </button>
      )}
    </>
  );
}

function cutNote(tool: ToolEntry): string {
  return tool.output_chars > tool.output.length ? `last part of ${bytes(tool.output_chars)}` : "";
}

/** What went in: the command itself if it is one, else the arguments as JSON. */
function Arguments({ tool }: { readonly tool: ToolEntry }): JSX.Element {
  if (tool.bad_args !== "")
    return <Box title="Arguments (not valid JSON)" text={exact(tool.bad_args)} note="" />;
  const patch = patchIn(tool.args);
  if (patch !== "") return <Box title="Patch" text={exact(patch)} note="" language="diff" />;
  const { command, ...others } = tool.args;
  if (typeof command !== "string")
    return <Box title="Arguments" text={exact(written(tool.args))} note="" language="json" />;
  return (
    <>
      <Box title="Command" text={exact(command)} note="" language="bash" />
      {Object.keys(others).length === 0 ? null : (
        <Box title="Options" text={exact(written(others))} note="" language="json" />
      )}
    </>
  );
}

function written(args: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(args, null, 2);
}

interface BoxProps {
  readonly title: string;
  readonly text: string;
  readonly note: string;
  readonly language?: string;
}

function Box({ title, text, note, language = "" }: BoxProps): JSX.Element {
  const shown = text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}\n…` : text;
  return (
    <figure class="box">
      <figcaption>
        <span>{title}</span>
        {note === "" ? null : <span class="muted"> · {note}</span>}
        <CopyButton text={() => text} what={title.toLowerCase()} />
      </figcaption>
      {text === "" ? (
        <p class="muted work-line">Empty</p>
      ) : (
        <ShadedText text={shown} language={languageOf(language).language} label={title} />
      )}
    </figure>
  );
}
