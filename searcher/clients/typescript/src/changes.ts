// `Index`: the client that changes an index.

import { type CallOptions, type ClientOptions, Connection } from "./connection.js";
import { randomName } from "./random.js";
import {
  type Body,
  type ChangeResponse,
  type Filter,
  type IndexerPaths,
  type NewDocument,
  type Wait,
  enumName,
} from "./types.js";

/** Options of a change. */
export interface ChangeOptions extends CallOptions {
  /**
   * What must be in the index when the change is made: by keys the `etag` that `documents` of the searcher tells, or
   * null where there must be no document. Where the index differs, nothing is changed, and the error is `Aborted`.
   */
  expected?: Record<string, string | null> | undefined;
  /**
   * The name of this call, of at most 128 bytes, by which it is made once however often it is sent; the server
   * remembers it for an hour. Every call has one that is made for it, and needs another only where a program repeats
   * calls itself.
   */
  requestKey?: string | undefined;
  /**
   * `searchable`: the reply comes once the searchers that the server knows (`dyad-indexer serve --searcher`) serve the
   * change, too, and its `searchable` says whether they do. `durable`, unless it is given: once it is on disk.
   */
  wait?: Wait | undefined;
}

/** Options of `upsert`. */
export interface UpsertOptions extends ChangeOptions {
  /** One for each document, where the program has them: the server asks no encoder service then. */
  vectors?: ArrayLike<number>[] | undefined;
  /** Fingerprint of the model that made `vectors`; required with them. */
  fingerprint?: string | undefined;
  /** What of its document has reached each vector, where that is more than its title. */
  context?: string | undefined;
}

const TIMEOUT_MS = 60_000;

/**
 * A client of one `dyad-indexer serve --http`. Each call is one change, of at most 1024 documents, and has a name: it
 * is tried again by itself where the server is full or unavailable, and where the connection was lost, and is made
 * once.
 */
export class Index {
  readonly #connection: Connection;

  /** `url`: the address of `--http`. */
  constructor(url = "http://127.0.0.1:7712", options: ClientOptions = {}) {
    this.#connection = new Connection(url, TIMEOUT_MS, options);
  }

  /** Adds documents, one or some, and replaces those whose keys are there: as one change. */
  async upsert(documents: NewDocument | NewDocument[], options: UpsertOptions = {}): Promise<ChangeResponse> {
    const { vectors, fingerprint, context } = options;
    const body: Body<IndexerPaths, "/v1/upsert"> = {
      documents: Array.isArray(documents) ? documents : [documents],
      ...(vectors && { vectors: vectors.map((values) => ({ values: Array.from(values) })) }),
      ...(fingerprint && { fingerprint }),
      ...(context && { context }),
    };
    return this.#change("/v1/upsert", body, options);
  }

  /** Deletes documents, by one or some keys, as one change. Keys that no document has are counted as `rejected`. */
  async delete(keys: string | string[], options: ChangeOptions = {}): Promise<ChangeResponse> {
    return this.#change("/v1/delete", { keys: Array.isArray(keys) ? keys : [keys] }, options);
  }

  /** Deletes all documents that match when the change is made: `index.deleteWhere(field("year").below(2020))`. */
  async deleteWhere(filter: Filter, options: ChangeOptions = {}): Promise<ChangeResponse> {
    return this.#change("/v1/delete", { filter }, options);
  }

  async #change<Path extends "/v1/upsert" | "/v1/delete">(
    path: Path,
    change: Body<IndexerPaths, Path>,
    { expected = {}, requestKey = randomName(), wait, ...options }: ChangeOptions,
  ): Promise<ChangeResponse> {
    if (requestKey === "") {
      throw new TypeError("`requestKey`: expected a name, got an empty text. Leave it out, and one is made");
    }
    const body: Body<IndexerPaths, "/v1/upsert" | "/v1/delete"> = {
      ...(change as Body<IndexerPaths, "/v1/upsert" | "/v1/delete">),
      expected: Object.entries(expected).map(([key, etag]) => ({ key, etag: etagOf(key, etag) })),
      request_key: requestKey,
      ...(wait && { wait: enumName("WAIT", wait) }),
    };
    return (await this.#connection.call({ path, body, isChange: true }, options)) as ChangeResponse;
  }
}

/** The server takes an empty etag for none: what a program does not know must not pass for it. */
function etagOf(key: string, etag: string | null): string {
  if (etag === null) return "";
  if (typeof etag === "string" && etag !== "") return etag;
  const got = etag === "" ? "an empty one" : typeof etag;
  const fix = "null says that there is no such document";
  throw new TypeError(`\`expected\`: expected the etag of "${key}", got ${got}. ${fix}`);
}
