/** What the page and the frame that draws diagrams say to each other. */

/** A longer one stays its source: to lay it out would take too long. */
export const DIAGRAM_CHARS_MAX = 20_000;

export interface Wanted {
  readonly text: string;
  readonly dark: boolean;
}

/** An empty `svg` is no diagram: the source has a mistake. */
export interface Drawing {
  readonly svg: string;
  readonly width: number;
  readonly height: number;
}
