// Prints the properties of every parameters' schema that an installed OpenClaw brings, as JSON;
// of a file with the published schema, those of its definitions.
import { readFileSync, readdirSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const where = process.argv[2];
const dist = where + "/dist/";
const own = dist + "gateway/protocol/index.js";

// 2026.9 exports its schemas; of 2026.2 the part of a bundle that makes them is evaluated by itself.
const schemas = where.endsWith(".json")
  ? JSON.parse(readFileSync(where, "utf8")).definitions
  : existsSync(own)
    ? await import(pathToFileURL(own).href)
    : await evaluated();

async function evaluated() {
  const begin = "//#region src/gateway/protocol/schema/primitives.ts";
  const end = "//#region src/gateway/protocol/schema/protocol-schemas.ts";
  const bundles = readdirSync(dist).filter((name) => /^client-.*\.js$/.test(name)).sort();
  const text = bundles
    .map((name) => readFileSync(dist + name, "utf8"))
    .find((one) => one.includes(begin));
  let body = text.slice(text.indexOf(begin), text.indexOf(end));
  const constants = ["GATEWAY_CLIENT_NAMES", "GATEWAY_CLIENT_MODES", "GATEWAY_CLIENT_IDS"];
  for (const name of constants) body = `const ${name} = { A: "a" };\n` + body;
  body = 'const INPUT_PROVENANCE_KIND_VALUES = ["a"];\nconst SESSION_LABEL_MAX_LENGTH = 64;\n' + body;
  const { Type } = await import(pathToFileURL(createRequire(dist).resolve("@sinclair/typebox")).href);
  const names = [...body.matchAll(/const (\w+ParamsSchema) =/g)].map((match) => match[1]);
  return new Function("Type", `${body}; return {${names.join(",")}};`)(Type);
}

// `a.b` is a property within one, `a[].b` one within the items of a list.
function properties(schema, above = "") {
  const found = new Set();
  for (const [name, one] of Object.entries(schema.properties ?? {})) {
    found.add(above + name);
    for (const below of properties(one, `${above}${name}.`)) found.add(below);
  }
  for (const key of ["anyOf", "oneOf", "allOf"])
    for (const one of schema[key] ?? []) for (const name of properties(one, above)) found.add(name);
  if (schema.items && !Array.isArray(schema.items))
    for (const name of properties(schema.items, above.replace(/\.$/, "[]."))) found.add(name);
  return [...found].sort();
}

const told = {};
for (const [name, schema] of Object.entries(schemas))
  if (/Params(Schema)?$/.test(name))
    // Of some 2026.9 exports only the function that judges by the schema, which it carries.
    told[name.replace(/^validate|Schema$/g, "")] = properties(schema.schema ?? schema);
console.log(JSON.stringify(told));
