// Where the other programs are that the searcher was told of: gRPC, and the indexers that change its indexes.

import { ask } from "./api.js";

let told = {};

/** Asks the searcher; the page does without what it does not hear. */
export async function learnPlaces() {
  told = await ask("page/places.json").catch(() => ({}));
}

/** The port of gRPC; the usual one where the searcher does not say. */
export function grpcPort() {
  return told.grpc_port ?? 7700;
}

/** Where an index is changed; none where nobody has said. */
export function indexerOf(index) {
  const indexers = told.indexers ?? {};
  return Object.hasOwn(indexers, index) ? indexers[index] : null;
}
