// Who may import whom: one allow-list per folder of src/. What a list does not name - another folder, a Node built-in, an
// npm package - is refused, type-only imports included. `npm run layers` runs it and checks that it saw every file.

/** Folder -> what it may import besides itself: folders of src/, `npm:<package>`, `node` for Node's built-ins. */
const ALLOWED = {
  base: [],
  model: ["base"],
  ports: ["base", "model"],
  metadata: ["base", "model"],
  replication: ["base", "model"],
  raft: ["base", "model"],
  groups: ["base", "model"],
  subscriptions: ["base", "model"],
  wire: ["base", "model"],
  storage: ["base", "model", "ports"],
  link: ["base", "model", "ports", "wire"],
  client: ["base", "model", "ports", "wire", "link"],
  broker: ["base", "model", "ports", "raft", "metadata", "replication", "groups", "subscriptions", "wire", "link", "storage"],
  platform: [
    "base", "model", "ports", "node",
    "npm:ws", "npm:pino", "npm:prom-client", "npm:@node-rs/crc32", "npm:lz4-napi", "npm:snappy", "npm:@bokuweb/zstd-wasm", "npm:bufferutil",
  ],
  checkers: ["base", "model", "client"],
  sim: [
    "base", "model", "ports", "raft", "metadata", "replication", "groups", "subscriptions", "wire", "link", "storage", "broker", "client",
    "checkers",
  ],
  chaos: ["base", "model", "ports", "wire", "client", "platform", "checkers", "cli", "node"],
  bench: ["base", "model", "ports", "wire", "client", "platform", "checkers", "chaos", "cli", "node", "npm:hdr-histogram-js"],
  cli: [
    "base", "model", "ports", "raft", "metadata", "replication", "groups", "subscriptions", "wire", "link", "storage", "broker", "client",
    "platform", "checkers", "chaos", "bench", "node", "npm:commander", "npm:jsonc-parser",
  ],
  "test-cluster": ["base", "model", "ports", "raft", "broker", "client", "platform", "cli", "node"],
};

/** Single files that may import one package more than their folder. */
const EXTRA = {
  "src/bench/result-file.ts": ["npm:zod"],
  "src/bench/reliability/result-file.ts": ["npm:zod"],
  "src/chaos/plan-file.ts": ["npm:zod", "npm:jsonc-parser"],
  "src/wire/native/": ["npm:msgpackr"],
};

const escape = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** What is refused to a folder with this list: everything the list does not name. */
function refused(folder, allowed) {
  const own = `^src/${folder}/`;
  const pathNot = [own, ...allowed.filter((entry) => entry !== "node").flatMap(patterns)];
  return allowed.includes("node") ? { pathNot, dependencyTypesNot: ["core"] } : { pathNot };
}

function patterns(entry) {
  if (!entry.startsWith("npm:")) return [`^src/${entry}/`];
  const name = escape(entry.slice(4));
  return [`node_modules/${name}/`, `node_modules/@types/${name}/`];
}

const folderRules = Object.entries(ALLOWED).map(([folder, allowed]) => {
  const extra = Object.keys(EXTRA).filter((path) => path.startsWith(`src/${folder}/`));
  return {
    name: `${folder}-imports`,
    comment: `src/${folder} may import only itself${allowed.length === 0 ? "" : `, ${allowed.join(", ")}`}`,
    severity: "error",
    from: { path: `^src/${folder}/`, ...(extra.length === 0 ? {} : { pathNot: extra.map((path) => `^${escape(path)}`) }) },
    to: refused(folder, allowed),
  };
});

const extraRules = Object.entries(EXTRA).map(([path, more]) => {
  const folder = path.split("/")[1];
  return {
    name: `${path.replace(/[^a-z]+/g, "-")}-imports`.replace("-ts-", "-"),
    comment: `${path} may import only src/${folder}, ${[...ALLOWED[folder], ...more].join(", ")}`,
    severity: "error",
    from: { path: `^${escape(path)}` },
    to: refused(folder, [...ALLOWED[folder], ...more]),
  };
});

module.exports = {
  forbidden: [
    ...folderRules,
    ...extraRules,
    {
      name: "index-imports",
      comment: "the library entry may import every folder but sim",
      severity: "error",
      from: { path: "^src/index\\.ts$" },
      to: refused("index", [...Object.keys(ALLOWED).filter((folder) => folder !== "sim"), "node"]),
    },
    {
      name: "unknown-folder",
      comment: "a folder of src/ without an allow-list: add one to .dependency-cruiser.cjs",
      severity: "error",
      from: { path: "^src/", pathNot: [`^src/(${Object.keys(ALLOWED).join("|")})/`, "^src/index\\.ts$"] },
      to: {},
    },
    {
      name: "unknown-folder-imported",
      comment: "a folder of src/ without an allow-list: add one to .dependency-cruiser.cjs",
      severity: "error",
      from: {},
      to: { path: "^src/", pathNot: [`^src/(${Object.keys(ALLOWED).join("|")})/`, "^src/index\\.ts$"] },
    },
    {
      name: "no-circular",
      comment: "modules form no cycle; one of types alone, inside one folder, does not exist at run time and is allowed",
      severity: "error",
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ["type-only"] } },
    },
    {
      name: "no-dead-modules",
      comment: "nothing imports the module, and it is no entry point",
      severity: "error",
      module: { path: "^src/", pathNot: ["^src/index\\.ts$", "^src/cli/(main|node-process)\\.ts$", "^src/bench/(socket-sender|load/load-process|failover/client-process)\\.ts$", "^src/chaos/(planted-bugs|clients/main|faults/(failpoint-preload|proxy-worker))\\.ts$", "^src/sim/", "\\.d\\.ts$"], numberOfDependentsLessThan: 1 },
      from: {},
    },
    { name: "not-resolvable", comment: "the import leads nowhere", severity: "error", from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    doNotFollow: { path: "node_modules" },
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "node", "default", "types"], extensions: [".ts", ".d.ts", ".js"] },
  },
};
