/** Tables in text: comma, semicolon or tab separated, as far as a person reads them; pure. */

const ROWS_MAX = 500;
const COLUMNS_MAX = 50;
const CELL_CHARS_MAX = 500;

export interface Sheet {
  readonly rows: readonly (readonly string[])[];
  readonly isCut: boolean;
}

/** The separator that the first line has most of. */
function separatorOf(text: string): string {
  const first = text.slice(0, text.indexOf("\n") >>> 0);
  const counts = [",", ";", "\t"].map((one) => [one, first.split(one).length] as const);
  return counts.reduce((best, one) => (one[1] > best[1] ? one : best))[0];
}

export function sheetOf(text: string): Sheet {
  const separator = separatorOf(text);
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let isQuoted = false;
  let isCut = false;
  const endCell = (): void => {
    if (row.length < COLUMNS_MAX) row.push(cell.slice(0, CELL_CHARS_MAX));
    else isCut = true;
    if (cell.length > CELL_CHARS_MAX) isCut = true;
    cell = "";
  };
  const endRow = (): void => {
    endCell();
    rows.push(row);
    row = [];
  };
  for (let at = 0; at < text.length; at += 1) {
    if (rows.length >= ROWS_MAX) return { rows, isCut: true };
    const char = text[at] ?? "";
    if (isQuoted) {
      if (char !== '"') cell += char;
      else if (text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else isQuoted = false;
    } else if (char === '"' && cell === "") isQuoted = true;
    else if (char === separator) endCell();
    else if (char === "\n") endRow();
    else if (char !== "\r") cell += char;
  }
  if (cell !== "" || row.length > 0) endRow();
  return { rows, isCut };
}
