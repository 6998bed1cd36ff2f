// The client against servers that answer as a test wants: retries, deadlines, errors, keys, digits.
// `node --test tests/`, after a build.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import * as dyad from "dyad-client";

const RETRY = { firstWaitMs: 1 };
const COUNTS = { documents: 1, read: 1, indexed: 1, unchanged: 0, superseded: 0, rejected: 0, reused: 0 };
const CHANGED = { generation: 2, ...COUNTS };

/** A server that answers by `answers`, one for each request, the last one for all that follow; and what it was sent. */
async function serving(t, ...answers) {
  const requests = [];
  const server = createServer(async (request, reply) => {
    let body = "";
    for await (const part of request) body += part;
    const answer = answers[Math.min(requests.length, answers.length - 1)];
    requests.push({ method: request.method, url: request.url, headers: request.headers, body });
    answer(reply);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests };
}

const says = (status, value, headers = {}) => (reply) => {
  reply.writeHead(status, { "content-type": "application/json", ...headers });
  reply.end(typeof value === "string" ? value : JSON.stringify(value));
};
const refuses = (status, name, message, headers) =>
  says(status, { error: { code: status, status: name, message } }, headers);
const loses = (reply) => reply.destroy();
const isSilent = () => {};
const counts = says(200, { documents: 7 });
const isBusy = refuses(429, "RESOURCE_EXHAUSTED", "full", { "retry-after-ms": "20", "retry-after": "1" });
const isAway = refuses(503, "UNAVAILABLE", "ending", { "retry-after-ms": "1" });

test("a search is sent again where the server is full, away, or lost", async (t) => {
  const { url, requests } = await serving(t, isBusy, loses, counts);
  const begun = performance.now();
  assert.equal(await new dyad.Searcher(url, { retry: RETRY }).count(), 7);
  assert.equal(requests.length, 3);
  const waitedMs = performance.now() - begun;
  assert.ok(waitedMs >= 19, `expected the 20 ms that the server asks for, got ${waitedMs}`);
});

test("attempts end, and nothing else is sent again", async (t) => {
  const away = await serving(t, isAway);
  await assert.rejects(new dyad.Searcher(away.url, { retry: RETRY }).status(), (error) => {
    assert.ok(error instanceof dyad.Unavailable);
    assert.equal(error.attempts, 3);
    assert.match(error.message, /unavailable \(3 attempts\): ending\. Start the server/);
    return true;
  });
  assert.equal(away.requests.length, 3);
  for (const [status, name, kind] of [
    [400, "INVALID_ARGUMENT", dyad.InvalidArgument],
    [400, "FAILED_PRECONDITION", dyad.FailedPrecondition],
    [400, "OUT_OF_RANGE", dyad.OutOfRange],
    [401, "UNAUTHENTICATED", dyad.Unauthenticated],
    [403, "PERMISSION_DENIED", dyad.PermissionDenied],
    [404, "NOT_FOUND", dyad.NotFound],
    [409, "ABORTED", dyad.Aborted],
    [500, "INTERNAL", dyad.Internal],
    [500, "DATA_LOSS", dyad.DyadError],
    [501, "UNIMPLEMENTED", dyad.Unimplemented],
    [504, "DEADLINE_EXCEEDED", dyad.DeadlineExceeded],
  ]) {
    const { url, requests } = await serving(t, refuses(status, name, "`k`: expected 1, got 2"));
    await assert.rejects(new dyad.Searcher(url, { retry: RETRY }).search("x"), (error) => {
      assert.equal(error.constructor, kind);
      assert.deepEqual([error.code, error.httpStatus, error.detail], [name, status, "`k`: expected 1, got 2"]);
      return true;
    });
    assert.equal(requests.length, 1, name);
  }
});

test("a change is made under one name, also after a lost connection", async (t) => {
  const { url, requests } = await serving(t, loses, isBusy, says(200, CHANGED));
  const index = new dyad.Index(url, { retry: RETRY });
  assert.equal((await index.upsert({ key: "a", text: "b" })).generation, 2);
  const names = requests.map((request) => JSON.parse(request.body).request_key);
  assert.match(names[0], /^[0-9a-f]{32}$/);
  assert.deepEqual(names, [names[0], names[0], names[0]]);
  await index.delete("a");
  assert.notEqual(JSON.parse(requests[3].body).request_key, names[0]);
  const options = { requestKey: "mine", wait: "searchable", expected: { a: null } };
  await index.deleteWhere(dyad.field("year").below(2020), options);
  assert.deepEqual(JSON.parse(requests[4].body), {
    filter: { range: { field: "year", below: { number: 2020 } } },
    expected: [{ key: "a", etag: "" }],
    request_key: "mine",
    wait: "WAIT_SEARCHABLE",
  });
});

test("a full server that does not say when is asked by a search again, and by a change not", async (t) => {
  const silentlyFull = refuses(429, "RESOURCE_EXHAUSTED", "full");
  const searched = await serving(t, silentlyFull, counts);
  assert.equal(await new dyad.Searcher(searched.url, { retry: RETRY }).count(), 7);
  const changed = await serving(t, silentlyFull, says(200, CHANGED));
  await assert.rejects(new dyad.Index(changed.url, { retry: RETRY }).delete("a"), dyad.Busy);
  assert.equal(changed.requests.length, 1);
});

test("an error of a change says where it may have been made", async (t) => {
  const maybe = /the change may have been made/;
  for (const [answer, isMaybe] of [
    [loses, true],
    [refuses(500, "INTERNAL", "lost"), true],
    [refuses(503, "UNAVAILABLE", "ending; nothing was changed"), false],
    [refuses(400, "INVALID_ARGUMENT", "`key`: expected text, got none"), false],
  ]) {
    const { url } = await serving(t, answer);
    await assert.rejects(new dyad.Index(url, { retry: { attempts: 1 } }).delete("a"), (error) => {
      assert.equal(maybe.test(error.message), isMaybe, error.message);
      return true;
    });
  }
  // Nobody listens at a port that was given back.
  const closed = createServer().listen(0, "127.0.0.1");
  await once(closed, "listening");
  const { port } = closed.address();
  closed.close();
  await once(closed, "close");
  await assert.rejects(new dyad.Index(`http://127.0.0.1:${port}`, { retry: RETRY }).delete("a"), (error) => {
    assert.ok(error instanceof dyad.Unavailable && error.attempts === 3);
    return !maybe.test(error.message);
  });
});

test("a deadline covers all attempts, and a signal ends a call", async (t) => {
  const silent = await serving(t, isSilent);
  const searcher = new dyad.Searcher(silent.url, { timeoutMs: 1000 });
  await assert.rejects(searcher.status(), dyad.DeadlineExceeded);
  const seconds = Number(silent.requests[0].headers["x-request-timeout"]);
  assert.ok(seconds > 0 && seconds <= 1, `expected the deadline in seconds, got ${seconds}`);
  const signal = AbortSignal.timeout(50);
  await assert.rejects(searcher.status({ timeoutMs: 60_000, signal }), (error) => {
    return error instanceof dyad.Cancelled && error.cause === signal.reason;
  });
  const waits = await serving(t, refuses(429, "RESOURCE_EXHAUSTED", "full", { "retry-after": "30" }));
  const again = new dyad.Searcher(waits.url, { timeoutMs: 20_000 });
  const begun = performance.now();
  await assert.rejects(again.status(), (error) => error instanceof dyad.Busy && error.attempts === 1);
  await assert.rejects(again.status({ timeoutMs: 60_000, signal: AbortSignal.timeout(50) }), dyad.Cancelled);
  assert.ok(performance.now() - begun < 15_000, "expected no wait beyond the deadline, or after the signal");
});

test("a reply of something else is an error, and no redirect is followed", async (t) => {
  const page = says(200, "<html>");
  await assert.rejects(new dyad.Searcher((await serving(t, page)).url).status(), dyad.InvalidReply);
  const proxy = says(502, "<html>bad gateway</html>");
  const retry = { attempts: 1 };
  await assert.rejects(new dyad.Searcher((await serving(t, proxy)).url, { retry }).status(), dyad.Unavailable);
  const other = await serving(t, counts);
  const moved = await serving(t, says(307, "", { location: `${other.url}/v1/count` }));
  await assert.rejects(new dyad.Searcher(moved.url, { apiKey: "secret" }).count(), /redirect/);
  assert.equal(other.requests.length, 0);
});

test("a key goes to this host, or over TLS", async (t) => {
  const { url, requests } = await serving(t, counts);
  await new dyad.Searcher(`${url}/behind/a/proxy/?`, { apiKey: "secret" }).count();
  assert.deepEqual([requests[0].headers.authorization, requests[0].url], ["Bearer secret", "/behind/a/proxy/v1/count"]);
  const others = ["http://search.example", "http://10.0.0.1:1", "http://127.0.0.1.example", "http://localhost.example"];
  for (const address of others) {
    assert.throws(() => new dyad.Index(address, { apiKey: "secret" }), (error) => {
      return /`apiKey`: expected TLS/.test(error.message) && !error.message.includes("secret");
    });
  }
  for (const address of ["https://search.example", "http://localhost:1", "http://[::1]:1", "http://127.1.2.3:1"]) {
    new dyad.Index(address, { apiKey: "secret" });
  }
  assert.throws(() => new dyad.Index("https://search.example", { apiKey: "secret\n" }), (error) => {
    return /`apiKey`: expected visible ASCII/.test(error.message) && !error.message.includes("secret");
  });
  for (const address of ["search.example:443", "ftp://x", "http://user:secret@x", "https://x/?a", "https://x/#a"]) {
    assert.throws(() => new dyad.Searcher(address), (error) => {
      return /^`url`/.test(error.message) && !error.message.includes("secret");
    });
  }
});

test("whole numbers keep their digits in both directions", async (t) => {
  const digits = "12345678901234567890";
  const fractions = '"c":0.1234567890123456789,"d":1e20,"e":1234567890123456';
  const metadata = `{"a":${digits},"b":[-9007199254740993,9007199254740991],${fractions}}`;
  const text = `\\"${digits}\\\\`;
  const sent = `{"documents":[{"key":"k","text":"${text}","metadata":${metadata}}],"missing":[]}`;
  const { url, requests } = await serving(t, says(200, sent), says(200, CHANGED));
  const [document] = (await new dyad.Searcher(url).documents(["k"])).documents;
  assert.deepEqual(document.metadata, {
    a: BigInt(digits),
    b: [-9007199254740993n, 9007199254740991],
    c: 0.1234567890123456789,
    d: 1e20,
    e: 1234567890123456,
  });
  assert.equal(document.text, `"${digits}\\`);
  // As programs do that otherwise cannot write `bigint`.
  BigInt.prototype.toJSON = () => "rounded";
  t.after(() => delete BigInt.prototype.toJSON);
  await new dyad.Index(url).upsert({ key: "k", metadata: { a: document.metadata.a, b: document.metadata.b } });
  const written = `"metadata":{"a":${digits},"b":[-9007199254740993,9007199254740991]}`;
  assert.ok(requests[1].body.includes(written), requests[1].body);
});

test("filters have the form of the protocol", () => {
  const { all, any, field, keys, not } = dyad;
  assert.deepEqual(all(field("a").equals("x"), not(field("b").oneOf([1, true]))), {
    all: {
      filters: [
        { equals: { field: "a", value: { text: "x" } } },
        { not: { one_of: { field: "b", values: [{ number: 1 }, { flag: true }] } } },
      ],
    },
  });
  assert.deepEqual(any(field("a").between(1n, 2 ** 60), keys(["k"])), {
    any: {
      filters: [
        { range: { field: "a", min: { integer: "1" }, max: { integer: "1152921504606846976" } } },
        { keys: { keys: ["k"] } },
      ],
    },
  });
  assert.throws(() => field("a").equals(Number.NaN), /`a`: expected a text, a finite number/);
  assert.throws(() => field("a").equals(null), /got null/);
  // A text is a list of its characters, which nobody means.
  assert.throws(() => field("a").oneOf("en"), /`a`: expected a list, got a text. Write \["en"\]/);
  assert.throws(() => keys("n1"), /`keys`: expected a list/);
  assert.deepEqual(keys(new Set(["a", "b"])), { keys: { keys: ["a", "b"] } });
});

test("wrong options are refused before a call", async () => {
  assert.throws(() => new dyad.Searcher(undefined, { retry: { attempts: 0 } }), /`retry.attempts`/);
  assert.throws(() => new dyad.Searcher(undefined, { retry: { firstWaitMs: -1 } }), /`retry.firstWaitMs`/);
  for (const timeoutMs of [0, -1, Number.NaN, Infinity]) {
    assert.throws(() => new dyad.Searcher(undefined, { timeoutMs }), /`timeoutMs`/);
  }
  const [index, searcher] = [new dyad.Index(), new dyad.Searcher()];
  // JSON would have null in their place: no metadata, and a weight of the server's choice.
  await assert.rejects(index.upsert({ key: "a", metadata: { n: Number.NaN } }), /`n`: expected a finite .*, got NaN/);
  await assert.rejects(index.upsert({ key: "a" }, { vectors: [[1, Infinity]] }), /a list, at 1: expected a finite/);
  await assert.rejects(searcher.search({ query: "a", dense_weight: Number.NaN }), /`dense_weight`: expected a finite/);
  await assert.rejects(index.delete("a", { expected: { a: "" } }), /`expected`: .* the etag of "a", got an empty one/);
  await assert.rejects(index.delete("a", { expected: { a: undefined } }), /got undefined/);
  await assert.rejects(index.delete("a", { requestKey: "" }), /`requestKey`/);
});
