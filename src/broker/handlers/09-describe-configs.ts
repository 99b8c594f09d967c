// DescribeConfigs: the configuration that counts, and where each value comes from.
// Versions: 0.
// Behaviour: of a topic as this broker's partitions have it; of a broker only that broker itself knows, of all brokers ("") everyone knows what is
// set at run time. With `barrier` only the controller answers, and not before it made sure that it still is. Unknown keys are left out.
import { configText, effectiveConfig, keysOf, RUNTIME_CONFIGS, type RuntimeConfigKey } from "../../metadata/configs.ts";
import type { TopicImage } from "../../metadata/image.ts";
import { OttlaError } from "../../model/errors.ts";
import type { API, ConfigSource, DescribeConfigsRequest, DescribeConfigsResponse } from "../../wire/native/apis.ts";
import { nodeIdOfResource } from "../config-resources.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

type Row = DescribeConfigsResponse["configs"][number];

export async function handleDescribeConfigs(
  services: Services,
  request: Request<typeof API.DESCRIBE_CONFIGS>,
): Promise<void> {
  const refusal = request.body.barrier ? await services.controller.barrier() : null;
  if (refusal !== null) throw refusal;
  const { keys } = request.body;
  const rows = rowsOf(services, request.body).filter(({ key }) => keys?.includes(key) ?? true);
  request.respond({ configs: rows, metadataEnd: services.quorum.image.endOffset });
}

function rowsOf(services: Services, { resource, name }: DescribeConfigsRequest): Row[] {
  if (resource === "topic") return topicRows(services, name);
  const nodeId = nodeIdOfResource(name);
  if (nodeId === null) return clusterRows(services);
  if (nodeId !== services.nodeId)
    throw new OttlaError("INVALID_REQUEST", `the configuration of broker ${nodeId} is known to that broker only`);
  return brokerRows(services);
}

function topicRows(services: Services, name: string): Row[] {
  const { quorum } = services;
  const topic = quorum.image.topicByName(name);
  if (topic === undefined || topic.isDeleting) throw new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `no topic ${name}`);
  return keysOf("topic").map((key) => rowOf(services, key, { topic, isReadOnly: false }));
}

function clusterRows({ quorum }: Services): Row[] {
  const set = quorum.image.brokerConfigs(null);
  return Object.entries(set).map(([key, value]) => ({
    key,
    value: configText(key, value),
    source: "cluster",
    isReadOnly: false,
  }));
}

function brokerRows(services: Services): Row[] {
  const atRunTime = new Set<string>(keysOf("node"));
  return Object.keys(services.config)
    .sort()
    .map((key) => {
      const isReadOnly = !atRunTime.has(key);
      if (Object.hasOwn(RUNTIME_CONFIGS, key))
        return rowOf(services, key as RuntimeConfigKey, { topic: undefined, isReadOnly });
      const value = services.config[key as keyof typeof services.config];
      return { key, value: String(value ?? ""), source: "static", isReadOnly };
    });
}

const SOURCES: Readonly<Record<ReturnType<typeof effectiveConfig>["source"], ConfigSource>> = {
  topic: "topic",
  node: "broker",
  cluster: "cluster",
  file: "static",
};

function rowOf(
  { quorum, config, nodeId }: Services,
  key: RuntimeConfigKey,
  of: { readonly topic: TopicImage | undefined; readonly isReadOnly: boolean },
): Row {
  const isOfFile = key !== "min.insync.replicas" && key !== "allow.acks.below.min.isr";
  const fallback = isOfFile ? config[key] : key === "min.insync.replicas" ? minIsrOf(of.topic) : 0;
  const { value, source } = effectiveConfig(quorum.image, key, { topic: of.topic, nodeId, fileValue: fallback });
  const from = source === "file" && !isOfFile ? "default" : SOURCES[source];
  return { key, value: configText(key, value), source: from, isReadOnly: of.isReadOnly };
}

/** Where nothing is set: a majority of the replicas. */
function minIsrOf(topic: TopicImage | undefined): number {
  return topic?.partitions[0]?.minIsr ?? 1;
}
