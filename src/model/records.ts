// Records in and out of batches: one place to import both ways from.
export {
  CONTROL_TYPES,
  type ControlBatchOptions,
  type ControlType,
  type RecordHeaders,
  type RecordInput,
  RecordBatchBuilder,
  type BuildOptions,
  buildControlBatch,
  recordSizeBytes,
} from "./records-encode.ts";
export {
  type ControlRecord,
  DecodedBatch,
  type DecodedRecord,
  type DecodeOptions,
  type RecordCursor,
  type RecordView,
  decodeControlRecord,
  decodeRecords,
} from "./records-decode.ts";
export { forEachBatch } from "./batch-header.ts";
