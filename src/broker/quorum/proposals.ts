// Metadata changes at the controller: one decision after another on the applied image, and reads that only a present leader may answer.
import { mutant } from "../../base/mutant.ts";
import { Ring } from "../../base/ring.ts";
import { encodeCommand } from "../../metadata/codec.ts";
import type { Decision } from "../../metadata/controller.ts";
import type { MetadataImage } from "../../metadata/image.ts";
import type { MetadataRecord } from "../../metadata/records.ts";
import { OttlaError } from "../../model/errors.ts";
import type { ReadResult, RequestResult } from "../../raft/types.ts";
import type { Entry, ProposeResult } from "../../raft/types.ts";
import { FairQueue } from "./fair-queue.ts";
import type { ChangeSource } from "./types.ts";

export interface ProposalsParts {
  /** Bound: changes of clients that wait for their turn; as many reads may wait besides, and as many of both that are the cluster's own. */
  readonly max: number;
  readonly image: () => MetadataImage;
  readonly appliedEnd: () => number;
  readonly isController: () => boolean;
  /** The disk takes no writes. */
  readonly isDiskFull: () => boolean;
  /** Undefined: the quorum failed meanwhile, and nobody knows. */
  readonly append: (bytes: Uint8Array) => ProposeResult | undefined;
  readonly read: (token: number) => RequestResult | undefined;
}

/** One message to each voter, whose receiving side may be configured down to 1 MiB: one that it does not take would be sent again for ever. */
const COMMAND_BYTES_MAX = 1_000_000;

type Decide = (image: MetadataImage) => Decision;

interface Turn {
  readonly decide: Decide;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (thrown: unknown) => void;
}

/** `isRead`: it comes from the image and changes nothing, so it holds only if this node still leads. */
interface Answer {
  readonly decision: Decision;
  readonly isRead: boolean;
}

interface UnderWay extends Turn {
  readonly decision: Decision;
  readonly index: number;
  readonly term: number;
}

interface Read {
  readonly resolve: (error: OttlaError | null) => void;
  /** Set once the leadership was confirmed: waits until this much is applied. */
  end: number | undefined;
}

const refused = (error: OttlaError): Decision => ({ kind: "refused", error: error.code, message: error.message });
const answer = (error: OttlaError): Answer => ({ decision: refused(error), isRead: false });
const tooMany = (count: number): Answer => answer(new OttlaError("BUSY", `${count} metadata changes wait`));

export class Proposals {
  readonly #parts: ProposalsParts;
  /** Fencing, elections, ISRs, registrations: a cluster that cannot change these loses its leaders, whatever clients wish. */
  readonly #own = new Ring<Turn>();
  readonly #clients: FairQueue<Turn>;
  #underWay: UnderWay | undefined;
  readonly #reads = new Map<number, Read>();
  #nextToken = 1;
  #isPumping = false;
  #isClosed = false;

  constructor(parts: ProposalsParts) {
    this.#parts = parts;
    this.#clients = new FairQueue(parts.max);
  }

  get count(): number {
    return this.#own.length + this.#clients.length + (this.#underWay === undefined ? 0 : 1);
  }

  /** Without a source: the cluster's own. */
  async propose(decide: Decide, source?: ChangeSource): Promise<Decision> {
    const fault = this.#faultNow();
    if (fault !== undefined) return refused(fault);
    const { decision, isRead } = await new Promise<Answer>((resolve, reject) => {
      this.#enter({ decide, resolve, reject }, source);
      this.pump();
    });
    if (!isRead || mutant("M38a")) return decision;
    const stale = await this.#read(source === undefined ? 2 * this.#parts.max : this.#parts.max);
    return stale === null ? decision : refused(stale);
  }

  #enter(turn: Turn, source: ChangeSource | undefined): void {
    if (source === undefined || mutant("Q18-fifo")) {
      if (this.#own.length < this.#parts.max) this.#own.push(turn);
      else turn.resolve(tooMany(this.#own.length));
      return;
    }
    const entered = this.#clients.push(source, turn);
    if (entered.kind === "refused") turn.resolve(tooMany(this.#clients.length));
    else if (entered.kind === "put off") entered.item.resolve(tooMany(this.#clients.length));
  }

  barrier(isOwn = false): Promise<OttlaError | null> {
    return this.#read(isOwn ? 2 * this.#parts.max : this.#parts.max);
  }

  #read(max: number): Promise<OttlaError | null> {
    if (mutant("M38c")) return Promise.resolve(null);
    const fault = this.#faultNow();
    if (fault !== undefined) return Promise.resolve(fault);
    if (this.#reads.size >= max) return Promise.resolve(new OttlaError("BUSY", "too many reads wait"));
    return new Promise((resolve) => {
      const token = this.#nextToken++;
      this.#reads.set(token, { resolve, end: undefined });
      const result = this.#parts.read(token);
      if (result?.kind === "started") return;
      this.#reads.delete(token);
      resolve(result?.kind === "busy" ? new OttlaError("BUSY", result.reason) : notController());
    });
  }

  #faultNow(): OttlaError | undefined {
    if (this.#isClosed) return new OttlaError("BROKER_NOT_AVAILABLE", "the broker is stopping");
    if (this.#parts.isController()) return undefined;
    if (this.#parts.isDiskFull()) return new OttlaError("STORAGE_FULL", "the metadata log cannot be written");
    return notController();
  }

  /** Begins whatever may begin. */
  pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      while (this.#underWay === undefined) {
        const turn = this.#own.shift() ?? this.#clients.shift();
        if (turn === undefined) break;
        this.#take(turn);
      }
    } finally {
      this.#isPumping = false;
    }
  }

  #take(turn: Turn): void {
    const fault = this.#faultNow();
    if (fault !== undefined) return turn.resolve(answer(fault));
    let decision: Decision;
    let bytes: Uint8Array | undefined;
    try {
      const image = this.#parts.image();
      decision = turn.decide(image);
      if (decision.kind === "records" && decision.records.length > 0)
        bytes = encodeCommand(decision.records, versionFor(image, decision.records));
    } catch (thrown) {
      return turn.reject(thrown);
    }
    if (bytes === undefined) return turn.resolve({ decision, isRead: true });
    if (bytes.length > COMMAND_BYTES_MAX) return turn.resolve(answer(tooLarge(bytes.length)));
    const result = this.#parts.append(bytes);
    if (result?.kind === "accepted") return this.#appended(turn, decision, result);
    // The quorum failed while it was carried out: the others may have been sent it.
    if (result === undefined) return turn.resolve(answer(unknownOutcome()));
    turn.resolve(answer(result.kind === "busy" ? new OttlaError("BUSY", result.reason) : notController()));
  }

  #appended(turn: Turn, decision: Decision, { index, term }: { readonly index: number; readonly term: number }): void {
    const underWay = { ...turn, decision, index, term };
    this.#underWay = underWay;
    // A lone voter whose disk answers at once may have applied it, or failed, already.
    if (this.#parts.appliedEnd() > index) this.#end(underWay, decision);
    else if (!this.#parts.isController()) this.#end(underWay, refused(unknownOutcome()));
  }

  #end(underWay: UnderWay, decision: Decision): void {
    if (this.#underWay === underWay) this.#underWay = undefined;
    underWay.resolve({ decision, isRead: false });
  }

  /** An entry was committed and applied. */
  onCommitted({ index, term }: Entry): void {
    const underWay = this.#underWay;
    if (underWay?.index !== index) return;
    // Another leader's entry stands there: this one is gone for good.
    this.#end(underWay, underWay.term === term ? underWay.decision : refused(notController()));
  }

  onRead(result: ReadResult): void {
    const read = this.#reads.get(result.token);
    if (read === undefined) return;
    if (result.kind === "failed") {
      this.#reads.delete(result.token);
      read.resolve(notController());
      return;
    }
    read.end = result.end;
    this.onProgress();
  }

  /** Role or applied end may have changed. */
  onProgress(): void {
    if (this.#underWay !== undefined && !this.#parts.isController())
      this.#end(this.#underWay, refused(unknownOutcome()));
    for (const [token, { end, resolve }] of this.#reads) {
      if (end === undefined || end > this.#parts.appliedEnd()) continue;
      this.#reads.delete(token);
      resolve(null);
    }
    this.pump();
  }

  close(): void {
    this.#isClosed = true;
    if (this.#underWay !== undefined) this.#end(this.#underWay, refused(unknownOutcome()));
    for (const { resolve } of this.#reads.values())
      resolve(new OttlaError("BROKER_NOT_AVAILABLE", "the broker is stopping"));
    this.#reads.clear();
    this.pump();
  }
}

const notController = (): OttlaError => new OttlaError("NOT_CONTROLLER", "this node does not lead the metadata quorum");

const tooLarge = (sizeBytes: number): OttlaError =>
  new OttlaError("MESSAGE_TOO_LARGE", `a metadata change of ${sizeBytes} bytes, at most ${COMMAND_BYTES_MAX}`);

const unknownOutcome = (): OttlaError =>
  new OttlaError(
    "REQUEST_TIMED_OUT",
    "the leadership of the metadata quorum was lost while the change was under way: it may have been made or not",
  );

/** The first command brings its version along. */
function versionFor(image: MetadataImage, records: readonly MetadataRecord[]): number {
  const [first] = records;
  return first?.type === "cluster" ? first.metadataVersion : image.metadataVersion;
}
