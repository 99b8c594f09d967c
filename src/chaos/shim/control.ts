// Switches of a node's preload shim, thrown while the node runs.

export interface ShimControl {
  /** The shared file that the shim maps. */
  readonly file: string;
}
