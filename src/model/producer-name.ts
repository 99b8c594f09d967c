// What a producer may be called: checked by the client at once, and by the controller.

const LENGTH_MAX = 249;

/** What a name takes that this one does not have; undefined: nothing. */
export function producerNameFault(name: string): string | undefined {
  // Decoders of UTF-8 take a U+FEFF at the start for none of the text: it would be another name there.
  const hasMark = name.startsWith("\uFEFF");
  // Half a surrogate pair is no character: as UTF-8 it would be another name's, too.
  const isFine = !hasMark && name.length >= 1 && name.length <= LENGTH_MAX && !/[\p{Cc}\p{Cs}]/u.test(name);
  return isFine
    ? undefined
    : `1 to ${LENGTH_MAX} characters, none of them a control character, the first no byte order mark`;
}
