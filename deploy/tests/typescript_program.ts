// A program with the TypeScript client, for typescript.py: each call against servers that run, which have the quick
// start's documents. The compiler must refuse what follows `@ts-expect-error`. The addresses and the key are put in by
// typescript.py.
import { Aborted, Index, InvalidArgument, NotFound, Searcher, Unauthenticated, all, field, not } from "dyad-client";

function equal(name: string, got: unknown, expected: unknown): void {
  const digits = (_: string, part: unknown) => (typeof part === "bigint" ? `${part}n` : part);
  const text = (value: unknown) => JSON.stringify(value, digits);
  if (text(got) !== text(expected)) throw new Error(`${name}: expected ${text(expected)}, got ${text(got)}`);
}

type Kind<E> = new (...given: never[]) => E;

async function fails<E extends Error>(name: string, kind: Kind<E>, call: Promise<unknown>): Promise<E> {
  const error = await call.then(() => undefined, (reason: unknown) => reason);
  if (!(error instanceof kind)) throw new Error(`${name}: expected ${kind.name}, got ${error}`);
  return error;
}

const index = new Index("http://127.0.0.1:7712");
const searcher = new Searcher("http://127.0.0.1:7780");

async function changes(): Promise<void> {
  const documents = (await searcher.status()).documents;
  const id = 12345678901234567890n;
  const text = "The okapi is a relative of the giraffe.";
  const okapi = { key: "n7", title: "Okapi", text, metadata: { id, year: 1901 } };
  const giraffe = { key: "n8", text: "The giraffe has a long neck.", metadata: { year: 1758 } };
  const named = { requestKey: "okapi and giraffe", wait: "searchable" } as const;
  const added = await index.upsert([okapi, giraffe], { ...named, expected: { n7: null } });
  equal("upsert", [added.indexed, added.documents, added.searchable], [2, documents + 2, true]);
  const again = await index.upsert([okapi, giraffe], { ...named, expected: { n7: null } });
  equal("the same name", [again.generation, again.indexed], [added.generation, 2]);
  const reused = await fails("another call of that name", InvalidArgument, index.delete("n8", named));
  equal("its field", reused.field, "request_key");

  const read = await searcher.documents(["n7", "n9"]);
  equal("missing", read.missing, ["n9"]);
  const [stored] = read.documents;
  if (!stored?.etag) throw new Error("expected the etag of n7, got none");
  const metadata = stored.metadata;
  equal("metadata", [metadata?.["id"], metadata?.["year"]], [id, 1901]);
  equal("count by all digits", await searcher.count(field("id").equals(id)), 1);
  equal("count by one more", await searcher.count(field("id").equals(id + 1n)), 0);

  const changed = { ...stored, key: "n7", text: "The okapi lives in the Congo." };
  await fails("an etag of something else", Aborted, index.upsert(changed, { expected: { n7: "0123" } }));
  const written = await index.upsert(changed, { expected: { n7: stored.etag }, wait: "searchable" });
  equal("upsert by etag", written.indexed, 1);
  await fails("an old etag", Aborted, index.delete("n7", { expected: { n7: stored.etag } }));
  equal("digits after both ways", (await searcher.documents(["n7"])).documents[0]?.metadata, metadata);

  equal("delete", (await index.delete(["n7", "n9"], { wait: "searchable" })).rejected, 1);
  equal("deleteWhere", (await index.deleteWhere(field("year").below(1900), { wait: "searchable" })).indexed, 1);
  equal("documents in the end", await searcher.count(), documents);
}

async function searches(): Promise<void> {
  const found = await searcher.search("Who was Temüjin?");
  equal("hits", [found.hits.length, found.mode], [10, "MODE_HYBRID"]);
  const best = found.hits[0];
  if (!best) throw new Error("expected a hit, got none");
  const others = all(field("key").startsWith("p"), not(field("key").equals(best.key)));
  const request = { query: "Who was Temüjin?", mode: "bm25", k: 3, snippet_bytes: 120, filter: others } as const;
  const [first, second] = await searcher.searchBatch([request, { ...request, mode: "hybrid", fusion: "rrf" }]);
  equal("batch", [first?.mode, second?.fusion], ["MODE_BM25", "FUSION_RRF"]);
  equal("the hit that is left out", first?.hits.some((hit) => hit.key === best.key), false);
  const explained = await searcher.explain(best.key, { ...request, filter: not(field("key").equals(best.key)) });
  equal("explain", explained.allowed, false);

  const { documents, index_model } = await searcher.status({ index: "index" });
  const { dim, fingerprint } = index_model ?? { dim: 0, fingerprint: "" };
  const vector = new Float32Array(dim).fill(0.5);
  equal("vector", (await searcher.search({ vector, fingerprint, k: 1 })).mode, "MODE_DENSE");
  const keys: string[] = [];
  for await (const scrolled of searcher.scroll({ pageSize: 7, fields: ["title"], withVectors: true })) {
    keys.push(scrolled.document?.key ?? "");
    equal("length of a vector", scrolled.vector?.values.length, dim);
  }
  equal("scroll", keys, [...keys].sort());
  equal("scroll to the end", [new Set(keys).size, await searcher.count()], [documents, documents]);
  const page = searcher.scroll({ after: keys[0], filter: field("title").exists() });
  equal("scroll from a key", (await page.next()).value?.document?.key, keys[1]);
  equal("sample", (await searcher.sample(3, { seed: 1, filter: field("key").atMost(keys[4] ?? "") })).of, 5);
  equal("fields", (await searcher.fields()).fields.some((each) => each.name === "title"), true);
  equal("indexes", (await searcher.indexes()).indexes.map((each) => each.name), ["index"]);
}

async function errors(): Promise<void> {
  const large = await fails("a large k", InvalidArgument, searcher.searchBatch(["x", { query: "x", k: 20_000 }]));
  equal("its field", [large.field, large.code, large.httpStatus], ["requests[1].k", "INVALID_ARGUMENT", 400]);
  await fails("no such index", NotFound, new Searcher("http://127.0.0.1:7780", { index: "other" }).status());
  const locked = "http://127.0.0.1:7781";
  await fails("no key", Unauthenticated, new Searcher(locked).count());
  await fails("a wrong key", Unauthenticated, new Searcher(locked, { apiKey: "wrong" }).count());
  equal("with the key", await new Searcher(locked, { apiKey: "API-KEY" }).count(), await searcher.count());
}

/** Never called. */
export function refused(): unknown[] {
  return [
    // @ts-expect-error A number is no text.
    searcher.search({ query: "x", k: "3" }),
    // @ts-expect-error A word that is none.
    searcher.search({ query: "x", mode: "hybride" }),
    // @ts-expect-error A field that is none.
    searcher.search({ query: "x", snippetbytes: 3 }),
    // @ts-expect-error A document without a key.
    index.upsert({ text: "x" }),
    // @ts-expect-error A misspelt option.
    index.delete("x", { expect: { x: null } }),
    // @ts-expect-error No value of JSON.
    index.upsert({ key: "x", metadata: { made: new Date() } }),
    // @ts-expect-error Booleans have no order.
    field("x").atLeast(true),
  ];
}

await changes();
await searches();
await errors();
console.log("all calls ok");
