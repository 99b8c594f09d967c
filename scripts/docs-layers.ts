// `npm run docs:layers`: writes the allow-lists of docs/architecture.md.
import { writeTables } from "./docs-tables.ts";

writeTables("docs/architecture.md", ["layers"]);
