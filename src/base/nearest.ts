// The known word that a wrong one was probably meant to be.

/** Edits (insert, remove, replace, swap of neighbours) from one word to another. */
function editDistance(from: string, to: string): number {
  let before: number[] = [];
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const isSame = from[i - 1] === to[j - 1];
      let cost = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (isSame ? 0 : 1));
      const isSwap = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      if (isSwap) cost = Math.min(cost, (before[j - 2] ?? 0) + 1);
      next.push(cost);
    }
    before = row;
    row = next;
  }
  return row[to.length] ?? 0;
}

/** The known word most like `wrong`, when it is like it at all. */
export function nearest(wrong: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  // Two edits make most short words of any other.
  let bestDistance = (wrong.length <= 4 ? 1 : Math.max(2, Math.floor(wrong.length / 3))) + 1;
  for (const word of known) {
    const distance = editDistance(wrong.toLowerCase(), word.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [word, distance];
  }
  return best;
}
