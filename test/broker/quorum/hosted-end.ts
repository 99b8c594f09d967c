// A broker's end of one connection, as far as the quorum needs it: Hello, and the requests that the quorum answers.
import type { HostedQuorum } from "../../../src/broker/quorum/types.ts";
import { asOttlaError } from "../../../src/model/errors.ts";
import { type NodeId, uuidFromBytes } from "../../../src/model/ids.ts";
import type { MessageConnection } from "../../../src/ports/transport.ts";
import { API, type ApiKey, type ApiTypes } from "../../../src/wire/native/apis.ts";
import { encodeResponse, RequestAssembler, SUPPORTED_VERSIONS } from "../../../src/wire/native/codec.ts";
import type { DecodedRequest, RequestHeader } from "../../../src/wire/native/protocol.ts";

const BODY_BYTES_MAX = 64 * 1024 * 1024;

export class HostedEnd {
  readonly #connection: MessageConnection;
  readonly #quorum: HostedQuorum;
  readonly #nodeId: NodeId;
  readonly #assembler = new RequestAssembler({ bodyBytesMax: BODY_BYTES_MAX });

  constructor(connection: MessageConnection, quorum: HostedQuorum, nodeId: NodeId) {
    this.#connection = connection;
    this.#quorum = quorum;
    this.#nodeId = nodeId;
    connection.start({
      onReceive: (bytes) => {
        const assembled = this.#assembler.push(bytes);
        if (assembled.kind === "broken") throw new Error(assembled.reason);
        if (assembled.kind === "message") this.#take(assembled.message);
      },
      onClose: () => undefined,
      onDrain: () => undefined,
    });
  }

  #take(message: DecodedRequest): void {
    const { header } = message;
    switch (header.api) {
      case API.RAFT:
        return this.#quorum.receiveRaft(message.request as ApiTypes[32]["request"], message.bodies);
      case API.HELLO:
        return this.#answer(header, this.#hello(), []);
      case API.VOTER_HELLO:
        return this.#answer(header, this.#quorum.voterHello(message.request as ApiTypes[33]["request"]), []);
      case API.ADOPT:
        return this.#later(
          header,
          this.#quorum.adopt(message.request as ApiTypes[34]["request"]).then(() => ({ response: {}, bodies: [] })),
        );
      case API.FETCH_METADATA:
        return this.#later(header, this.#quorum.fetchMetadata(message.request as ApiTypes[37]["request"]));
      default:
        throw new Error(`api ${header.api} is not the quorum's`);
    }
  }

  #hello(): ApiTypes[1]["response"] {
    return {
      clusterId: this.#quorum.clusterId ?? uuidFromBytes(new Uint8Array(16)),
      nodeId: this.#nodeId,
      brokerEpoch: -1,
      software: "test",
      apis: SUPPORTED_VERSIONS,
      messageBytesMax: BODY_BYTES_MAX,
      inFlightBytesMax: BODY_BYTES_MAX,
    };
  }

  #later(
    header: RequestHeader,
    work: Promise<{ readonly response: object; readonly bodies: readonly Uint8Array[] }>,
  ): void {
    work.then(
      ({ response, bodies }) => this.#answer(header, response as ApiTypes[ApiKey]["response"], bodies),
      (thrown: unknown) => {
        const { code, message } = asOttlaError(thrown);
        this.#connection.send(encodeResponse({ ...header, more: false, error: code, message }, null, []));
      },
    );
  }

  #answer(header: RequestHeader, response: ApiTypes[ApiKey]["response"], bodies: readonly Uint8Array[]): void {
    this.#connection.send(encodeResponse({ ...header, more: false, error: "NONE", message: null }, response, bodies));
  }
}
