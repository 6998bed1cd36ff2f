// Metadata as paths and values.

const DEPTH = 8;

/** Paths and values of metadata, without recursion into what is deeper than anyone reads. */
export function* paths(value, path = [], depth = 0) {
  const isObject = value !== null && typeof value === "object" && !JSON.isRawJSON?.(value) && !Array.isArray(value);
  if (isObject && depth < DEPTH && Object.keys(value).length > 0) {
    for (const [key, inner] of Object.entries(value)) {
      yield* paths(inner, [...path, key], depth + 1);
    }
  } else if (value !== undefined) {
    yield [path, value];
  }
}
