// What a crowd is told and what it tells, and its end of that. Apart from crowd-process.ts, which makes the file that runs in its process.

export interface CrowdTold {
  /** Connections that ended by themselves, since it began. */
  readonly cut: number;
  /** Batches that were acknowledged, since it began. */
  readonly produced: number;
}

/** `perSecond`: of the batches it produces, for a crowd that keeps to a schedule. */
export type CrowdAsked =
  | { readonly kind: "gather"; readonly perSecond: number }
  | { readonly kind: "tell" }
  | { readonly kind: "disperse" };

export interface Gathering extends CrowdTold {
  gather(perSecond: number): Promise<void>;
  disperse(): Promise<void>;
}

/** In the process of the crowd. */
export function answerCrowd(crowd: Gathering): void {
  process.on("message", (asked: CrowdAsked) => {
    const done =
      asked.kind === "gather"
        ? crowd.gather(asked.perSecond)
        : asked.kind === "disperse"
          ? crowd.disperse()
          : undefined;
    void Promise.resolve(done).then(() => process.send?.({ cut: crowd.cut, produced: crowd.produced }));
  });
  process.on("disconnect", () => process.exit());
}
