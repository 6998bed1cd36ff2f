// Makes the types of requests and replies, src/generated/*.ts, of the OpenAPI documents of a searcher and an indexer
// that run: generate.js [SEARCHER INDEXER], each the URL of a server. The programs print the documents only where they
// serve.
import { mkdir, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const [searcher = "http://127.0.0.1:7780", indexer = "http://127.0.0.1:7712"] = process.argv.slice(2);
const FOLDER = new URL("src/generated/", import.meta.url);
const FETCH_MS = 10_000;

async function documentOf(server) {
  const url = new URL("/v1/openapi.json", server);
  try {
    const reply = await fetch(url, { signal: AbortSignal.timeout(FETCH_MS) });
    if (!reply.ok) throw new Error(`HTTP status ${reply.status}`);
    return await reply.json();
  } catch (error) {
    const reason = error.cause?.message ?? error.message;
    const fix = "Start dyad-searcher and dyad-indexer with --http, or name others";
    throw new Error(`${url}: expected an OpenAPI document, got: ${reason}. ${fix}`);
  }
}

// Metadata may be anything in the documents; for TypeScript they are an object of JSON, or null where there is none.
function postTransform(_, { path }) {
  if (!path?.endsWith("/schemas/Document/metadata")) return undefined;
  const { factory } = ts;
  return factory.createUnionTypeNode([
    factory.createTypeReferenceNode("Metadata"),
    factory.createLiteralTypeNode(factory.createNull()),
  ]);
}

// What has a default may be left out of a request.
const OPTIONS = { postTransform, defaultNonNullable: false, silent: true };

await mkdir(FOLDER, { recursive: true });
for (const [name, server] of Object.entries({ searcher, indexer })) {
  const types = astToString(await openapiTS(await documentOf(server), OPTIONS));
  const header = `// Made by generate.js of the OpenAPI document of dyad-${name}.`;
  const text = `${header}\nimport type { Metadata } from "../json.js";\n\n${types}`;
  await writeFile(new URL(`${name}.ts`, FOLDER), text);
}
