/** A picture of the server's, which is asked for with a ticket. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ticketed } from "../state.ts";

interface PictureProps {
  readonly path: string;
  readonly alt: string;
  readonly class?: string;
}

export function Picture({ path, alt, class: look }: PictureProps): JSX.Element {
  const [src, setSrc] = useState<string>();
  // one that comes into sight late finds its ticket too old, and gets another
  const [late, setLate] = useState(false);
  useEffect(() => void ticketed(path).then(setSrc), [path, late]);
  return <img class={look} alt={alt} src={src} loading="lazy" onError={() => setLate(true)} />;
}
