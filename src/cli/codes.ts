// The codes of failures that only the command line has: of its arguments, of local processes and files. The others are the error table's.

export interface CliCode {
  readonly meaning: string;
  readonly hint: string;
}

export const CLI_CODES: Readonly<Record<string, CliCode>> = {
  USAGE: { meaning: "a flag or an argument cannot be used", hint: "add --help to see what the command takes" },
  NOT_CONFIRMED: {
    meaning: "the command deletes or gives up something and was not told that this is meant",
    hint: "add --yes when it is meant",
  },
  NO_CLUSTER: {
    meaning: "no local cluster runs from this directory",
    hint: "ottla cluster up starts one; --data-dir names another directory",
  },
  UNKNOWN_NODE: {
    meaning: "the local cluster has no node of this id",
    hint: "ottla cluster status shows its nodes",
  },
  ALREADY_RUNNING: {
    meaning: "a cluster runs already from this directory",
    hint: "ottla cluster down stops it; --data-dir names another directory",
  },
  STILL_RUNNING: {
    meaning: "a process runs that must not, or did not end in time",
    hint: "ottla cluster down; the message names the process",
  },
  STOPPING: { meaning: "the cluster is being stopped", hint: "wait until it is down, then ottla cluster up" },
  NODE_NOT_RUNNING: { meaning: "the node has no process", hint: "ottla cluster start <node> starts it" },
  NODE_NOT_READY: {
    meaning: "what was started did not serve in the time given; it goes on trying",
    hint: "ottla cluster health says what is missing; --timeout waits longer",
  },
  NODE_ENDED: {
    meaning: "a node's process ended by itself",
    hint: "ottla cluster logs <node> shows its last words",
  },
  NO_LAUNCHER: {
    meaning: "the launcher is gone: nobody can be the parent of a node",
    hint: "ottla cluster down stops what is left, ottla cluster up starts everything again",
  },
  LAUNCHER_ENDED: {
    meaning: "the launcher in the background ended without a word",
    hint: "ottla cluster logs launcher shows its output",
  },
  LAUNCHER_SILENT: {
    meaning: "the launcher does not answer",
    hint: "is it paused? ottla cluster down and ottla cluster up start everything again",
  },
  LAUNCHER_OTHER_VERSION: {
    meaning: "the launcher does not know the request",
    hint: "use the same version of ottla that started the cluster",
  },
  STATE_UNREADABLE: {
    meaning: "cluster-state.json cannot be used",
    hint: "if no cluster of this directory runs, remove the file",
  },
  HISTORY_DAMAGED: {
    meaning: "a file of a chaos run's history holds what no process of a run writes",
    hint: "run it again: what is left of this one cannot be told from what was changed",
  },
  NO_HISTORY: {
    meaning: "the directory holds no history of a chaos run",
    hint: "name the directory that ottla chaos run was given with --out",
  },
  RECORDS_LOST: {
    meaning: "a benchmark did not read everything that was acknowledged",
    hint: "keep the result (--out FILE.json) and the brokers' logs: acks=all must not lose anything",
  },
  PROMISE_BROKEN: {
    meaning: "the reliability benchmark found broken what is promised",
    hint: "--keep DIR leaves histories, data and logs there",
  },
  NOTHING_PROVEN: {
    meaning: "a cell of the reliability benchmark proves nothing: too little was sent, or the fault did not strike",
    hint: "run it on a machine that does nothing else; --keep DIR leaves histories, data and logs there",
  },
  NOTHING_MEASURED: {
    meaning: "a benchmark ran, and no record was acknowledged or received in the measured time",
    hint: "are the brokers up? ottla cluster health",
  },
  SOAK_FAILED: {
    meaning: "records failed, or brokers grew, while a soak ran",
    hint: "the report (--out FILE.html) shows when",
  },
  NO_SEGMENT_FILE: { meaning: "the path is no file of a log", hint: "ottla log dump --help" },
  OUTPUT_FAILED: {
    meaning: "what a command prints cannot be written",
    hint: "is the disk that it goes to full? What is there of it ends somewhere in the middle",
  },
  FILE_UNREADABLE: { meaning: "a file cannot be read", hint: "the message says which and why" },
  UNKNOWN_ERROR_CODE: { meaning: "there is no such error code", hint: "ottla errors lists all" },
  BUG: {
    meaning: "Ottla broke one of its own rules",
    hint: "please report it with the output of the same command and -vv",
  },
  UNEXPECTED: { meaning: "something failed that has no code of its own", hint: "run it again with -vv for a stack" },
};
