// The types of requests and replies, of the OpenAPI documents of searcher and indexer. Names of fields are those of the
// servers.

import type { components as IndexerComponents, paths as IndexerPaths } from "./generated/indexer.js";
import type { components as SearcherComponents, paths as SearcherPaths } from "./generated/searcher.js";

type Schemas = SearcherComponents["schemas"];

export type { IndexerPaths, SearcherPaths };
export type Document = Schemas["Document"];
export type Hit = Schemas["Hit"];
export type SearchResponse = Schemas["SearchResponse"];
export type GetDocumentsResponse = Schemas["GetDocumentsResponse"];
export type SampleDocumentsResponse = Schemas["SampleDocumentsResponse"];
export type ScrolledDocument = Schemas["ScrolledDocument"];
export type ListFieldsResponse = Schemas["ListFieldsResponse"];
export type ListIndexesResponse = Schemas["ListIndexesResponse"];
export type ExplainResponse = Schemas["ExplainResponse"];
export type StatusResponse = Schemas["StatusResponse"];
export type Filter = Schemas["Filter"];
export type FilterValue = Schemas["FilterValue"];
export type ChangeResponse = IndexerComponents["schemas"]["ChangeResponse"];

/** A document to write. */
export type NewDocument = Omit<IndexerComponents["schemas"]["Document"], "key" | "etag"> & {
  key: string;
  /** Not looked at: `expected` of the call is. */
  etag?: string;
};

/** The names of an enum as words: `FUSION_LOG_ODDS` is `log-odds`. */
type Words<Names extends string, Prefix extends string> = Exclude<
  Names extends `${Prefix}_${infer Rest}` ? Hyphenated<Lowercase<Rest>> : never,
  "unspecified"
>;
type Hyphenated<Text extends string> = Text extends `${infer First}_${infer Rest}`
  ? `${First}-${Hyphenated<Rest>}`
  : Text;

/** `dense`, `bm25`, `hybrid`, or `compare` for all three. */
export type Mode = Words<Schemas["Mode"], "MODE">;
/** How hybrid adds both rankings. */
export type Fusion = Words<Schemas["Fusion"], "FUSION">;
/** What the reply of a change waits for. */
export type Wait = Words<IndexerComponents["schemas"]["Wait"], "WAIT">;

/** One search. What is left out, the server chooses; its errors name a field that is above a limit. */
export type Search = Omit<Schemas["SearchRequest"], "id" | "mode" | "fusion" | "vector"> & {
  mode?: Mode;
  fusion?: Fusion;
  /** The question's vector, with the `fingerprint` of the model that made it. */
  vector?: ArrayLike<number>;
};

/** The routes that take a message. */
export type PostPath<Paths> = {
  [Path in keyof Paths]: Paths[Path] extends { post: { requestBody: unknown } } ? Path : never;
}[keyof Paths] &
  string;

/** The message that a route takes. */
export type Body<Paths, Path extends keyof Paths> = Paths[Path] extends {
  post: { requestBody: { content: { "application/json": infer Message } } };
}
  ? Message
  : never;

/** The message that a route answers with. */
export type Reply<Paths, Path extends keyof Paths, Method extends "get" | "post"> = Paths[Path] extends {
  [_ in Method]: { responses: { 200: { content: { "application/json": infer Message } } } };
}
  ? Message
  : never;

/** The name of an enum that a word stands for. */
export function enumName<Name extends string>(prefix: string, word: string): Name {
  return `${prefix}_${word.toUpperCase().replaceAll("-", "_")}` as Name;
}
