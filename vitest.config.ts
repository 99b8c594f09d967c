// How the tests run: three kinds, each a project, the longest files first since most of them wait for real processes; an empty selection is a failure.
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** None of these leaves anything behind in its process, and in most of them time, disks and networks are simulated: files follow each other in one. */
const IN_PROCESS = [
  "base",
  "link",
  "model",
  "wire",
  "raft",
  "replication",
  "metadata",
  "checkers",
  "storage",
  "broker",
  "sim",
  "client",
  "platform",
  "ports",
].map((folder) => `test/${folder}/**/*.test.ts`);

/** Nor do these, although other files of their folders start processes: a process of its own for each would take longer than they do. */
const IN_PROCESS_TOO = [
  "test/attack/frames.test.ts",
  "test/bench/{growth,histogram,result-file,sweep}.test.ts",
  "test/bench/{failover/timeline,load/loss,load/payload,load/recorder,load/tally}.test.ts",
  "test/bench/{reliability/figures,reliability/table,report/colours,report/parts,report/scale,report/xml}.test.ts",
  "test/chaos/{cell,grouping,judge,pieces,plan-file,self-test,verdict}.test.ts",
  "test/chaos/faults/{corrupt-files,corrupt-journal,failpoint-wish}.test.ts",
  "test/cli/{bench-failover,bench-flags,bench-reliability,bench-report,bench-verdict}.test.ts",
  "test/cli/{codes,config-changes,config-file}.test.ts",
  "test/cli/{diagnosis,failure,format,http,keys,line-splitter,log-tail,operations-doc,partition-elect,question}.test.ts",
  "test/cli/{quorum-status,values,view}.test.ts",
  "test/house/{architecture,benchmarks,config,errors,reliability}-doc.test.ts",
];

/** What measures real processes against the clock runs by itself. */
const MEASURED = [
  "test/cluster/demo.test.ts",
  "test/cluster/failover.test.ts",
  "test/cluster/replicas.test.ts",
  "test/attack/attack.test.ts",
  "test/attack/crowd.test.ts",
];

/** These first: who begins last and takes long decides alone when all are through. Then all that share no process, then those that do. */
const LONGEST = [
  "test/sim/seeds.test.ts",
  "test/sim/planted-bugs.test.ts",
  "test/attack/alarms.test.ts",
  "test/cli/replication.test.ts",
  "test/process/files.test.ts",
  "test/cli/produce-consume.test.ts",
  "test/cli/launcher-faults.test.ts",
  "test/cli/bench.test.ts",
  "test/cli/admin.test.ts",
  "test/cli/quorum-disaster.test.ts",
  "test/cli/cluster.test.ts",
  "test/cli/grow.test.ts",
  "test/process/kill.test.ts",
  "test/process/disk-trouble.test.ts",
  "test/bench/reliability/run.test.ts",
  "test/test-cluster/leaks.test.ts",
  "test/process/restart.test.ts",
  "test/sim/replication/simulator.test.ts",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification): number => {
      const at = LONGEST.findIndex((path) => moduleId.endsWith(`/${path}`));
      if (at >= 0) return at;
      return LONGEST.length + (project.name === "in-process" ? 1 : 0);
    };
    return [...files].sort((left, right) => rank(left) - rank(right) || left.moduleId.localeCompare(right.moduleId));
  }
}

const SHARED = [...IN_PROCESS, ...IN_PROCESS_TOO];
const NEVER = ["**/node_modules/**", "test/interop/**"];

export default defineConfig({
  test: {
    pool: "forks",
    passWithNoTests: false,
    // A test that cannot fail is worse than none: `.only` left behind fails, and so does a promise rejected unseen.
    allowOnly: false,
    dangerouslyIgnoreUnhandledErrors: false,
    maxWorkers: 5,
    // These end what hangs. What must be quick says so itself: a machine with other work takes long for everything.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 30_000 } },
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: { name: "in-process", include: SHARED, isolate: false, setupFiles: ["test/in-process-setup.ts"] },
      },
      {
        extends: true,
        test: { name: "processes", include: ["test/**/*.test.ts"], exclude: [...NEVER, ...SHARED, ...MEASURED] },
      },
      { extends: true, test: { name: "measured", include: MEASURED, maxWorkers: 1 } },
    ],
  },
});
