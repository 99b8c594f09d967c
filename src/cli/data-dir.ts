// Where a local cluster keeps everything when nobody says otherwise: relative to the current directory, ignored by git.
export const DEFAULT_DATA_DIR = "ottla-data";
