// One simulated machine: its disk, and the broker process that lives, dies and starts again on it.
import { present } from "../base/assert.ts";
import type { Broker } from "../broker/broker.ts";
import { createBroker } from "../broker/broker.ts";
import type { BrokerConfig } from "../model/config.ts";
import type { OttlaError } from "../model/errors.ts";
import { asOttlaError } from "../model/errors.ts";
import { type NodeId, toNodeId } from "../model/ids.ts";
import { FileError } from "../ports/files.ts";
import type { MessageTransport } from "../ports/transport.ts";
import type { Codecs } from "../ports/codecs.ts";
import { watched } from "./broker-watch.ts";
import type { RaftSettings } from "../raft/settings.ts";
import type { CrashKind, SimDisk } from "./disk.ts";
import { DiskImage } from "./disk-image.ts";
import type { HistoryEvent } from "../checkers/history.ts";
import type { Machine } from "./machine.ts";
import type { SimNetwork } from "./network.ts";
import type { QuorumWatch } from "./quorum-watch.ts";
import type { ReplicaWatch } from "./replicas/replica-watch.ts";
import { MARK } from "./marks.ts";
import { createSimLogger, SimMetrics } from "./sim-ports.ts";
import { createSimClock, createSimEntropy, createSimTimers, type Incarnation, type SimWorld } from "./world.ts";

export interface NodeParts {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly disk: SimDisk;
  readonly codecs: Codecs;
  readonly watch: QuorumWatch;
  readonly replicas: ReplicaWatch;
  readonly raftSettings: Partial<RaftSettings>;
  readonly record: (event: HistoryEvent) => void;
  /** The process is gone, by itself or not; whoever supervises may start it again. */
  readonly onDown: (node: SimNode) => void;
}

interface Process {
  readonly incarnation: Incarnation;
  readonly broker: Broker;
}

/** Acknowledgements rest on these directories' files. */
const JOURNALS = ["/journal/", "/metadata/"];

const OTHER_NODES_MAX = 4;
/** Of one follower to one leader: the newest, and the one whose wait it ended. */
const FETCHES_UNDER_WAY_MAX = 2;
const ON_THE_WAY_BYTES = 4 * 1024 * 1024;

export type NodeState = "down" | "starting" | "running" | "stopping";

export class SimNode {
  readonly name: string;
  readonly id: NodeId;
  readonly machine: Machine;
  readonly disk: SimDisk;
  readonly config: BrokerConfig;
  /** Highest metadata version of the software on it. */
  metadataVersionMax: number;
  /** Starts that served requests. */
  starts = 0;
  /** The last start that was refused. */
  refusal: OttlaError | undefined;
  /** Its disk holds bits that turned over, or is of an older time: it may refuse to start, and may be refused. */
  isSpoilt = false;
  /** Kept down: its disk is being worked on. */
  isInRepair = false;
  readonly #parts: NodeParts;
  #process: Process | undefined;
  #state: NodeState = "down";
  #boots = 1;
  /** This process met a failed sync. */
  #hasFailedSync = false;

  constructor(name: string, parts: NodeParts, options: { config: BrokerConfig; metadataVersionMax: number }) {
    const { config } = options;
    this.name = name;
    this.id = toNodeId(config["node.id"]);
    this.machine = parts.world.machine(name);
    this.disk = parts.disk;
    this.config = config;
    this.metadataVersionMax = options.metadataVersionMax;
    this.#parts = parts;
    parts.disk.onFailedSync = (path) => {
      this.#hasFailedSync = true;
      const holdsPromises = JOURNALS.some((part) => path.includes(part));
      const isServing = this.#state === "running";
      const timeMs = parts.world.nowMs;
      parts.record({ type: "fault", timeMs, node: name, fault: "failed sync", holdsPromises, isServing });
    };
  }

  get state(): NodeState {
    return this.#state;
  }

  get address(): string {
    return this.config.listeners.replace(/^ws:\/\//, "");
  }

  start(): void {
    const { world, network, disk, codecs, watch, replicas } = this.#parts;
    const incarnation = world.startIncarnation(this.name);
    if (this.machine.isOff) network.booted(this.name);
    this.machine.isOff = false;
    this.#state = "starting";
    this.#hasFailedSync = false;
    world.note(this.name, "process", "starts");
    const broker = createBroker(
      {
        clock: createSimClock(world, incarnation),
        timers: createSimTimers(world, incarnation),
        files: disk.files(incarnation),
        transport: this.#watched(network.messages(incarnation)),
        checksum: world.checksum,
        codecs,
        entropy: createSimEntropy(world, incarnation),
        logger: createSimLogger(world, this.name),
        metrics: new SimMetrics((gauge, value) => this.#observeGauge(gauge, value)),
        rng: world.fork(`broker ${this.name} ${incarnation.number}`),
        bootId: `boot ${this.#boots}`,
        metadataVersions: { min: 1, max: this.metadataVersionMax },
        raftSettings: this.#parts.raftSettings,
        probe: watch.probeOf(this.id),
        replicaProbe: replicas.probeOf(this.id, `${this.name} life ${incarnation.number}`),
      },
      this.config,
    );
    this.#process = { incarnation, broker };
    broker.onFatal((error) => this.#stoppedItself(incarnation, error));
    void broker.start().then(
      () => this.#started(incarnation),
      (thrown: unknown) => this.#refused(incarnation, asOttlaError(thrown)),
    );
  }

  #watched(transport: MessageTransport): MessageTransport {
    const { world, record } = this.#parts;
    return watched(transport, {
      world,
      node: this.name,
      record,
      unsentBytesMax: this.config["connection.unsent.bytes"],
      looksAtAnswers: () => this.#hasFailedSync,
      onGiven: ({ producerId, producerEpoch }) => this.#parts.replicas.gave(producerId, producerEpoch),
    });
  }

  /** Invariant 43, as far as the broker tells its budgets. One message per connection may be on its way when one is full (D-26). */
  #observeGauge(gauge: string, value: number): void {
    const bounds: Readonly<Record<string, number>> = {
      delayed_operations: this.config["delayed.requests.max"],
      request_inflight_bytes: this.config["produce.inflight.bytes"] + ON_THE_WAY_BYTES,
      unsent_bytes: this.config["unsent.bytes"] + ON_THE_WAY_BYTES,
      // What was asked of the leaders before it was full comes on top.
      journal_pinned_bytes:
        this.config["journal.pinned.bytes"] +
        this.config["max.message.bytes"] +
        OTHER_NODES_MAX * FETCHES_UNDER_WAY_MAX * this.config["replica.fetch.response.max.bytes"],
      tail_cache_bytes: this.config["tail.cache.bytes"],
      open_segment_files: this.config["open.files.max"],
    };
    const bound = bounds[gauge];
    if (bound === undefined || value <= bound) return;
    this.#parts.record({
      type: "budget",
      timeMs: this.#parts.world.nowMs,
      node: this.name,
      budget: gauge,
      value,
      bound,
    });
  }

  /** Ends the process now, wherever it is. */
  crash(kind: CrashKind): void {
    const { world, network, disk } = this.#parts;
    const process = this.#process;
    if (process === undefined && kind === "process death") return;
    world.countFault(
      `${kind === "power loss" ? "D1 D2 power loss" : "D3 process death"}${this.#state === "starting" ? " in recovery" : ""}`,
    );
    world.note(this.name, "crash", kind);
    if (process !== undefined) {
      process.incarnation.end();
      network.forget(process.incarnation, { isPowerLoss: kind === "power loss" });
    }
    if (kind === "power loss") {
      this.#boots++;
      this.machine.isOff = true;
    }
    disk.crash(kind);
    this.#record(kind);
    this.#down();
  }

  /** D11: an empty disk takes the place of the old one, which nobody sees again. Only while it is down. */
  wipe(): void {
    this.disk.replace(new DiskImage());
    this.isSpoilt = false;
    this.refusal = undefined;
    this.#boots++;
  }

  /** D11: the disk as it was at some time. Only while it is down. */
  restore(image: DiskImage): void {
    this.disk.replace(image);
    this.isSpoilt = true;
    this.#boots++;
  }

  /** An ordered stop; resolves when the process has ended. */
  async stop(): Promise<void> {
    const { incarnation, broker } = present(this.#process, "the process");
    this.#state = "stopping";
    await broker.stop();
    if (incarnation.isAlive) this.#exit(incarnation, "stopped in order");
  }

  #started(incarnation: Incarnation): void {
    if (!incarnation.isAlive || this.#state !== "starting") return;
    this.#state = "running";
    this.refusal = undefined;
    this.starts++;
    this.#parts.world.note(this.name, "process", "serves");
  }

  #refused(incarnation: Incarnation, error: OttlaError): void {
    if (!incarnation.isAlive) return;
    this.refusal = error;
    const { world, record } = this.#parts;
    this.#mayBeTooOld(error);
    if (!this.isSpoilt)
      record({ type: "start refused", timeMs: world.nowMs, node: this.name, code: error.code, reason: error.message });
    else world.sometimes(MARK.SPOILT_REFUSED);
    this.#exit(incarnation, `refuses to start: ${error.code} ${error.message}`);
  }

  #stoppedItself(incarnation: Incarnation, error: OttlaError): void {
    if (!incarnation.isAlive) return;
    const { world } = this.#parts;
    world.sometimes(`stopped itself: ${error.code}`);
    // No disk fails by what is not there (S-57).
    const isMissing = error.cause instanceof FileError && error.cause.kind === "not-found";
    const isOfDisk = error.code === "DISK_FAILED" && (!isMissing || this.isSpoilt);
    const isExpected = isOfDisk || (this.isSpoilt && error.code === "DATA_DAMAGED") || this.#mayBeTooOld(error);
    if (!isExpected) world.fail(error);
    this.#exit(incarnation, `stops itself: ${error.code} ${error.message}`);
  }

  /** metadata.version was raised while it was being put back to the older software: whoever did that installs the newer one. */
  #mayBeTooOld(error: OttlaError): boolean {
    if (error.code !== "DATA_DIR_NEWER" || this.metadataVersionMax > 1) return false;
    this.metadataVersionMax = 2;
    this.#parts.world.countFault("U1 software too old for the metadata");
    return true;
  }

  #exit(incarnation: Incarnation, why: string): void {
    const { world, network, disk, record } = this.#parts;
    record({ type: "stopped", timeMs: world.nowMs, node: this.name });
    world.note(this.name, "process", why);
    incarnation.end();
    network.forget(incarnation);
    disk.crash("process death");
    this.#down();
  }

  #down(): void {
    this.#process = undefined;
    this.#state = "down";
    this.#parts.watch.ended(this.id);
    this.#parts.replicas.ended(this.id);
    this.#parts.onDown(this);
  }

  #record(fault: CrashKind): void {
    const { world, record } = this.#parts;
    record({ type: "fault", timeMs: world.nowMs, node: this.name, fault });
  }
}
