/** Builds the page into the first folder that is named: a script, a style sheet and a few lines that run before both are
 * the first load; chunks are fetched when they are needed. All have a hash in their name. The licenses of other people's
 * work in it go into the second folder.
 */

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";
import { writeThirdParty } from "./third_party.ts";

const HERE = import.meta.dirname;
const ZIPPED = /\.(js|css|html|svg)$/;
// style sheets that are fetched with the chunk that needs them
const LATER_STYLES = ["panels", "parts", "maths"] as const;
// scripts that share nothing with the page, so that each is one file
const APART = ["src/markdown/highlight.ts", "src/talk/maths_layout.ts", "src/diagram/draw.ts"];

const OUT = resolve(process.argv[2] ?? join(HERE, "../src/holdfast/web"));
const THIRD_PARTY = resolve(process.argv[3] ?? join(HERE, "../third-party"));

const COMMON: BuildOptions = {
  absWorkingDir: HERE,
  outdir: join(OUT, "assets"),
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2023", "chrome120", "firefox121", "safari17"],
  legalComments: "none",
  logLevel: "warning",
};

// Children of `h` need no name, and so fewer bytes than those of `jsx`.
const JSX_OPTIONS = {
  jsx: "react",
  jsxFactory: "h",
  jsxFragmentFactory: "Fragment",
  target: "es2023",
} as const;

type Outputs = Metafile["outputs"];

const bundled: Outputs[] = [];

async function bundle(entryPoints: readonly string[], more: BuildOptions = {}): Promise<Outputs> {
  const { metafile } = await build({ ...COMMON, entryPoints: [...entryPoints], ...more, metafile: true });
  bundled.push(metafile.outputs);
  return metafile.outputs;
}

/** The name of what was made of a file of the source. */
function nameOf(outputs: Outputs, entry: string): string {
  const path = Object.keys(outputs).find((name) => outputs[name]?.entryPoint === entry);
  if (path === undefined) throw new Error(`nothing was made of ${entry}`);
  return basename(path);
}

/** The address of it. The server puts its `mount_path` in front, in the documents. */
function addressOf(outputs: Outputs, entry: string): string {
  return `/assets/${nameOf(outputs, entry)}`;
}

/** Dynamic imports of files that are bundled by themselves, since they share nothing with the page. */
function apart(addresses: ReadonlyMap<string, string>): Plugin {
  return {
    name: "apart",
    setup(asked) {
      asked.onResolve({ filter: /./ }, ({ kind, path }) => {
        const address = kind === "dynamic-import" ? addresses.get(basename(path)) : undefined;
        return address === undefined ? null : { path: address, external: true };
      });
    },
  };
}

/** KaTeX names each font in three formats, of which every browser that the page supports reads the first. */
const WOFF2_ONLY: Plugin = {
  name: "woff2-only",
  setup(asked) {
    asked.onLoad({ filter: /katex\.min\.css$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      return { contents: text.replace(/,url\([^)]+\) format\("(?:woff|truetype)"\)/g, ""), loader: "css" };
    });
  },
};

/** The page's script, and the chunks that it can't begin without. */
async function bundleMain(): Promise<{ readonly main: string; readonly chunks: readonly string[] }> {
  const styles = await bundle(
    LATER_STYLES.map((name) => `src/styles/${name}.css`),
    { plugins: [WOFF2_ONLY], loader: { ".woff2": "file" } },
  );
  const addresses = LATER_STYLES.map((name) => [name, addressOf(styles, `src/styles/${name}.css`)]);
  const scripts = await bundle(APART);
  const outputs = await bundle(["src/main.tsx"], {
    splitting: true,
    plugins: [apart(new Map(APART.map((path) => [basename(path), `./${nameOf(scripts, path)}`])))],
    define: { STYLES: JSON.stringify(Object.fromEntries(addresses)) },
    inject: ["src/jsx.ts"],
    tsconfigRaw: { compilerOptions: { ...JSX_OPTIONS, verbatimModuleSyntax: true } },
  });
  const main = addressOf(outputs, "src/main.tsx");
  const { imports } = Object.entries(outputs).find(([path]) => path.endsWith(basename(main)))?.[1] ?? {};
  const atOnce = imports?.filter(({ kind, external }) => kind === "import-statement" && !external) ?? [];
  return { main, chunks: atOnce.map(({ path }) => `/assets/${basename(path)}`) };
}

/** The page's own file with the hashed names in place of the plain ones. */
function writeIndex(names: Readonly<Record<string, string>>, chunks: readonly string[]): void {
  let text = readFileSync(join(HERE, "index.html"), "utf8");
  for (const [plain, address] of Object.entries(names)) {
    if (!text.includes(`"/${plain}"`)) throw new Error(`index.html has no ${plain}`);
    text = text.replace(`"/${plain}"`, `"${address}"`);
  }
  // the browser fetches the chunks beside the script, not after it
  const preloads = chunks.map((address) => `<link rel="modulepreload" href="${address}">\n`).join("");
  text = text.replace("</head>", `${preloads}</head>`);
  writeFileSync(join(OUT, "index.html"), text.replace(/<!--.*?-->/gs, "").replace(/\n\s*/g, "\n"));
}

/** Mermaid without elkjs, whose licenses are EPL and GPL. Diagrams that ask for ELK's layouts get Mermaid's default. */
const WITHOUT_ELK: Plugin = {
  name: "without-elk",
  setup(asked) {
    asked.onResolve({ filter: /\/elk-\w+\.mjs$/ }, ({ resolveDir }) => {
      const dagre = readdirSync(resolveDir).find((name) => /^dagre-\w+\.mjs$/.test(name));
      if (dagre === undefined) throw new Error("Mermaid has no dagre layout");
      return { path: join(resolveDir, dagre) };
    });
  },
};

/** The document in which diagrams are drawn: its script is one plain file, since modules need an origin. */
async function writeFrame(): Promise<void> {
  const script = await bundle(["src/diagram/frame.ts"], {
    format: "iife",
    entryNames: "diagram-[hash]",
    plugins: [WITHOUT_ELK],
  });
  const text = readFileSync(join(HERE, "src/diagram/frame.html"), "utf8");
  writeFileSync(
    join(OUT, "diagram.html"),
    text.replace('"/frame.js"', `"${addressOf(script, "src/diagram/frame.ts")}"`),
  );
}

/** Compressed; where zlib cuts its blocks depends on its memory, and more of it is not always better. */
function smallest(text: Buffer): Buffer {
  const tried = [5, 6, 7, 8, 9].map((memLevel) => gzipSync(text, { level: 9, memLevel }));
  return tried.reduce((best, one) => (one.length < best.length ? one : best));
}

/** Beside each text its compressed form, so that the server compresses nothing. */
function zipAll(folder: string): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      bytes += zipAll(path);
    } else if (ZIPPED.test(entry.name)) {
      const zipped = smallest(readFileSync(path));
      writeFileSync(`${path}.gz`, zipped);
      bytes += zipped.length;
    }
  }
  return bytes;
}

rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT, { recursive: true });
const [first, sheet, { main, chunks }] = await Promise.all([
  bundle(["src/first.ts"]),
  bundle(["src/styles/page.css"], { entryNames: "main-[hash]" }),
  bundleMain(),
  writeFrame(),
]);
writeIndex(
  {
    "first.js": addressOf(first, "src/first.ts"),
    "main.css": addressOf(sheet, "src/styles/page.css"),
    "main.js": main,
  },
  chunks,
);
writeThirdParty(bundled, THIRD_PARTY);
writeFileSync(join(OUT, "icon.svg"), readFileSync(join(HERE, "icon.svg")));
process.stdout.write(`the page: ${zipAll(OUT)} bytes zipped\n`);
