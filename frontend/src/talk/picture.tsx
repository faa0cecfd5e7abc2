/** A picture of the server's, which is asked for with a ticket. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../icons.tsx";
import { ticketed } from "../state.ts";

interface PictureProps {
  readonly path: string;
  readonly alt: string;
  readonly class?: string;
}

export function Picture({ path, alt, class: look }: PictureProps): JSX.Element {
  const [src, setSrc] = useState<string>();
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    let isWanted = true;
    void ticketed(path).then((address) => isWanted && setSrc(address));
    return () => {
      isWanted = false;
    };
  }, [path]);
  // one that comes into sight late finds its ticket too old, and gets another, once
  const isAgain = useRef(false);
  const again = async (): Promise<void> => {
    const next = await ticketed(path);
    if (isAgain.current || next === src) setBroken(true);
    isAgain.current = true;
    setSrc(next);
  };
  if (isBroken)
    return (
      <span class="broken-picture">
        <Icon name="file" />
        {alt === "" ? null : `${alt} (can't be shown)`}
      </span>
    );
  return (
    <img
      class={look}
      alt={alt}
      src={src}
      loading="lazy"
      onError={() => void again()}
      onLoad={async ({ currentTarget }) => setBroken(!(await isWhole(currentTarget)))}
    />
  );
}

/** Whether there is something to see: a browser loads a picture that breaks off, and shows nothing of it. */
function isWhole(image: HTMLImageElement): Promise<boolean> {
  return createImageBitmap(image, { resizeWidth: 1, resizeHeight: 1 }).then(
    (map) => {
      map.close();
      return true;
    },
    () => false,
  );
}
