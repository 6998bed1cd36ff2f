// Client of dyad-searcher and dyad-indexer over HTTP: `Searcher` reads an index, `Index` changes it.

export { type ChangeOptions, Index, type UpsertOptions } from "./changes.js";
export type { CallOptions, ClientOptions } from "./connection.js";
export {
  Aborted,
  Busy,
  Cancelled,
  DeadlineExceeded,
  DyadError,
  FailedPrecondition,
  Internal,
  InvalidArgument,
  InvalidReply,
  NotFound,
  OutOfRange,
  PermissionDenied,
  Unauthenticated,
  Unavailable,
  Unimplemented,
} from "./errors.js";
export { type Field, type OrderedValue, type Value, all, any, field, keys, not } from "./filters.js";
export type { JsonValue, Metadata } from "./json.js";
export type { RetryOptions } from "./retry.js";
export {
  type IndexCallOptions,
  type ReadOptions,
  type SampleOptions,
  type ScrollOptions,
  Searcher,
  type SearcherOptions,
} from "./searcher.js";
export type {
  ChangeResponse,
  Document,
  ExplainResponse,
  Filter,
  Fusion,
  GetDocumentsResponse,
  Hit,
  ListFieldsResponse,
  ListIndexesResponse,
  Mode,
  NewDocument,
  SampleDocumentsResponse,
  ScrolledDocument,
  Search,
  SearchResponse,
  StatusResponse,
  Wait,
} from "./types.js";
