// A fetch for AG-UI's HttpAgent. It reads on after a lost connection, so that the body it returns is one whole
// stream, and it stops the run when the agent aborts it.
const LAST = /"type":"(RUN_FINISHED|RUN_ERROR)"/;

export function resumingFetch({ tries = 60, waitMs = 500 } = {}) {
  return async (url, init) => {
    const first = await fetch(url, init);
    if (!first.ok || !first.body) return first;
    const stop = new URL(`/v1/runs/${first.headers.get("x-hermes-run-id")}/stop`, url);
    const stopRun = () => void fetch(stop, { method: "POST", headers: init.headers }).catch(() => {});
    init.signal?.addEventListener("abort", stopRun, { once: true });
    return new Response(rest(url, init, first, { tries, waitMs }), { status: 200, headers: first.headers });
  };
}

function rest(url, init, first, { tries, waitMs }) {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let cursor = "";
  return new ReadableStream({
    async start(out) {
      let answer = first;
      for (let lost = 0; lost <= tries; lost++) {
        let unread = "";
        let over = false;
        try {
          for await (const bytes of answer.body) {
            unread += decoder.decode(bytes, { stream: true });
            const end = unread.lastIndexOf("\n\n") + 2;
            if (end < 2) continue;
            const frames = unread.slice(0, end); // only whole frames are handed on
            unread = unread.slice(end);
            const ids = [...frames.matchAll(/^id: (\d+)$/gm)];
            if (ids.length) [cursor, lost] = [ids.at(-1)[1], 0];
            over ||= LAST.test(frames);
            out.enqueue(encoder.encode(frames));
          }
        } catch (error) {
          if (init.signal?.aborted) return out.error(error);
        }
        if (over) return out.close();
        await new Promise((done) => setTimeout(done, waitMs));
        const headers = { ...init.headers, "Last-Event-ID": cursor };
        answer = await fetch(url, { ...init, headers }).catch(() => answer);
        if (answer.status >= 400 && answer.status < 500) return out.error(new Error(await answer.text()));
        if (!answer.ok) answer = new Response("");
      }
      out.error(new Error("The server did not come back."));
    },
  });
}
