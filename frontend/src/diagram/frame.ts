/** Draws diagrams inside a sandboxed frame that has no origin and no network; the page gets them as images. */
import mermaid, { type MermaidConfig } from "mermaid";
import { DIAGRAM_CHARS_MAX, type Drawing, type Wanted } from "./messages.ts";

const EDGES_MAX = 300;
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/** What a diagram can't change by a directive or in its front matter: everything. A new setting fails the type check. */
const OURS: Readonly<Record<keyof MermaidConfig, true>> = {
  theme: true,
  themeVariables: true,
  themeCSS: true,
  look: true,
  handDrawnSeed: true,
  layout: true,
  maxTextSize: true,
  maxEdges: true,
  elk: true,
  darkMode: true,
  htmlLabels: true,
  fontFamily: true,
  altFontFamily: true,
  logLevel: true,
  securityLevel: true,
  startOnLoad: true,
  arrowMarkerAbsolute: true,
  secure: true,
  legacyMathML: true,
  forceLegacyMathML: true,
  deterministicIds: true,
  deterministicIDSeed: true,
  flowchart: true,
  swimlane: true,
  agentflow: true,
  sequence: true,
  gantt: true,
  journey: true,
  timeline: true,
  class: true,
  state: true,
  er: true,
  pie: true,
  quadrantChart: true,
  xyChart: true,
  requirement: true,
  architecture: true,
  mindmap: true,
  ishikawa: true,
  kanban: true,
  gitGraph: true,
  c4: true,
  sankey: true,
  packet: true,
  block: true,
  eventmodeling: true,
  treeView: true,
  radar: true,
  usecase: true,
  venn: true,
  cynefin: true,
  railroad: true,
  dompurifyConfig: true,
  wrap: true,
  fontSize: true,
  markdownAutoWrap: true,
  suppressErrorRendering: true,
  "wardley-beta": true,
};

let count = 0;

// the first message of the page that embeds this one brings the line on which they talk
addEventListener("message", ({ source, ports: [port] }: MessageEvent<unknown>): void => {
  if (source !== parent || port === undefined || count > 0) return;
  count = 1;
  port.onmessage = async ({ data }: MessageEvent<Wanted>) => {
    port.postMessage(await drawing(data).catch((): Drawing => ({ svg: "", width: 0, height: 0 })));
  };
});

async function drawing({ text, dark }: Wanted): Promise<Drawing> {
  mermaid.initialize({
    startOnLoad: false,
    securityLevel: "strict",
    suppressErrorRendering: true,
    maxTextSize: DIAGRAM_CHARS_MAX,
    maxEdges: EDGES_MAX,
    theme: dark ? "dark" : "default",
    fontFamily: FONT,
    // an image shows text alone
    htmlLabels: false,
    flowchart: { htmlLabels: false },
    secure: Object.keys(OURS),
  });
  count += 1;
  const { svg } = await mermaid.render(`diagram-${count}`, text);
  return asImage(svg);
}

/** The drawing as XML with a size of its own, as an image must be. */
function asImage(svg: string): Drawing {
  const element = new DOMParser().parseFromString(svg, "text/html").querySelector("svg");
  if (element === null) throw new Error("nothing was drawn");
  const { width, height } = element.viewBox.baseVal;
  element.setAttribute("width", `${width}`);
  element.setAttribute("height", `${height}`);
  element.style.maxWidth = "";
  return { svg: new XMLSerializer().serializeToString(element), width, height };
}
