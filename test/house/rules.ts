// The house rules that neither the compiler nor the linter can hold, as functions from a source file to its faults, so that
// the alarm tests can run them on planted files.
import { basename } from "node:path";
import ts from "typescript";

export interface SourceText {
  /** Relative to the repository, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

export type Rule = (file: ts.SourceFile, path: string) => string[];

export const CORE_FOLDERS = [
  "base",
  "model",
  "ports",
  "raft",
  "metadata",
  "replication",
  "groups",
  "subscriptions",
  "wire",
  "storage",
  "broker",
  "client",
  "sim",
] as const;

const MAX_LINES = 800;
const LINES_WITHOUT_REASON = 500;
const MAX_FUNCTION_LINES = 70;

const REPLACEMENTS: Readonly<Record<string, string>> = {
  Date: "ports/clock.ts",
  performance: "ports/clock.ts",
  setTimeout: "ports/timers.ts",
  setInterval: "ports/timers.ts",
  setImmediate: "ports/timers.ts",
  queueMicrotask: "ports/timers.ts",
  console: "ports/logger.ts",
  process: "platform/ or cli/",
  Buffer: "Uint8Array and base/bytes.ts",
  crypto: "ports/entropy.ts",
  WeakRef: "an explicit close",
  FinalizationRegistry: "an explicit close",
};

/** Every fault of one file, each with its line. */
export function faultsOf({ path, text }: SourceText): string[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true, ts.ScriptKind.TS);
  return RULES.flatMap((rule) => rule(file, path)).map((fault) => `${path}${fault}`);
}

const inSource = (path: string): boolean => path.startsWith("src/");
const inCore = (path: string): boolean => CORE_FOLDERS.some((folder) => path.startsWith(`src/${folder}/`));

const lineOf = (file: ts.SourceFile, node: ts.Node): number =>
  file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1;

/** Lines without the empty one that a final line feed makes. */
const lineCount = (text: string): number => text.split("\n").length - (text.endsWith("\n") ? 1 : 0);

const fileLength: Rule = (file) => {
  const lines = lineCount(file.text);
  if (lines > MAX_LINES) return [`: ${lines} lines, at most ${MAX_LINES}: split it`];
  if (lines > LINES_WITHOUT_REASON && !/^\/\/ size: \S.{9,}/m.test(file.text)) {
    return [`: ${lines} lines, more than ${LINES_WITHOUT_REASON} asks for a line "// size: <the reason>"`];
  }
  return [];
};

/** The body of a describe() is a list of tests, not a function to read in one go. */
function isSuiteBody(node: ts.Node): boolean {
  const call = node.parent;
  return ts.isCallExpression(call) && /^describe\b/.test(call.expression.getText());
}

const functionLength: Rule = (file) => {
  const faults: string[] = [];
  walk(file, (node) => {
    if (!ts.isFunctionLike(node) || isSuiteBody(node)) return;
    const lines = file.getLineAndCharacterOfPosition(node.getEnd()).line + 1 - lineOf(file, node) + 1;
    if (lines > MAX_FUNCTION_LINES)
      faults.push(`:${lineOf(file, node)}: a function of ${lines} lines, at most ${MAX_FUNCTION_LINES}`);
  });
  return faults;
};

/** True for a name that stands for a value, not for a member or a declaration of the same name. */
function isReference(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent) || ts.isQualifiedName(parent)) return parent.getChildAt(0) === node;
  if (ts.isPropertyAssignment(parent)) return parent.initializer === node;
  return !("name" in parent && parent.name === node);
}

/** Names that the file declares itself, anywhere in it: they shadow the global. (The linter, which knows scopes, checks those files.) */
function declaredNames(file: ts.SourceFile): ReadonlySet<string> {
  const names = new Set<string>();
  walk(file, (node) => {
    const isDeclaration = ts.isVariableDeclaration(node) || ts.isParameter(node) || ts.isBindingElement(node);
    if (isDeclaration && ts.isIdentifier(node.name)) names.add(node.name.text);
  });
  return names;
}

const bannedInCore: Rule = (file, path) => {
  if (!inCore(path)) return [];
  const faults: string[] = [];
  const own = declaredNames(file);
  walk(file, (node) => {
    if (ts.isIdentifier(node) && isBanned(node) && !own.has(node.text)) {
      faults.push(`:${lineOf(file, node)}: ${node.text} is banned here: use ${REPLACEMENTS[node.text]}`);
    }
    if (ts.isPropertyAccessExpression(node) && node.getText(file) === "Math.random") {
      faults.push(`:${lineOf(file, node)}: Math.random is banned: use an Rng (base/rng.ts)`);
    }
  });
  return faults;
};

const isBanned = (node: ts.Identifier): boolean => Object.hasOwn(REPLACEMENTS, node.text) && isReference(node);

const bannedSyntax: Rule = (file, path) => {
  const faults: string[] = [];
  walk(file, (node) => {
    if (node.kind === ts.SyntaxKind.AnyKeyword) faults.push(`:${lineOf(file, node)}: any: use unknown and narrow it`);
    if (ts.isExportAssignment(node) || isDefaultExport(node)) {
      faults.push(`:${lineOf(file, node)}: a default export: use a name`);
    }
    if (inSource(path) && ts.isNonNullExpression(node))
      faults.push(`:${lineOf(file, node)}: a non-null "!": use present() of base/assert.ts`);
  });
  return faults;
};

const isDefaultExport = (node: ts.Node): boolean =>
  ts.canHaveModifiers(node) &&
  ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.DefaultKeyword) === true;

// Split, so that this file keeps its own rule.
const OPEN_ENDS = new RegExp(`\\b(${["FIX", "ME"].join("")}|${["X", "XX"].join("")})\\b`);

const openEnds: Rule = (file) =>
  file.text
    .split("\n")
    .flatMap((line, index) =>
      OPEN_ENDS.test(line) ? [`:${index + 1}: an open end: do it, or file it as an issue`] : [],
    );

const firstLineComment: Rule = (file, path) => {
  // A test says by its names what it is for.
  if (path.endsWith(".test.ts")) return [];
  const [first = "", second = ""] = file.text.split("\n", 2);
  const line = first.startsWith("#!") ? second : first;
  return /^\/[/*]\s*\S/.test(line) || line === "/**" ? [] : [":1: the first line says what the file is for"];
};

/** The places that may hold a switch for the whole process. */
const STATEFUL = new Set(["src/base/mutant.ts", "src/base/failpoint.ts"]);

const topLevelState: Rule = (file, path) => {
  if (!inSource(path) || STATEFUL.has(path) || path.endsWith(".d.ts")) return [];
  return file.statements.filter(ts.isVariableStatement).flatMap((statement) => {
    const isConst = (statement.declarationList.flags & ts.NodeFlags.Const) !== 0;
    const grows = statement.declarationList.declarations.some(
      ({ initializer }) => initializer !== undefined && isEmptyCollection(initializer),
    );
    if (isConst && !grows) return [];
    return [`:${lineOf(file, statement)}: mutable state of a module: put it into an object that somebody owns`];
  });
};

const isEmptyCollection = (node: ts.Expression): boolean =>
  ts.isNewExpression(node) &&
  /^(Weak)?(Map|Set)$/.test(node.expression.getText()) &&
  (node.arguments?.length ?? 0) === 0;

const RULES: readonly Rule[] = [
  fileLength,
  functionLength,
  bannedInCore,
  bannedSyntax,
  openEnds,
  firstLineComment,
  topLevelState,
];

function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  ts.forEachChild(node, (child) => walk(child, visit));
}

/** Files under src/ that no source is: what a misplaced build leaves there. */
/** The preload shim of real processes is C, compiled where it runs. */
const isSource = (path: string): boolean => path.endsWith(".ts") || /^src\/chaos\/shim\/\w+\.c$/.test(path);

export const strayFiles = (paths: readonly string[]): string[] =>
  paths.filter((path) => inSource(path) && !isSource(path) && basename(path) !== "README.md");
