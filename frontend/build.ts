/** Builds the page into the folder that is named: one script, one style sheet, and a few lines that run before both;
 * all have a hash in their name.
 */

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { type BuildOptions, build } from "esbuild";

const HERE = import.meta.dirname;
const ZIPPED = /\.(js|css|html|svg)$/;

async function bundle(out: string): Promise<readonly string[]> {
  const common: BuildOptions = {
    absWorkingDir: HERE,
    outdir: join(out, "assets"),
    entryNames: "[name]-[hash]",
    bundle: true,
    minify: true,
    format: "esm",
    target: ["es2023", "chrome120", "firefox121", "safari17"],
    legalComments: "none",
    metafile: true,
    logLevel: "warning",
  };
  // Children of `h` need no name, and so fewer bytes than those of `jsx`.
  const compilerOptions = {
    jsx: "react",
    jsxFactory: "h",
    jsxFragmentFactory: "Fragment",
    target: "es2023",
  } as const;
  const made = await Promise.all([
    build({ ...common, entryPoints: ["src/first.ts"] }),
    build({
      ...common,
      entryPoints: ["src/main.tsx"],
      inject: ["src/jsx.ts"],
      tsconfigRaw: { compilerOptions: { ...compilerOptions, verbatimModuleSyntax: true } },
    }),
  ]);
  return made.flatMap(({ metafile }) => Object.keys(metafile?.outputs ?? {})).map((path) => basename(path));
}

/** The page's own file with the hashed names in place of the plain ones. */
function writeIndex(out: string, made: readonly string[]): void {
  let text = readFileSync(join(HERE, "index.html"), "utf8");
  for (const plain of ["first.js", "main.css", "main.js"]) {
    const [stem, kind] = plain.split(".");
    const name = made.find((file) => file.startsWith(`${stem}-`) && file.endsWith(`.${kind}`));
    if (name === undefined || !text.includes(`"/${plain}"`)) {
      throw new Error(`index.html or the bundle has no ${plain}`);
    }
    text = text.replace(`"/${plain}"`, `"/assets/${name}"`);
  }
  writeFileSync(join(out, "index.html"), text.replace(/<!--.*?-->/gs, "").replace(/\n\s*/g, "\n"));
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

const out = resolve(process.argv[2] ?? join(HERE, "../src/holdfast/web"));
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
writeIndex(out, await bundle(out));
writeFileSync(join(out, "icon.svg"), readFileSync(join(HERE, "icon.svg")));
process.stdout.write(`the page: ${zipAll(out)} bytes zipped\n`);
