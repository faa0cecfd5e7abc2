/** Work for the screen: at once while someone looks, and now and then while nobody does. */

const HIDDEN_MS = 200;

/** A function that lets `work` run now or, where nobody looks, soon and once however often it is called until then. */
export function forReaders(work: () => void): () => void {
  let isDue = false;
  return () => {
    if (document.visibilityState !== "hidden") {
      work();
    } else if (!isDue) {
      isDue = true;
      setTimeout(() => {
        isDue = false;
        work();
      }, HIDDEN_MS);
    }
  };
}
