// Who is at the two ends of a way: node ids, and these for the controller and for clients.

/** Stands for the controller in cuts and delays. */
export const CONTROLLER = 0;
/** Stands for all clients. */
export const CLIENTS = 1_000;
