// Takes the planted bugs and the failpoints out of a source before it is published: every `mutant("...")` becomes `false`, every
// `failpoint("...")` `undefined`, and the imports of these switches go. Fails when a use remains.
import ts from "typescript";

interface Switch {
  readonly module: RegExp;
  readonly becomes: string;
}

const SWITCHES: ReadonlyMap<string, Switch> = new Map([
  ["mutant", { module: /(^|\/)base\/mutant\.ts$|^\.\/mutant\.ts$/, becomes: "false" }],
  ["failpoint", { module: /(^|\/)base\/failpoint\.ts$|^\.\/failpoint\.ts$/, becomes: "undefined" }],
]);
/** Where a switch is made. */
const KEPT = ["src/base/mutant.ts", "src/base/failpoint.ts"];

interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The source without planted bugs. Throws, naming the place, when a use is neither an import nor a call with one literal. */
export function stripMutants(path: string, source: string): string {
  if (KEPT.includes(path) || !/mutant|failpoint/.test(source)) return source;
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.ES2022, true, ts.ScriptKind.TS);
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
  if (ts.isImportDeclaration(node) && importsSwitch(node)) return replace("");
  const called = calledSwitch(node);
  if (called !== undefined) return replace(called.becomes);
  if (!ts.isIdentifier(node) || !SWITCHES.has(node.text) || isMemberName(node)) return undefined;
  const { line } = file.getLineAndCharacterOfPosition(node.getStart(file));
  throw new Error(
    `${file.fileName}:${line + 1}: a planted bug or a failpoint takes one string literal: ${node.text}("id")`,
  );
}

/** Of the switch alone: what comes with it is left, and found as a use that remains. */
function importsSwitch(node: ts.ImportDeclaration): boolean {
  const bindings = node.importClause?.namedBindings;
  if (bindings === undefined || !ts.isNamedImports(bindings) || bindings.elements.length !== 1) return false;
  const name = bindings.elements[0]?.name.text ?? "";
  return SWITCHES.get(name)?.module.test((node.moduleSpecifier as ts.StringLiteral).text) === true;
}

function calledSwitch(node: ts.Node): Switch | undefined {
  if (!ts.isCallExpression(node) || !ts.isIdentifier(node.expression)) return undefined;
  const [id] = node.arguments;
  const isWhole = node.arguments.length === 1 && id !== undefined && ts.isStringLiteral(id);
  return isWhole ? SWITCHES.get(node.expression.text) : undefined;
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
