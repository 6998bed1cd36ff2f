// `Searcher`: the client that searches and reads an index.

import { type CallOptions, type ClientOptions, Connection } from "./connection.js";
import {
  type Body,
  type ExplainResponse,
  type Filter,
  type GetDocumentsResponse,
  type ListFieldsResponse,
  type ListIndexesResponse,
  type PostPath,
  type Reply,
  type SampleDocumentsResponse,
  type ScrolledDocument,
  type Search,
  type SearchResponse,
  type SearcherPaths,
  type StatusResponse,
  enumName,
} from "./types.js";

/** Options of a `Searcher`. */
export interface SearcherOptions extends ClientOptions {
  /** Name of the index of all calls that name none; the server's default one unless it is given. */
  index?: string | undefined;
}

/** Options of a call of an index. */
export interface IndexCallOptions extends CallOptions {
  /** Name of the index, where the server serves several. */
  index?: string | undefined;
}

/** Options of a call that reads documents. */
export interface ReadOptions extends IndexCallOptions {
  /** Stored fields of the documents: `title`, `text`, or fields of the metadata; all where there is none. */
  fields?: string[] | undefined;
}

/** Options of `scroll`; `timeoutMs` is for each page. */
export interface ScrollOptions extends ReadOptions {
  filter?: Filter | undefined;
  /** The key after which it begins: that of the last document of a scroll that goes on. */
  after?: string | undefined;
  /** Documents that are asked for at once: 100 unless it is given. */
  pageSize?: number | undefined;
  /** Brings the vectors as the index stores them. */
  withVectors?: boolean | undefined;
}

/** Options of `sample`. */
export interface SampleOptions extends ReadOptions {
  filter?: Filter | undefined;
  /** The same documents are chosen for the same seed and generation. */
  seed?: number | undefined;
}

const TIMEOUT_MS = 10_000;

/**
 * A client of one `dyad-searcher serve --http`. Calls change nothing, and are tried again where the server is full or
 * unavailable.
 */
export class Searcher {
  readonly #connection: Connection;
  readonly #index: string;

  /** `url`: the address of `--http`. */
  constructor(url = "http://127.0.0.1:7780", options: SearcherOptions = {}) {
    this.#connection = new Connection(url, TIMEOUT_MS, options);
    this.#index = options.index ?? "";
  }

  /** Searches. A request that is only a question is hybrid and for 10 hits. */
  async search(request: string | Search, options: CallOptions = {}): Promise<SearchResponse> {
    return this.#post("/v1/search", this.#message(request), options);
  }

  /** Many searches in one call, of at most 1024; the replies are in the order of the requests. */
  async searchBatch(requests: (string | Search)[], options: CallOptions = {}): Promise<SearchResponse[]> {
    const body = { requests: requests.map((request) => this.#message(request)) };
    return (await this.#post("/v1/search/batch", body, options)).responses;
  }

  /** Stored documents by their keys, each with its `etag`; keys that the index does not hold are `missing`. */
  async documents(keys: string[], options: ReadOptions = {}): Promise<GetDocumentsResponse> {
    return this.#post("/v1/documents", { keys, fields: options.fields ?? [], index: this.#name(options) }, options);
  }

  /** Stored documents chosen at random, each once. */
  async sample(count: number, options: SampleOptions = {}): Promise<SampleDocumentsResponse> {
    const { seed = 0, fields = [], filter } = options;
    const body = { count, seed, fields, index: this.#name(options), ...(filter && { filter }) };
    return this.#post("/v1/documents/sample", body, options);
  }

  /**
   * The documents of the index in the order of their keys, page by page as they are needed, also while it changes: a
   * document that is there all along comes exactly once.
   */
  async *scroll(options: ScrollOptions = {}): AsyncGenerator<ScrolledDocument, void, undefined> {
    const { after = "", fields = [], filter, pageSize = 100, withVectors = false } = options;
    const index = this.#name(options);
    const same = { page_size: pageSize, fields, with_vectors: withVectors, index, ...(filter && { filter }) };
    for (let after_key = after; ; ) {
      const page = await this.#post("/v1/scroll", { ...same, after_key }, options);
      yield* page.documents;
      if (!page.has_more) return;
      after_key = page.next_after_key;
    }
  }

  /** How many documents there are, or match a filter. */
  async count(filter?: Filter, options: IndexCallOptions = {}): Promise<number> {
    const body = { index: this.#name(options), ...(filter && { filter }) };
    return (await this.#post("/v1/count", body, options)).documents;
  }

  /** The fields that documents have, and how many have each. */
  async fields(options: IndexCallOptions = {}): Promise<ListFieldsResponse> {
    return this.#get("/v1/fields", options);
  }

  /** Why a document is, or is not, among the hits of a search. */
  async explain(key: string, request: string | Search, options: CallOptions = {}): Promise<ExplainResponse> {
    return this.#post("/v1/explain", { key, search: this.#message(request) }, options);
  }

  /** What the searcher serves of an index. */
  async status(options: IndexCallOptions = {}): Promise<StatusResponse> {
    return this.#get("/v1/status", options);
  }

  /** The indexes that the searcher serves. */
  async indexes(options: CallOptions = {}): Promise<ListIndexesResponse> {
    return (await this.#connection.call({ path: "/v1/indexes" }, options)) as ListIndexesResponse;
  }

  #name(options: IndexCallOptions): string {
    return options.index ?? this.#index;
  }

  #message(request: string | Search): Body<SearcherPaths, "/v1/search"> {
    const { mode, fusion, vector, ...same } = typeof request === "string" ? { query: request } : request;
    return {
      ...same,
      index: same.index ?? this.#index,
      ...(mode && { mode: enumName("MODE", mode) }),
      ...(fusion && { fusion: enumName("FUSION", fusion) }),
      ...(vector && { vector: Array.from(vector) }),
    };
  }

  async #post<Path extends PostPath<SearcherPaths>>(
    path: Path,
    body: Body<SearcherPaths, Path>,
    options: CallOptions,
  ): Promise<Reply<SearcherPaths, Path, "post">> {
    return (await this.#connection.call({ path, body }, options)) as Reply<SearcherPaths, Path, "post">;
  }

  async #get<Path extends "/v1/fields" | "/v1/status">(
    path: Path,
    options: IndexCallOptions,
  ): Promise<Reply<SearcherPaths, Path, "get">> {
    const name = this.#name(options);
    const query = name ? `?index=${encodeURIComponent(name)}` : "";
    return (await this.#connection.call({ path: path + query }, options)) as Reply<SearcherPaths, Path, "get">;
  }
}
