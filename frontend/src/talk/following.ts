/** Scrolling: the newest line is followed only while the reader is at the bottom, and nothing ever yanks. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const NEAR_PX = 64;
const OLDER_PX = 1200;

export interface Following {
  readonly scroller: (element: HTMLElement | null) => void;
  readonly column: (element: HTMLElement | null) => void;
  readonly atBottom: boolean;
  readonly jump: () => void;
  /** Brings what the selector names into sight, with the focus; what it gives back ends that early. */
  readonly look: (selector: string) => () => void;
}

interface Options {
  /** Another session is another text: it begins at its end. */
  readonly sessionId: string;
  /** The key of the first row: it changes when older rows were put in front. */
  readonly firstKey: string;
  readonly onNearTop: () => void;
}

export function useFollowing({ sessionId, firstKey, onNearTop }: Options): Following {
  const scroller = useRef<HTMLElement | null>(null);
  const column = useRef<HTMLElement | null>(null);
  const follows = useRef(true);
  const lastTop = useRef(0);
  const [atBottom, setAtBottom] = useState(true);
  const nearTop = useRef(onNearTop);
  nearTop.current = onNearTop;

  const toEnd = useCallback((): void => {
    const box = scroller.current;
    if (box === null) return;
    box.scrollTop = box.scrollHeight;
    lastTop.current = box.scrollTop;
  }, []);

  const watch = useCallback((): void => {
    const box = scroller.current;
    if (box === null) return;
    const left = box.scrollHeight - box.scrollTop - box.clientHeight;
    // growing text moves the bottom away, but only a reader moves upwards
    if (left <= 2) follows.current = true;
    else if (box.scrollTop < lastTop.current - 1) follows.current = false;
    else if (left <= NEAR_PX && box.scrollTop > lastTop.current) follows.current = true;
    lastTop.current = box.scrollTop;
    setAtBottom(follows.current || left <= NEAR_PX);
    if (box.scrollTop < OLDER_PX) nearTop.current();
  }, []);

  useEffect(() => {
    const box = scroller.current;
    const inner = column.current;
    if (box === null || inner === null) return;
    const settle = (): void => {
      if (follows.current) toEnd();
      else watch();
      // rows that do not fill the box cannot be scrolled to what is above them
      if (box.scrollHeight <= box.clientHeight) nearTop.current();
    };
    const sizes = new ResizeObserver(settle);
    sizes.observe(inner);
    sizes.observe(box);
    const upwards = (event: WheelEvent): void => {
      if (event.deltaY < 0 && box.scrollHeight > box.clientHeight) follows.current = false;
    };
    box.addEventListener("scroll", watch, { passive: true });
    box.addEventListener("wheel", upwards, { passive: true });
    return () => {
      sizes.disconnect();
      box.removeEventListener("scroll", watch);
      box.removeEventListener("wheel", upwards);
    };
  }, [watch, toEnd]);

  useLayoutEffect(() => {
    follows.current = true;
    setAtBottom(true);
    toEnd();
  }, [sessionId, toEnd]);

  useKeptPlace(scroller, { sessionId, firstKey });

  const jump = useCallback((): void => {
    follows.current = true;
    setAtBottom(true);
    toEnd();
  }, [toEnd]);
  return {
    scroller: useCallback((element) => {
      scroller.current = element;
    }, []),
    column: useCallback((element) => {
      column.current = element;
    }, []),
    atBottom,
    jump,
    look: useCallback((selector) => {
      const go = (): HTMLElement | null => {
        const row = scroller.current?.querySelector<HTMLElement>(selector) ?? null;
        follows.current = false;
        row?.scrollIntoView({ block: "center" });
        lastTop.current = scroller.current?.scrollTop ?? 0;
        return row;
      };
      // only now: a frame later someone may have begun to write
      go()?.focus({ preventScroll: true });
      // again when the rows around it have their heights
      let frame = requestAnimationFrame(() => {
        go();
        frame = requestAnimationFrame(go);
      });
      return () => cancelAnimationFrame(frame);
    }, []),
  };
}

/** Rows put in front push nothing away: what was looked at stays where it was. */
function useKeptPlace(
  scroller: { readonly current: HTMLElement | null },
  { sessionId, firstKey }: { readonly sessionId: string; readonly firstKey: string },
): void {
  const before = useRef({ sessionId, firstKey });
  const was = before.current;
  const isPrepended = was.sessionId === sessionId && was.firstKey !== firstKey && was.firstKey !== "";
  // measured while the old rows stand alone
  const seen = isPrepended && scroller.current !== null ? firstSeen(scroller.current) : null;
  const top = seen?.getBoundingClientRect().top ?? 0;
  useLayoutEffect(() => {
    before.current = { sessionId, firstKey };
    if (scroller.current === null || !seen?.isConnected) return;
    scroller.current.scrollTop += seen.getBoundingClientRect().top - top;
  }, [sessionId, firstKey]);
}

/** The uppermost row of which something can be seen. */
function firstSeen(box: HTMLElement): Element | null {
  const { top } = box.getBoundingClientRect();
  for (const row of box.querySelectorAll(".talk-row"))
    if (row.getBoundingClientRect().bottom > top) return row;
  return null;
}
