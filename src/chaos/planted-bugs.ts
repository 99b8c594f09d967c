// Loaded first by nodes of a self-test (`--import`): switches on the planted bugs that OTTLA_TEST_PLANTED_BUGS names. The published build has none left.
import { activateMutants } from "../base/mutant.ts";

activateMutants((process.env["OTTLA_TEST_PLANTED_BUGS"] ?? "").split(",").filter((id) => id !== ""));
