/** The chat itself: what was said, what waits, and where to say more. */
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { ProposalPlace } from "../features/memory/proposal_place.tsx";
import { PlanPlace } from "../features/plans/plan_place.tsx";
import { UndoPlace } from "../features/undo/undo_place.tsx";
import { Welcome } from "../frame/welcome.tsx";
import { Icon } from "../icons.tsx";
import { create, type OpenSession, open, session } from "../state.ts";
import { AskPlace } from "./ask_place.tsx";
import { attachDropped } from "./attachments.ts";
import { Composer } from "./composer.tsx";
import { OriginPlace } from "./origin_place.tsx";
import { QueuePlace } from "./queue_place.tsx";
import { Transcript } from "./transcript.tsx";

export function Talk(): JSX.Element {
  const here = session.value;
  const { dragging, ...drop } = useDrop();
  return (
    <div class="talk" {...drop}>
      {here === null ? <Start /> : <Middle here={here} />}
      <div class="dock">
        {here === null ? null : <PlanPlace here={here} />}
        {here === null ? null : <ProposalPlace here={here} />}
        {here === null ? null : <AskPlace here={here} />}
        {here === null ? null : <QueuePlace here={here} />}
        {here === null ? null : <UndoPlace here={here} />}
        {here === null ? null : <OriginPlace here={here} />}
        {here?.stage.value === "gone" ? null : <Composer />}
      </div>
      {dragging ? (
        <div class="drop" aria-hidden="true">
          <Icon name="attach" />
          Drop files to attach them
        </div>
      ) : null}
    </div>
  );
}

function Start(): JSX.Element {
  return (
    <div class="transcript start">
      <Welcome />
    </div>
  );
}

function Middle({ here }: { readonly here: OpenSession }): JSX.Element {
  const stage = here.stage.value;
  const isEmpty =
    here.entries.value.length === 0 && here.pending.value.length === 0 && here.waiting.value.length === 0;
  switch (stage) {
    case "gone":
      return (
        <Stage words="This chat doesn't exist. It may have been deleted, or the address is wrong.">
          <button type="button" class="button primary" onClick={create}>
            New chat
          </button>
        </Stage>
      );
    case "failed":
      if (!isEmpty) break;
      return (
        <Stage words={here.trouble.value?.message ?? "Couldn't load this chat."}>
          <button type="button" class="button" onClick={() => open(here.id)}>
            Try again
          </button>
        </Stage>
      );
    case "loading":
      if (!isEmpty) break;
      return <Loading />;
    case "new":
    case "ready":
      break;
  }
  return isEmpty ? <Start /> : <Transcript here={here} />;
}

function Stage({ words, children }: { readonly words: string; readonly children: JSX.Element }): JSX.Element {
  return (
    <div class="transcript stage">
      <p>{words}</p>
      {children}
    </div>
  );
}

/** The shape of what is about to come; it shows itself only when that takes a moment. */
function Loading(): JSX.Element {
  return (
    <div class="transcript" aria-busy="true">
      <div class="column loading">
        <span class="unseen">Loading</span>
        <span class="bone short right" />
        <span class="bone" />
        <span class="bone" />
        <span class="bone short" />
      </div>
    </div>
  );
}

interface Drop {
  readonly dragging: boolean;
  readonly onDragEnter: (event: DragEvent) => void;
  readonly onDragOver: (event: DragEvent) => void;
  readonly onDragLeave: () => void;
  readonly onDrop: (event: DragEvent) => void;
}

function useDrop(): Drop {
  const [dragging, setDragging] = useState(false);
  const depth = useRef(0);
  const isFiles = (event: DragEvent): boolean => [...(event.dataTransfer?.types ?? [])].includes("Files");
  return {
    dragging,
    onDragEnter: (event) => {
      if (!isFiles(event)) return;
      depth.current += 1;
      setDragging(true);
    },
    onDragOver: (event) => {
      if (isFiles(event)) event.preventDefault();
    },
    onDragLeave: () => {
      depth.current = Math.max(0, depth.current - 1);
      if (depth.current === 0) setDragging(false);
    },
    onDrop: (event) => {
      if (!isFiles(event)) return;
      event.preventDefault();
      depth.current = 0;
      setDragging(false);
      if (event.dataTransfer) attachDropped(event.dataTransfer.items);
    },
  };
}
