// Which colour stands for what, by the names of classes in the style sheet.

const ACKS: Readonly<Record<string, string>> = { "0": "acks-0", "1": "acks-1", all: "acks-all" };

/** Always the same colour for the same acks level, in every chart. */
export const acksColour = (acks: string | null): string => ACKS[acks ?? ""] ?? "acks-none";
