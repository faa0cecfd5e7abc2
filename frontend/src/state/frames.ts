/** Work for the screen: in the next frame after a pause, and then at a pace that a reader takes for smooth. */

// Each frame costs a layout of the text that grew; more of them than this nobody sees.
const PACE_MS = 50;
const HIDDEN_MS = 200;

/** A function that lets `work` run soon, once, however often it is called in between. */
export function atReadersPace(work: () => void): () => void {
  let isDue = false;
  let lastMs = Number.NEGATIVE_INFINITY;
  const run = () => {
    isDue = false;
    lastMs = performance.now();
    work();
  };
  return () => {
    if (isDue) {
      return;
    }
    isDue = true;
    if (document.visibilityState === "hidden") {
      // No frames come there.
      setTimeout(run, HIDDEN_MS);
      return;
    }
    const leftMs = lastMs + PACE_MS - performance.now();
    if (leftMs <= 0) {
      requestAnimationFrame(run);
    } else {
      setTimeout(() => requestAnimationFrame(run), leftMs);
    }
  };
}
