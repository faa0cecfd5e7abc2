/** Room for streams: a browser opens few connections to one server, and all tabs share them.
 *
 * A tab that someone looks at always has its stream. Of the hidden ones, a few keep theirs (so that they can
 * call for a person); the others let go, and catch up when they are looked at. Without locks, as on a plain
 * HTTP address of a network, where nothing can be notified either, all hidden ones let go.
 */

const SLOTS = 3;

let release: (() => void) | null = null;

/** Whether this hidden tab may keep its stream. */
export async function takeSlot(): Promise<boolean> {
  for (let slot = 0; release === null && slot < SLOTS && "locks" in navigator; slot += 1) {
    await hold(`holdfast-stream-${slot}`);
  }
  return release !== null;
}

/** The tab is looked at and needs no slot. */
export function leaveSlot(): void {
  release?.();
  release = null;
}

/** Resolves once it is clear whether the lock is ours; it is held until it is released. */
function hold(name: string): Promise<void> {
  return new Promise((decided) => {
    const held = navigator.locks.request(name, { ifAvailable: true }, (lock) => {
      if (lock === null) {
        decided();
        return undefined;
      }
      return new Promise<void>((end) => {
        release = end;
        decided();
      });
    });
    held.catch(() => decided());
  });
}
