// Random names. `crypto.randomUUID` is missing in browsers where a page came without TLS.

/** A name that nobody else makes: 128 random bits in hexadecimal digits. */
export function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
