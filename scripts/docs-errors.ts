// `npm run docs:errors`: writes the tables of docs/errors.md.
import { writeTables } from "./docs-tables.ts";

writeTables("docs/errors.md", ["errors", "exit-codes"]);
