// Where the other programs are that the searcher was told of: gRPC, and the indexers that change its indexes.

let told = { grpc_port: null, indexers: {} };

/** Asks the searcher; the page does without what it does not hear. */
export async function learnPlaces() {
  const response = await fetch("page/places.json", { cache: "no-store" }).catch(() => null);
  if (response?.ok) {
    told = await response.json();
  }
}

/** The port of gRPC; the usual one where the searcher does not say. */
export function grpcPort() {
  return told.grpc_port ?? 7700;
}

/** Where an index is changed; none where nobody has said. */
export function indexerOf(index) {
  return Object.hasOwn(told.indexers, index) ? told.indexers[index] : null;
}
