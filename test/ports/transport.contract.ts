// What a MessageTransport promises, as cases for every adapter.
import { expect } from "vitest";
import { utf8Decode, utf8Encode } from "../../src/base/bytes.ts";
import {
  type Listener,
  type MessageConnection,
  type MessageTransport,
  TransportError,
} from "../../src/ports/transport.ts";
import type { ContractCase } from "./contract.ts";

export interface TransportSubject {
  readonly transport: MessageTransport;
  /** An address to listen on, with a port of the transport's choice. */
  readonly anyAddress: string;
  /** An address where nobody listens. */
  readonly deadAddress: string;
  /** Waits a little of the adapter's time. */
  readonly pause: () => Promise<void>;
}

interface Side {
  readonly connection: MessageConnection;
  readonly received: string[];
  readonly closed: string[];
  drains: number;
}

function start(connection: MessageConnection): Side {
  const side: Side = { connection, received: [], closed: [], drains: 0 };
  connection.start({
    onReceive: (message) =>
      void side.received.push(message.length > 64 ? `${message[0]}x${message.length}` : utf8Decode(message)),
    onClose: (reason) => void side.closed.push(reason),
    onDrain: () => void side.drains++,
  });
  return side;
}

async function until(subject: TransportSubject, condition: () => boolean): Promise<void> {
  for (let round = 0; round < 2000 && !condition(); round++) await subject.pause();
  expect(condition()).toBe(true);
}

async function pair(subject: TransportSubject): Promise<{ client: Side; server: Side; listener: Listener }> {
  const accepted: Side[] = [];
  const listener = await subject.transport.listen(
    subject.anyAddress,
    (connection) => void accepted.push(start(connection)),
  );
  const client = start(await subject.transport.connect(listener.address));
  await until(subject, () => accepted.length === 1);
  return { client, server: accepted[0] as Side, listener };
}

async function end(
  subject: TransportSubject,
  { client, server, listener }: { client: Side; server: Side; listener: Listener },
): Promise<void> {
  client.connection.destroy();
  await until(subject, () => client.closed.length === 1 && server.closed.length === 1);
  await listener.close();
}

export const transportContract: readonly ContractCase<TransportSubject>[] = [
  {
    name: "the listener names its real port",
    async run(subject) {
      const listener = await subject.transport.listen(subject.anyAddress, () => undefined);
      expect(listener.address).toMatch(/^[^:]+:[1-9]\d*$/);
      await listener.close();
    },
  },
  {
    name: "messages arrive whole and in order, both ways, the empty one too",
    async run(subject) {
      const both = await pair(subject);
      both.client.connection.send([utf8Encode("one"), utf8Encode(""), utf8Encode("two")]);
      both.client.connection.send([utf8Encode("three")]);
      both.server.connection.send([utf8Encode("answer")]);
      await until(subject, () => both.server.received.length === 4 && both.client.received.length === 1);
      expect(both.server.received).toEqual(["one", "", "two", "three"]);
      expect(both.client.received).toEqual(["answer"]);
      await end(subject, both);
    },
  },
  {
    name: "a large message arrives whole",
    async run(subject) {
      const both = await pair(subject);
      both.client.connection.send([new Uint8Array(900_000).fill(9), utf8Encode("after")]);
      await until(subject, () => both.server.received.length === 2);
      expect(both.server.received).toEqual(["9x900000", "after"]);
      await end(subject, both);
    },
  },
  {
    name: "an orderly close delivers what was sent before it and tells the peer why, once",
    async run(subject) {
      const { client, server, listener } = await pair(subject);
      client.connection.send([utf8Encode("last words")]);
      client.connection.close("enough");
      await until(subject, () => client.closed.length === 1 && server.closed.length === 1);
      expect(server.received).toEqual(["last words"]);
      expect(server.closed[0]).toContain("enough");
      await subject.pause();
      expect([client.closed.length, server.closed.length]).toEqual([1, 1]);
      await listener.close();
    },
  },
  {
    name: "a cut connection is told to both ends once, and takes no more",
    async run(subject) {
      const { client, server, listener } = await pair(subject);
      client.connection.destroy();
      client.connection.destroy();
      client.connection.send([utf8Encode("into the void")]);
      await until(subject, () => client.closed.length === 1 && server.closed.length === 1);
      server.connection.send([utf8Encode("into the void")]);
      server.connection.close("again");
      await subject.pause();
      expect([client.closed.length, server.closed.length]).toEqual([1, 1]);
      expect([...client.received, ...server.received]).toEqual([]);
      await listener.close();
    },
  },
  {
    name: "a paused receiver holds the sender back; all arrives after it resumes, with a drain",
    async run(subject) {
      const both = await pair(subject);
      both.server.connection.pause();
      for (let count = 0; count < 256; count++) both.client.connection.send([new Uint8Array(64 * 1024).fill(count)]);
      for (let round = 0; round < 20; round++) await subject.pause();
      expect(both.client.connection.unsentBytes).toBeGreaterThan(1024 * 1024);
      expect(both.server.received.length).toBeLessThan(200);
      both.server.connection.resume();
      await until(subject, () => both.server.received.length === 256);
      await until(subject, () => both.client.connection.unsentBytes === 0 && both.client.drains >= 1);
      await end(subject, both);
    },
  },
  {
    name: "closing the listener leaves open connections and refuses new ones",
    async run(subject) {
      const both = await pair(subject);
      await both.listener.close();
      both.client.connection.send([utf8Encode("still here")]);
      await until(subject, () => both.server.received.length === 1);
      await expect(subject.transport.connect(both.listener.address)).rejects.toBeInstanceOf(TransportError);
      await end(subject, both);
    },
  },
  {
    name: "nobody listening is refused; a taken address is in use",
    async run(subject) {
      await expect(subject.transport.connect(subject.deadAddress)).rejects.toMatchObject({ kind: "refused" });
      const listener = await subject.transport.listen(subject.anyAddress, () => undefined);
      await expect(subject.transport.listen(listener.address, () => undefined)).rejects.toMatchObject({
        kind: "address-in-use",
      });
      await listener.close();
    },
  },
];
