// Takes the planted bugs out of a built tree before it is published: every `mutant("...")` becomes `false`, the imports of
// the switch go, and so does the switch itself. Fails when a use remains. sim/ is not published and stays as it is.
//   tsx scripts/strip-mutants.ts <dist folder>
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, sep } from "node:path";
import ts from "typescript";

const SWITCH = "mutant";
const SWITCH_MODULE = /(^|\/)base\/mutant\.js$|^\.\/mutant\.js$/;

interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The source without planted bugs. Throws, naming the place, when a use is neither an import nor a call with one literal. */
export function stripMutants(path: string, source: string): string {
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.ES2022, true, ts.ScriptKind.JS);
  const edits: Edit[] = [];
  const visit = (node: ts.Node): void => {
    const edit = editFor(file, node);
    if (edit === undefined) ts.forEachChild(node, visit);
    else edits.push(edit);
  };
  visit(file);
  return applyEdits(source, edits);
}

function editFor(file: ts.SourceFile, node: ts.Node): Edit | undefined {
  const replace = (text: string): Edit => ({ start: node.getStart(file), end: node.getEnd(), text });
  if (ts.isImportDeclaration(node) && SWITCH_MODULE.test((node.moduleSpecifier as ts.StringLiteral).text))
    return replace("");
  if (isSwitchCall(node)) return replace("false");
  if (!ts.isIdentifier(node) || node.text !== SWITCH || isMemberName(node)) return undefined;
  const { line } = file.getLineAndCharacterOfPosition(node.getStart(file));
  throw new Error(`${file.fileName}:${line + 1}: a planted bug takes one string literal: ${SWITCH}("id")`);
}

function isSwitchCall(node: ts.Node): boolean {
  if (!ts.isCallExpression(node) || !ts.isIdentifier(node.expression) || node.expression.text !== SWITCH) return false;
  const [id] = node.arguments;
  return node.arguments.length === 1 && id !== undefined && ts.isStringLiteral(id);
}

function isMemberName(node: ts.Identifier): boolean {
  const { parent } = node;
  return (
    (ts.isPropertyAccessExpression(parent) && parent.name === node) ||
    (ts.isPropertyAssignment(parent) && parent.name === node)
  );
}

function applyEdits(source: string, edits: readonly Edit[]): string {
  let result = source;
  for (const { start, end, text } of [...edits].sort((left, right) => right.start - left.start)) {
    result = result.slice(0, start) + text + result.slice(end);
  }
  return result;
}

/** Strips a built tree in place; how many files had a planted bug. */
export function stripTree(dist: string): number {
  const paths = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter(
    (path) => path.endsWith(".js") && !path.startsWith(`sim${sep}`) && path !== join("base", "mutant.js"),
  );
  let stripped = 0;
  for (const path of paths) {
    const source = readFileSync(join(dist, path), "utf8");
    const result = stripMutants(path, source);
    if (result === source) continue;
    writeFileSync(join(dist, path), result);
    stripped += 1;
  }
  rmSync(join(dist, "base", "mutant.js"), { force: true });
  rmSync(join(dist, "base", "mutant.d.ts"), { force: true });
  // The next build must write everything anew.
  for (const name of readdirSync(dist)) if (name.endsWith(".tsbuildinfo")) rmSync(join(dist, name));
  return stripped;
}

if (import.meta.filename === process.argv[1]) {
  const dist = process.argv[2];
  if (dist === undefined || !existsSync(dist)) throw new Error("usage: tsx scripts/strip-mutants.ts <dist folder>");
  console.error(`strip-mutants: ${stripTree(dist)} files had planted bugs, none remains`);
}
