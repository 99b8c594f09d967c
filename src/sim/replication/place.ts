// Who is at the two ends of a way: node ids, and this for the controller.

/** Stands for the controller in cuts and delays. */
export const CONTROLLER = 0;
