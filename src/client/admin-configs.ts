// Configuration of topics and brokers, asked and changed while they run.
import { API, type DescribeConfigsRequest } from "../wire/native/apis.ts";
import type { AlterOptions, ConfigChanges, ConfigInfo, ConfigOwner, ReadOptions } from "./admin-types.ts";
import { CALL_TIMEOUT_MS, callAny, retrying } from "./calls.ts";
import type { ClientContext } from "./context.ts";
import { changeAtController, connectToNode, drawRequestId, readAtController } from "./controller.ts";
import { aBoolean, aDuration, type Checks, checkOptions, invalid } from "./options.ts";
import { checkTopicName } from "./outgoing.ts";

const ALTER_CHECKS: Checks<AlterOptions> = { validateOnly: aBoolean, timeoutMs: aDuration() };

export async function alterConfigs(
  context: ClientContext,
  wish: { readonly owner: ConfigOwner; readonly changes: ConfigChanges; readonly options: AlterOptions },
): Promise<void> {
  const { options } = wish;
  checkOptions("alterConfigs", options, ALTER_CHECKS);
  const { validateOnly = false, timeoutMs = CALL_TIMEOUT_MS } = options;
  const requestId = validateOnly ? null : drawRequestId(context.rng);
  const request = { ...wireOwner(wish.owner), changes: wireChanges(wish.changes), validateOnly, requestId };
  const { metadataEnd } = await changeAtController(context, API.ALTER_CONFIGS, request, {
    timeoutMs,
    isRepeatable: () => true,
  });
  if (!validateOnly) context.pool.expect(metadataEnd);
}

export async function describeConfigs(
  context: ClientContext,
  owner: ConfigOwner,
  options: ReadOptions,
): Promise<ConfigInfo[]> {
  const { linearizable = false, timeoutMs = CALL_TIMEOUT_MS } = options;
  const request = { ...wireOwner(owner), keys: null, barrier: false };
  if ("broker" in owner && owner.broker !== "default")
    return await ofBroker(context, owner.broker, { request, timeoutMs });
  const answer = linearizable
    ? await readAtController(context, API.DESCRIBE_CONFIGS, { ...request, barrier: true }, { timeoutMs })
    : await callAny(context, API.DESCRIBE_CONFIGS, request, { timeoutMs });
  return [...answer.configs];
}

/** Nobody else knows how it was started. */
async function ofBroker(
  context: ClientContext,
  nodeId: number,
  { request, timeoutMs }: { readonly request: DescribeConfigsRequest; readonly timeoutMs: number },
): Promise<ConfigInfo[]> {
  const { alarms } = context;
  const deadlineMs = alarms.nowMs() + timeoutMs;
  return await retrying(context, deadlineMs, async (leftMs) => {
    const connection = await connectToNode(context, nodeId, leftMs);
    const answer = await connection.call(API.DESCRIBE_CONFIGS, request, Math.max(1, deadlineMs - alarms.nowMs()));
    return [...answer.configs];
  });
}

function wireOwner(owner: ConfigOwner): Pick<DescribeConfigsRequest, "resource" | "name"> {
  if ("topic" in owner) {
    checkTopicName(owner.topic);
    return { resource: "topic", name: owner.topic };
  }
  const { broker } = owner;
  if (broker === "default") return { resource: "broker", name: "" };
  if (!Number.isInteger(broker) || broker < 0) throw invalid("broker", 'a node id or "default"', broker);
  return { resource: "broker", name: String(broker) };
}

function wireChanges(changes: ConfigChanges): { key: string; value: string | null }[] {
  if (typeof changes !== "object" || changes === null || Array.isArray(changes)) {
    throw invalid("changes", "an object of configuration keys", changes);
  }
  return Object.entries(changes).map(([key, value]) => {
    if (value !== null && typeof value !== "string" && typeof value !== "number") {
      throw invalid(`changes: ${key}`, "a text, a number or null", value);
    }
    return { key, value: value === null ? null : String(value) };
  });
}
