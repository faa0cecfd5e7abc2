/** Collects other people's work in the bundles: the license text of each package, and a CycloneDX list of all. */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Metafile } from "esbuild";

const HERE = import.meta.dirname;
const MODULES = join(HERE, "node_modules");

/** What may be in the page. `license` in pyproject.toml names the same licenses; DOMPurify's is a choice of two. */
const LICENSES = new Set(["Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "OFL-1.1", "(MPL-2.0 OR Apache-2.0)"]);
const LICENSE_FILE = /^(licen[cs]e|copying|notice)[^/]*$/i;
const SCRIPT = /\.(m|c)?js$/;

/** Packages that name no license in package.json; their license file does. */
const UNNAMED: Readonly<Record<string, string>> = { khroma: "MIT" };

/** MIT packages that only exist inside a bundle of another one, and their text in `licenses/`. */
const INLINED: Readonly<Record<string, string>> = {
  "chevrotain-allstar": "chevrotain-allstar",
  fastdom: "fastdom",
  "js-yaml": "js-yaml",
  langium: "langium",
  "path-browserify": "path-browserify",
  "vscode-jsonrpc": "vscode-languageserver",
  "vscode-languageserver-protocol": "vscode-languageserver",
  "vscode-languageserver-textdocument": "vscode-languageserver",
  "vscode-languageserver-types": "vscode-languageserver",
  "vscode-uri": "vscode-uri",
};

/** Packages inside a bundle that has no source map to show them. */
const HIDDEN: Readonly<Record<string, readonly string[]>> = {
  "@mermaid-js/parser": ["vscode-uri"],
  roughjs: ["hachure-fill", "path-data-parser", "points-on-curve", "points-on-path"],
};

type Part = {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly text: string;
};

/** Write `licenses/` and `page.cdx.json` into the folder; fails if a package has no license text that we accept. */
export function writeThirdParty(outputs: readonly Metafile["outputs"][], folder: string): void {
  const parts = new Map<string, Part>();
  for (const input of inputsOf(outputs)) {
    for (const part of partsOf(input)) parts.set(fileName(part), part);
  }
  const sorted = [...parts].sort(([a], [b]) => (a < b ? -1 : 1));
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, "licenses"), { recursive: true });
  for (const [name, { text }] of sorted) writeFileSync(join(folder, "licenses", `${name}.txt`), text);
  const bom = {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: { component: { type: "application", name: "holdfast-page" } },
    components: sorted.map(([, part]) => component(part)),
  };
  writeFileSync(join(folder, "page.cdx.json"), `${JSON.stringify(bom, null, 2)}\n`);
}

/** The files of packages of which something is in an output. */
function inputsOf(outputs: readonly Metafile["outputs"][]): ReadonlySet<string> {
  const files = outputs
    .flatMap((output) => Object.values(output))
    .flatMap(({ inputs }) => Object.entries(inputs));
  const used = files.filter(
    ([path, { bytesInOutput }]) => bytesInOutput > 0 && path.includes("node_modules/"),
  );
  return new Set(used.map(([path]) => path));
}

function partsOf(input: string): Part[] {
  const [folder, name] = /^.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input) ?? [];
  if (folder === undefined || name === undefined) throw new Error(`no package has ${input}`);
  if (input.endsWith(".woff2")) return [fonts(join(HERE, folder))];
  const hidden = (HIDDEN[name] ?? []).map((other) => inlined(other, ""));
  return [installed(join(HERE, folder)), ...hidden, ...mapped(`${join(HERE, input)}.map`)];
}

/** The packages that a bundle's source map names. */
function mapped(map: string): Part[] {
  if (!existsSync(map)) return [];
  const { sources } = JSON.parse(readFileSync(map, "utf8")) as { readonly sources: readonly string[] };
  return sources.flatMap((source) => {
    const [, name] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source) ?? [];
    const [, version = ""] = /\.pnpm\/(?:@[^/@]+\+)?[^/@]+@([0-9][^/_]*)/.exec(source) ?? [];
    return name === undefined ? [] : [inlined(name, version)];
  });
}

function inlined(name: string, version: string): Part {
  const folder = join(MODULES, name);
  if (existsSync(folder)) {
    const part = installed(folder);
    return version ? { ...part, version } : part;
  }
  const text = INLINED[name];
  if (text === undefined)
    throw new Error(`${name} is inside a bundle; put its license into licenses/ and INLINED`);
  return { name, version, license: "MIT", text: readFileSync(join(HERE, "licenses", `${text}.txt`), "utf8") };
}

function installed(folder: string): Part {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Part;
  const named = license ?? UNNAMED[name];
  if (!LICENSES.has(named))
    throw new Error(`${name} has the license ${named}, which the page may not contain`);
  const files = readdirSync(folder).filter((file) => LICENSE_FILE.test(file) && !SCRIPT.test(file));
  if (files.length === 0) throw new Error(`${name} has no license text`);
  const texts = files
    .sort()
    .map((file) => readFileSync(join(folder, file), "utf8").replaceAll("\r", "").trim());
  return { name, version, license: named, text: `${texts.join(`\n\n${"-".repeat(78)}\n\n`)}\n` };
}

function fonts(katex: string): Part {
  const text = readFileSync(join(HERE, "licenses", "katex-fonts.txt"), "utf8");
  return { name: "katex-fonts", version: installed(katex).version, license: "OFL-1.1", text };
}

function fileName({ name, version }: Part): string {
  return [name.replace("@", "").replace("/", "-"), version].filter((part) => part !== "").join("-");
}

function component({ name, version, license }: Part): object {
  const names = name === "katex-fonts" ? "katex" : name.replace("@", "%40");
  return {
    type: "library",
    name,
    ...(version && { version }),
    licenses: [license.includes(" ") ? { expression: license } : { license: { id: license } }],
    purl: `pkg:npm/${names}${version && `@${version}`}`,
  };
}
