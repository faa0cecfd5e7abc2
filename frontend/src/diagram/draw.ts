/** Diagrams, drawn one after the other in a sandboxed frame; the page trusts nothing of what comes back.
 *
 * The frame has an origin that is nobody's, and no network. Its drawing is shown as an image, where no script runs and
 * nothing is fetched. A frame that doesn't answer in time is thrown away with the diagram that it hangs on.
 */
import { MOUNT } from "../mount.ts";
import { DIAGRAM_CHARS_MAX, type Drawing, type Wanted } from "./messages.ts";

const FRAME = `${MOUNT}/diagram.html`;
const LOADING_MS_MAX = 30_000;
// a busy machine draws slowly, and the source is there meanwhile
const DRAWING_MS_MAX = 20_000;
const SVG_CHARS_MAX = 2_000_000;
const SIDE_MAX = 20_000;
const KEPT_MAX = 50;

/** A diagram as an image. */
export interface Picture {
  readonly src: string;
  readonly width: number;
  readonly height: number;
}

/** A frame that draws, and the line to it. */
interface Drawer {
  readonly element: HTMLIFrameElement;
  readonly port: MessagePort;
}

const kept = new Map<string, Promise<Picture | null>>();
let drawer: Drawer | null = null;
let last: Promise<unknown> = Promise.resolve();

/** The diagram as an image; null if it has none, because of a mistake in it or because it takes too long. */
export function draw(text: string, dark: boolean): Promise<Picture | null> {
  if (text.length > DIAGRAM_CHARS_MAX) return Promise.resolve(null);
  const key = `${dark} ${text}`;
  const known = kept.get(key);
  if (known !== undefined) return known;
  const drawn = last.then(() => drawNow({ text, dark }));
  last = drawn.catch(() => null);
  kept.set(key, drawn);
  // failed loads are retried the next time
  drawn.catch(() => kept.delete(key));
  for (const oldest of kept.keys()) if (kept.size > KEPT_MAX) kept.delete(oldest);
  return drawn;
}

async function drawNow(wanted: Wanted): Promise<Picture | null> {
  drawer ??= await opened();
  const { port, element } = drawer;
  const answer = new Promise<unknown>((resolve) => {
    port.onmessage = ({ data }) => resolve(data);
  });
  port.postMessage(wanted);
  const drawing = await within(DRAWING_MS_MAX, answer);
  if (drawing === LATE) {
    element.remove();
    port.close();
    drawer = null;
    return null;
  }
  return isDrawing(drawing) ? pictureOf(drawing) : null;
}

/** A new frame; raises if it can't be loaded. */
async function opened(): Promise<Drawer> {
  const element = document.createElement("iframe");
  // scripts, and nothing else: no origin, no forms, no windows, no way to lead the page elsewhere
  element.setAttribute("sandbox", "allow-scripts");
  element.className = "diagram-frame";
  element.inert = true;
  element.ariaHidden = "true";
  element.title = "Draws diagrams";
  const loaded = new Promise((resolve) => {
    element.onload = resolve;
  });
  element.src = FRAME;
  document.body.append(element);
  if ((await within(LOADING_MS_MAX, loaded)) === LATE) {
    element.remove();
    throw new Error("the frame for diagrams was not loaded");
  }
  const { port1, port2 } = new MessageChannel();
  // an origin that is nobody's has no name, so the line goes to this very window
  element.contentWindow?.postMessage("draw", "*", [port2]);
  return { element, port: port1 };
}

const LATE = Symbol("late");

async function within<Value>(ms: number, value: Promise<Value>): Promise<Value | typeof LATE> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<typeof LATE>((resolve) => {
    timer = setTimeout(resolve, ms, LATE);
  });
  try {
    return await Promise.race([value, late]);
  } finally {
    clearTimeout(timer);
  }
}

function isDrawing(data: unknown): data is Drawing {
  if (typeof data !== "object" || data === null) return false;
  const { svg, width, height } = data as Partial<Drawing>;
  const isSide = (side: unknown): boolean => typeof side === "number" && side > 0 && side <= SIDE_MAX;
  return (
    typeof svg === "string" && svg !== "" && svg.length <= SVG_CHARS_MAX && isSide(width) && isSide(height)
  );
}

function pictureOf({ svg, width, height }: Drawing): Picture {
  return { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, width, height };
}
