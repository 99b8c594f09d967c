// Every schedule that is played by hand.
import { FOLLOWER_SCHEDULES } from "./followers.ts";
import { LEADER_SCHEDULES } from "./leaders.ts";
import { METADATA_SCHEDULES } from "./metadata.ts";
import { PRODUCER_SCHEDULES } from "./producers.ts";
import type { DirectedSchedule } from "./stage.ts";

export const DIRECTED_SCHEDULES: readonly DirectedSchedule[] = [
  ...LEADER_SCHEDULES,
  ...FOLLOWER_SCHEDULES,
  ...METADATA_SCHEDULES,
  ...PRODUCER_SCHEDULES,
];
