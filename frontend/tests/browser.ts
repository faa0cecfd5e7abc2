/** The few parts of a browser that the page's state needs, for tests outside of one. */

const kept = new Map<string, string>();
export const storage = kept;

/** Answers of the server, by method and path; a path without one cannot be reached. A stream is its own body. */
export interface Answer {
  readonly status?: number;
  readonly body: unknown;
}
export const answers = new Map<string, (body: unknown) => Answer | Promise<Answer>>();
export const requests: { what: string; body: unknown; headers: Headers }[] = [];

/** The answers to a request from now on wait until they are given here, the oldest first. */
export function held(what: string): ((answer: Answer) => void)[] {
  const waiting: ((answer: Answer) => void)[] = [];
  answers.set(what, () => new Promise((answer) => waiting.push(answer)));
  return waiting;
}

/** Whatever is under way without a timer is over. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

Object.assign(globalThis, {
  document: { visibilityState: "visible", addEventListener: () => {} },
  localStorage: {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
    key: (at: number) => [...kept.keys()][at] ?? null,
    get length() {
      return kept.size;
    },
  },
  fetch: async (path: string, init: RequestInit) => {
    const what = `${init.method ?? "GET"} ${path}`;
    const body = typeof init.body === "string" ? JSON.parse(init.body) : null;
    requests.push({ what, body, headers: new Headers(init.headers) });
    const answer = await answers.get(what)?.(body);
    if (answer === undefined) {
      throw new TypeError("unreachable");
    }
    if (answer.body instanceof ReadableStream) {
      return new Response(answer.body);
    }
    return Response.json(answer.body, { status: answer.status ?? 200 });
  },
});
