// What a topic may be called: Kafka's rules, which are also those of a directory name.

export const TOPIC_NAME_LENGTH_MAX = 249;

/** What is wrong with the name, for people; undefined when it is allowed. */
export function topicNameFault(name: string): string | undefined {
  if (name.length === 0) return "a topic name is not empty";
  if (name === "." || name === "..") return `a topic cannot be called "${name}"`;
  if (name.length > TOPIC_NAME_LENGTH_MAX)
    return `a topic name has at most ${TOPIC_NAME_LENGTH_MAX} characters, not ${name.length}`;
  if (!/^[a-zA-Z0-9._-]*$/.test(name)) return "a topic name is made of a-z A-Z 0-9 . _ -";
  return undefined;
}

/** Names that differ only in "." and "_" are the same in metric names, which write "_" for ".". */
export function topicNamesCollide(left: string, right: string): boolean {
  return left.replaceAll(".", "_") === right.replaceAll(".", "_");
}
