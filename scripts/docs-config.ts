// `npm run docs:config`: writes the table of docs/configuration.md.
import { writeTables } from "./docs-tables.ts";

writeTables("docs/configuration.md", ["config"]);
