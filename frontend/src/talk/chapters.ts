/** Rows in chapters: what is far out of sight leaves the page a chapter at a time; pure. */

// below this many rows all of them stay, so that the browser's own search finds everything
export const ROWS_KEPT = 400;
const CHAPTER_ROWS = 40;
const CHAPTER_ROWS_MAX = 80;

interface Row {
  readonly kind: string;
  readonly key: string;
}

export interface Chapter<Any extends Row> {
  readonly key: string;
  readonly rows: readonly Any[];
}

/** The rows in chapters; one that was there before begins where it began, and is the same object if its rows are. */
export function chaptersOf<Any extends Row>(
  rows: readonly Any[],
  before: readonly Chapter<Any>[],
): readonly Chapter<Any>[] {
  const known = new Map(before.map((chapter) => [chapter.key, chapter]));
  const chapters: Chapter<Any>[] = [];
  let open: Any[] = [];
  const close = (): void => {
    const first = open[0];
    if (first !== undefined) chapters.push(kept(known.get(first.key), { key: first.key, rows: open }));
    open = [];
  };
  for (const row of rows) {
    if (known.has(row.key) || isFull(open.length, row)) close();
    open.push(row);
  }
  close();
  return chapters;
}

/** A chapter ends before what a person said, if it can; a message begins one before it has its place, too. */
function isFull(length: number, next: Row): boolean {
  const isSaid = next.kind === "person" || next.kind === "unplaced";
  return length >= CHAPTER_ROWS_MAX || (length >= CHAPTER_ROWS && isSaid);
}

function kept<Any extends Row>(earlier: Chapter<Any> | undefined, chapter: Chapter<Any>): Chapter<Any> {
  const { rows } = chapter;
  const isSame = earlier?.rows.length === rows.length && rows.every((row, at) => row === earlier.rows[at]);
  return earlier !== undefined && isSame ? earlier : chapter;
}
