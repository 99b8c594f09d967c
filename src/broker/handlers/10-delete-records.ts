// DeleteRecords: everything below an offset goes, for good.
// Versions: 0.
// Behaviour: only the leader, only where cleanup.policy has delete (POLICY_VIOLATION), at most up to the high watermark (-1 stands for it; OFFSET_OUT_OF_RANGE
// above). Nobody reads below from then on; answered when no unfenced replica has anything below durably, or with REQUEST_TIMED_OUT: then it may be done
// later all the same. Asked for twice is as good as once. Control batches that only tell of producers may stay at the end: then the log start that is
// answered is below the offset that was asked for, with no record between.
import type { API } from "../../wire/native/apis.ts";
import { DeleteRecordsOperation } from "../delete-records.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

export function handleDeleteRecords(services: Services, request: Request<typeof API.DELETE_RECORDS>): void {
  new DeleteRecordsOperation(services, request).start();
}
