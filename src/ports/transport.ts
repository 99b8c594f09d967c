// The network. Two doors (D-27): whole messages for the native protocol, a byte stream for Kafka's.

export interface ConnectionHandlers<Received> {
  /** One message, or one chunk of bytes. The bytes belong to the receiver from here on. */
  onReceive(received: Received): void;
  /** Called once, whoever closed; nothing is received after it. `reason` is for people. */
  onClose(reason: string): void;
  /** `unsentBytes` fell to half of what the transport holds back at most, after it was above. */
  onDrain(): void;
}

export interface Connection<Outgoing, Received> {
  /** The peer's address, for logs. */
  readonly remote: string;
  /** Bytes accepted by `send` that the operating system has not taken yet; with many messages, also what it costs to keep them. */
  readonly unsentBytes: number;
  /** Bytes received of a message that is not complete; only transports that frame messages have them. */
  readonly partialBytes?: number;
  /**
   * No message longer than this is expected from the peer, from now until the next call: on an accepted connection, one that grows longer by more
   * than 64 KiB may be cut before it is complete.
   */
  expect?(bytes: number): void;
  /** Must be called once, in the turn in which the connection was handed out. */
  start(handlers: ConnectionHandlers<Received>): void;
  /**
   * Enqueues without waiting; the bytes must not change before `onTaken`, which is called, if at all, once nobody looks at them any more. Sends to a
   * closed connection are dropped.
   */
  send(outgoing: Outgoing, onTaken?: () => void): void;
  /** Stops and restarts reading from the peer: back-pressure reaches the sender. */
  pause(): void;
  resume(): void;
  /** Sends what is enqueued, tells the peer why, closes; after 1 s without the peer's answer it is cut. */
  close(reason: string): void;
  /** Cuts at once. */
  destroy(): void;
}

/** A logical message: the envelope, then its bodies, enqueued in one synchronous step (D-24). */
export type MessageConnection = Connection<readonly Uint8Array[], Uint8Array>;
export type ByteConnection = Connection<Uint8Array, Uint8Array>;

export interface Listener {
  /** As a client would write it: host and the real port, also when port 0 was asked for. */
  readonly address: string;
  /** Accepts no more; open connections stay. */
  close(): Promise<void>;
}

export class TransportError extends Error {
  override readonly name = "TransportError";
  readonly kind: /** Nobody listens there. */
    | "refused"
    /** Who listens there lives, and takes no more connections now. */
    | "busy"
    | "unreachable"
    | "address-in-use"
    | "address-not-available"
    | "denied"
    | "timed-out"
    | "not-ottla"
    | "other";

  constructor(kind: TransportError["kind"], address: string, cause?: unknown) {
    super(`${address}: ${kind}`, cause === undefined ? undefined : { cause });
    this.kind = kind;
  }
}

/** Addresses are "host:port". Both calls reject with a TransportError. */
export interface Transport<Conn> {
  listen(address: string, onConnection: (connection: Conn) => void): Promise<Listener>;
  connect(address: string): Promise<Conn>;
}

export type MessageTransport = Transport<MessageConnection>;
export type ByteTransport = Transport<ByteConnection>;
