// The table of a local cluster, its live screen and the advice beside it, as pure functions of what was seen.
import { describe, expect, it } from "vitest";
import { adviceFor } from "../../src/cli/cluster/advice.ts";
import { changeOf, type ClusterView, clusterView, type LocalNode, viewTable } from "../../src/cli/cluster/view.ts";
import { TopicCounter } from "../../src/cli/cluster/topic-tally.ts";
import { Redraw } from "../../src/cli/launcher/redraw.ts";
import { type ScreenModel, screenLines } from "../../src/cli/launcher/screen.ts";
import { tabbedTable } from "../../src/cli/output.ts";
import type { TopicMetadata } from "../../src/wire/native/apis.ts";
import { gone, local, seen, up, WELL } from "./views.ts";

const view = (
  nodes: readonly LocalNode[] = [local(1), local(2), local(3)],
  saw = WELL,
  phase: "starting" | "up" | "stopping" = "up",
): ClusterView => clusterView({ cluster: "local", nodes, seen: saw, phase });

const words = ({ nodes }: ClusterView) => nodes.map(({ state, role }) => `${state} ${role}`);

describe("the table", () => {
  it("a cluster is not healthy while one of its nodes starts, whatever its quorum is", () => {
    const onlyTwo = seen([up(1, "controller"), up(3, "follower")]);
    expect(view([local(1), local(2, { state: "starting" }), local(3)], onlyTwo).condition).toBe("degraded");
    expect(view([local(1), local(2), local(3)]).condition).toBe("healthy");
    expect(view([local(1), local(2, { state: "starting" }), local(3)], onlyTwo, "starting").condition).toBe("starting");
  });

  it("has one row a node", () => {
    expect(tabbedTable(viewTable(view()))).toBe(
      [
        "NODE\tSTATE\tROLE\tLEADERS\tIN SYNC\tADDRESS\tPID",
        "1\trunning\tcontroller\t4\t12/12\tws://127.0.0.1:7070\t101",
        "2\trunning\tvoter\t4\t12/12\tws://127.0.0.1:7071\t102",
        "3\trunning\tvoter\t4\t12/12\tws://127.0.0.1:7072\t103\n",
      ].join("\n"),
    );
  });

  it("keeps a killed node, its vote and why it ended in sight", () => {
    const killed = local(3, { state: "killed", reason: "SIGKILL" });
    const table = tabbedTable(
      viewTable(view([local(1), local(2), killed], seen([up(1, "controller"), up(2, "follower"), gone(3)]))),
    );
    expect(table).toContain("\tPID\tWHY\n");
    expect(table).toContain("3\tkilled\tvoter\t4\t12/12\tws://127.0.0.1:7072\t-\tSIGKILL\n");
  });

  it("has one word for each state", () => {
    const waitingFor = "a quorum: 1 of 3 voters reachable";
    const notReady = { ready: false, checks: { state: "starting" } };
    const observed = (node: Partial<ReturnType<typeof up>>) => seen([{ ...up(1, "follower"), ...node }]);
    const word = (node: LocalNode, saw = WELL) => words(view([node], saw))[0];
    expect(word(local(1))).toBe("running controller");
    expect(word({ ...local(1), isPaused: true })).toBe("paused controller");
    expect(word(local(1, { state: "stopping" }))).toBe("stopping controller");
    expect(word(local(1, { state: "failed", reason: "x" }), seen([gone(1)]))).toBe("failed null");
    expect(word(local(1, { state: "starting" }), seen([]))).toBe("starting null");
    expect(word(local(1), observed({ readiness: null, quorum: null }))).toBe("silent null");
    expect(word(local(1), observed({ isFenced: true }))).toBe("fenced voter");
    expect(word(local(1), observed({ readiness: notReady }))).toBe("not-ready voter");
    const waits = up(1, "follower", { waitingFor });
    expect(word(local(1, { state: "starting" }), observed({ ...waits, readiness: notReady }))).toBe("waiting voter");
    const opens = up(1, "follower", { waitingFor: "waiting: the data directory is being opened" });
    expect(word(local(1, { state: "starting" }), observed({ ...opens, readiness: notReady }))).toBe("starting voter");
    // A launcher that was killed wrote "running" last.
    expect(word({ ...local(1), isAlive: false })).toBe("stopped controller");
    expect(word(local(1), observed({ ...up(1, "observer"), quorum: up(1, "observer").quorum }))).toBe(
      "running observer",
    );
  });

  it("says what a node waits for", () => {
    const waits = up(1, "follower", { waitingFor: "waiting for a quorum: 1 of 3 voters reachable" });
    const node = { ...waits, readiness: { ready: false, checks: { state: "starting" } } };
    expect(view([local(1, { state: "starting" })], seen([node])).nodes[0]?.reason).toBe(
      "waiting for a quorum: 1 of 3 voters reachable",
    );
  });

  it("a deposed controller that does not know it yet is shown as a voter", () => {
    const saw = seen([up(1, "controller"), up(2, "controller", { term: 4 }), up(3, "follower")], { controllerId: 2 });
    expect(words(view(undefined, saw))).toEqual(["running voter", "running controller", "running voter"]);
  });
});

describe("changes", () => {
  it("are the rows that differ, and whether the cluster does", () => {
    const before = view();
    expect(changeOf(before, view())).toEqual({ nodes: [], isClusterChanged: false });
    const paused = view([local(1), { ...local(2), isPaused: true }, local(3)]);
    expect(changeOf(before, paused).nodes.map(({ nodeId, state }) => [nodeId, state])).toEqual([[2, "paused"]]);
    const first = changeOf(undefined, before);
    expect(first.nodes).toHaveLength(3);
    expect(first.isClusterChanged).toBe(true);
  });
});

describe("advice", () => {
  it.each([
    [
      "no topics yet",
      view(undefined, { ...WELL, topics: null }),
      "try in another terminal: ottla topic create greetings",
    ],
    ["all well", view(), "try: press k 1 to kill the controller and see another node take over"],
    [
      "a killed node",
      view([local(1), local(2, { state: "killed" }), local(3)]),
      "node 2 is killed: press r 2 to start it again",
    ],
    [
      "a paused node",
      view([local(1), local(2), { ...local(3), isPaused: true }]),
      "node 3 is paused: press p 3 to let it go on",
    ],
    [
      "no quorum",
      view(
        [local(1), local(2, { state: "killed" }), local(3, { state: "killed" })],
        seen([up(1, "follower"), gone(2), gone(3)]),
      ),
      "no topic can be created or changed until more than half of the voters are up: press r 2",
    ],
    ["the start", view(undefined, seen([]), "starting"), "starting; the first start takes a second or two"],
    ["the end", view(undefined, WELL, "stopping"), "stopping in order; Ctrl-C kills what is left"],
  ])("for %s", (_, given, expected) => {
    expect(adviceFor(given, "ottla")).toBe(expected);
  });
});

describe("the screen", () => {
  const model = (more: Partial<ScreenModel> = {}): ScreenModel => ({
    view: view(),
    dataDir: "./ottla-data",
    advice: "try this",
    message: null,
    prompt: null,
    log: null,
    ...more,
  });
  const size = { columns: 80, rows: 24, paint: false };

  it("is the cluster, the table, advice and keys", () => {
    expect(screenLines(model(), size)).toEqual([
      "cluster local in ./ottla-data  healthy  3/3 voters",
      "NODE  STATE    ROLE        LEADERS  IN SYNC  ADDRESS              PID",
      "   1  running  controller        4    12/12  ws://127.0.0.1:7070  101",
      "   2  running  voter             4    12/12  ws://127.0.0.1:7071  102",
      "   3  running  voter             4    12/12  ws://127.0.0.1:7072  103",
      "try this",
      "keys: k kill  r start or restart  p pause or go on  l log  q quit",
    ]);
  });

  it("shows a question in place of the keys, what came of the last one, and a log", () => {
    const lines = screenLines(
      model({ prompt: "kill?", message: "done", log: { nodeId: 2, lines: ["a", "b\u001b[2J"] } }),
      size,
    );
    expect(lines.slice(5)).toEqual(["log of node 2 (Esc closes it):", "  a", "  b?[2J", "done", "try this", "kill?"]);
  });

  it("says why nodes do not run and what is wrong", () => {
    const failed = local(3, { state: "failed", reason: "exit code 30" });
    const saw = seen([up(1, "controller"), up(2, "follower", { leaderId: 1 }), gone(3)]);
    const lines = screenLines(model({ view: view([local(1), local(2), failed], saw) }), size);
    expect(lines[0]).toBe("cluster local in ./ottla-data  degraded  2/3 voters");
    expect(lines[5]).toBe("node 3: exit code 30");
    const without = screenLines(
      model({ view: view([local(1), failed, failed], seen([up(1, "follower"), gone(2), gone(3)])) }),
      size,
    );
    expect(without).toContainEqual("! no quorum: 1 of 3 voters up, missing nodes 2, 3");
  });

  it.each([3, 5, 7, 9, 12])("never takes more than %d rows, and keeps the table longest", (rows) => {
    const log = { nodeId: 1, lines: Array.from({ length: 50 }, (_, index) => `line ${index}`) };
    const lines = screenLines(model({ log, message: "m" }), { ...size, rows });
    expect(lines.length).toBeLessThan(rows);
    if (rows > 6) expect(lines).toContainEqual(expect.stringContaining("ws://127.0.0.1:7072"));
  });

  it("clips lines to the terminal before it paints them", () => {
    const lines = screenLines(model(), { columns: 20, rows: 24, paint: true });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with one
    for (const text of lines) expect(text.replace(/\u001b\[\d+m/g, "").length).toBeLessThan(20);
    expect(lines[0]).toBe("\u001b[32mcluster local in ./\u001b[0m");
  });
});

describe("drawing", () => {
  const drawn = () => {
    const written: string[] = [];
    return { written, redraw: new Redraw({ write: (text) => written.push(text) }) };
  };

  it("is in place, and nothing when nothing changed", () => {
    const { written, redraw } = drawn();
    redraw.draw(["a", "b"]);
    redraw.draw(["a", "b"]);
    expect(written).toEqual(["\u001b[?25la\u001b[K\nb\u001b[K\n\u001b[J"]);
    redraw.draw(["a"]);
    expect(written[1]).toBe("\u001b[?25l\u001b[2A\ra\u001b[K\n\u001b[J");
  });

  it("begins anew at the top after a change of size", () => {
    const { written, redraw } = drawn();
    redraw.draw(["a", "b"]);
    redraw.startOver();
    redraw.draw(["a", "b"]);
    expect(written.slice(1)).toEqual(["\u001b[2J\u001b[H", "\u001b[?25la\u001b[K\nb\u001b[K\n\u001b[J"]);
  });

  it("prints what stays above it, and gives the cursor back", () => {
    const { written, redraw } = drawn();
    redraw.draw(["a"]);
    redraw.print("kept");
    redraw.end();
    expect(written.slice(1)).toEqual(["\u001b[1A\r\u001b[Jkept\na\u001b[K\n", "\u001b[?25h"]);
  });
});

describe("the tally of topics", () => {
  it("counts leaders, replicas and those in sync by node, and names what wants for something", () => {
    const counter = new TopicCounter();
    const errors: Record<number, string> = { 2: "LEADER_NOT_AVAILABLE", 3: "STORAGE_ERROR", 4: "NO_INTACT_REPLICA" };
    const partition = (index: number, leader: number, isr: readonly number[]) => ({
      index,
      error: errors[index] ?? "NONE",
      leader,
      leaderEpoch: 1,
      replicas: [1, 2, 3],
      isr,
      minIsr: 2,
    });
    const topic = {
      name: "t",
      error: "NONE",
      isDeleting: false,
      maxMessageBytes: 1,
      configs: [],
      partitions: [
        partition(0, 1, [1, 2, 3]),
        partition(1, 2, [2, 3]),
        partition(2, -1, [3]),
        partition(3, 3, [1, 2, 3]),
        partition(4, -1, []),
        partition(5, 3, [3]),
      ],
    } as unknown as TopicMetadata;
    counter.add(topic);
    counter.add({ ...topic, name: "gone", isDeleting: true });
    const { shares, ...tally } = counter.tally;
    expect(tally).toEqual({
      topics: 2,
      partitions: 12,
      offline: { count: 1, examples: ["t-2"] },
      lost: { count: 1, examples: ["t-4"] },
      belowMinIsr: { count: 1, examples: ["t-5 (1 in sync, 2 needed)"] },
      underReplicated: { count: 1, examples: ["t-1 (2 of 3 replicas in sync)"] },
      faulty: { count: 1, examples: ["t-3 (STORAGE_ERROR)"] },
    });
    expect([...shares]).toEqual([
      [1, { leaders: 2, replicas: 12, inSync: 4 }],
      [2, { leaders: 2, replicas: 12, inSync: 6 }],
      [3, { leaders: 4, replicas: 12, inSync: 10 }],
    ]);
  });
});
