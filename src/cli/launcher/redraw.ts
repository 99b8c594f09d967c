// Draws lines in place on a terminal: over the ones drawn before, only when they are others, and anew after the window changed its size.

export interface DrawTarget {
  write(text: string): unknown;
}

const HIDE_CURSOR = "\u001b[?25l";
const SHOW_CURSOR = "\u001b[?25h";
const TO_LINE_END = "\u001b[K";
const TO_SCREEN_END = "\u001b[J";
const CLEAR_SCREEN = "\u001b[2J\u001b[H";

export class Redraw {
  readonly #target: DrawTarget;
  #drawn: readonly string[] = [];

  constructor(target: DrawTarget) {
    this.#target = target;
  }

  /** The lines must be shorter than the terminal is wide, and fewer than it is high. */
  draw(lines: readonly string[]): void {
    const isSame = lines.length === this.#drawn.length && lines.every((text, index) => text === this.#drawn[index]);
    if (isSame) return;
    const body = lines.map((text) => `${text}${TO_LINE_END}\n`).join("");
    this.#target.write(`${HIDE_CURSOR}${this.#back()}${body}${TO_SCREEN_END}`);
    this.#drawn = lines;
  }

  /** Text that stays, above what is drawn. */
  print(text: string): void {
    const body = this.#drawn.map((one) => `${one}${TO_LINE_END}\n`).join("");
    this.#target.write(`${this.#back()}${TO_SCREEN_END}${text}\n${body}`);
  }

  /** After a change of size nobody knows where the lines are: they begin anew at the top. */
  startOver(): void {
    this.#drawn = [];
    this.#target.write(CLEAR_SCREEN);
  }

  /** What is drawn stays; the next output comes below it. */
  end(): void {
    this.#target.write(SHOW_CURSOR);
    this.#drawn = [];
  }

  #back(): string {
    return this.#drawn.length === 0 ? "" : `\u001b[${this.#drawn.length}A\r`;
  }
}
