// What a node calls itself in its Hello to another.

export const nodeName = (nodeId: number): string => `node ${nodeId}`;

/** In a name of that form the digits of the id. */
export const NODE_NAME = /^node (\d{1,5})$/;
