// The address that a broker tells others.
import { expect, test } from "vitest";
import { BrokerWorld } from "./support.ts";

test.each([
  [{}, "node1:7070"],
  [{ "controller.quorum.voters": "1@node1:7070" }, "node1:7070"],
  [{ listeners: "node1:7071", "controller.quorum.voters": "1@node1:7071" }, "node1:7071"],
  [{ "advertised.listeners": "ws://public:80", "controller.quorum.voters": "1@node1:7070" }, "public:80"],
])("with %j it is %s", async (config, address) => {
  const broker = new BrokerWorld({ config });
  await broker.start();
  expect(broker.broker.address).toBe(address);
  await broker.stop();
});

test("listening on every interface it is where the list says", async () => {
  const config = { listeners: "node1:7099", "controller.quorum.voters": "1@elsewhere:7070" };
  const broker = new BrokerWorld({ config });
  await broker.start();
  expect(broker.broker.address).toBe("elsewhere:7070");
  await broker.stop();
});
