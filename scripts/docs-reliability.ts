// `npm run docs:reliability`: writes README.md's table of what each level of acknowledgement loses, from docs/reliability.json.
import { writeTables } from "./docs-tables.ts";

writeTables("README.md", ["reliability"]);
