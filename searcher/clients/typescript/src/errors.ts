// Errors: one class for each gRPC status that a server answers with.
// Arguments that cannot be sent at all are refused before a call, with `TypeError` or `RangeError`.

/** How a call has failed. */
export interface Failure {
  /** Name of the gRPC status, such as `INVALID_ARGUMENT`. */
  code: string;
  /** The message of the server, or of the transport. */
  detail: string;
  /** HTTP status of the reply; undefined where there was none. */
  httpStatus?: number | undefined;
  /** Milliseconds after which the server accepts the call again; undefined where it does not say. */
  retryAfterMs?: number | undefined;
  /** Whether no connection was made, so that the server knows nothing of the call. */
  unsent?: boolean;
  /** The error of `fetch`, or the reason of the caller's signal. */
  cause?: unknown;
}

/** A call that failed. `cause` is the error of `fetch`, where there is one. */
export class DyadError extends Error {
  /** Name of the gRPC status, such as `INVALID_ARGUMENT`. */
  readonly code: string;
  /** The message of the server, or of the transport. */
  readonly detail: string;
  /** HTTP status of the reply; undefined where there was none. */
  readonly httpStatus: number | undefined;
  /** Attempts made, the first one included. */
  readonly attempts: number;

  constructor(message: string, failure: Failure, attempts: number) {
    super(message, failure.cause === undefined ? undefined : { cause: failure.cause });
    this.name = new.target.name;
    this.code = failure.code;
    this.detail = failure.detail;
    this.httpStatus = failure.httpStatus;
    this.attempts = attempts;
  }
}

/** The server refuses the request. */
export class InvalidArgument extends DyadError {
  /** The field that is wrong, as the message names it; undefined where it names none. */
  get field(): string | undefined {
    return /`([^`]+)`: /.exec(this.detail)?.[1] ?? /unrecognized field name '([^']+)'/.exec(this.detail)?.[1];
  }
}

/** Something that the request names does not exist. */
export class NotFound extends DyadError {}

/** The server is full (RESOURCE_EXHAUSTED). It passes by itself. */
export class Busy extends DyadError {}

/** No reply within the deadline. */
export class DeadlineExceeded extends DyadError {}

/** No server answers, or it is about to end. */
export class Unavailable extends DyadError {}

/** The index or the server is not in the state that the request needs, for example an index of another model. */
export class FailedPrecondition extends DyadError {}

/** The request or the reply is too large: ask for `keys_only`, fewer `fields` or a smaller `k`. */
export class OutOfRange extends DyadError {}

/** The key is missing or not valid. */
export class Unauthenticated extends DyadError {}

/** The key does not allow this call. */
export class PermissionDenied extends DyadError {}

/** The server has no such call: another service, or an earlier release, listens at this address. */
export class Unimplemented extends DyadError {}

/** Other programs changed the same documents meanwhile, and nothing was changed. Read them, and send the call again. */
export class Aborted extends DyadError {}

/** The caller's signal has ended the call. `cause` is its reason. */
export class Cancelled extends DyadError {}

/** An error inside the server. */
export class Internal extends DyadError {}

/** A reply that is against the contract. Check that client and server are of the same release. */
export class InvalidReply extends DyadError {}

const CLASSES: Record<string, typeof DyadError> = {
  INVALID_ARGUMENT: InvalidArgument,
  NOT_FOUND: NotFound,
  RESOURCE_EXHAUSTED: Busy,
  DEADLINE_EXCEEDED: DeadlineExceeded,
  UNAVAILABLE: Unavailable,
  FAILED_PRECONDITION: FailedPrecondition,
  OUT_OF_RANGE: OutOfRange,
  UNAUTHENTICATED: Unauthenticated,
  PERMISSION_DENIED: PermissionDenied,
  UNIMPLEMENTED: Unimplemented,
  ABORTED: Aborted,
  CANCELLED: Cancelled,
  INTERNAL: Internal,
  INVALID_REPLY: InvalidReply,
};

/** Statuses after which a change may have been made, where its server does not say otherwise. */
const UNSURE = new Set(["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL", "INVALID_REPLY", "UNKNOWN"]);

/** The status of a reply that is none of dyad's, as of a proxy, by its HTTP status. */
export function codeOfHttpStatus(status: number): string {
  const codes: Record<number, string> = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "UNIMPLEMENTED",
    405: "UNIMPLEMENTED",
    413: "OUT_OF_RANGE",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
  };
  return codes[status] ?? "UNKNOWN";
}

/** The error of a failure. */
export function errorOf(server: string, failure: Failure, attempts: number, isChange: boolean): DyadError {
  const { code, detail } = failure;
  const tried = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
  const descriptions: Record<string, string> = {
    UNAVAILABLE: `is unavailable (${tried}): ${detail}. Start the server, or check the address`,
    DEADLINE_EXCEEDED: `did not answer within the deadline: ${detail}. Give a longer \`timeoutMs\``,
    UNIMPLEMENTED: `refused (${code}): ${detail}. Another service, or an earlier release, listens at this address`,
    CANCELLED: `was asked by a call that was cancelled: ${detail}`,
    INVALID_REPLY: `answered against the contract: ${detail}. Check that client and server are of the same release`,
  };
  const sure = !UNSURE.has(code) || failure.unsent || detail.includes("nothing was changed");
  const advice = " (the change may have been made: send it again only where nobody else changes these documents)";
  const description = descriptions[code] ?? `refused (${code}): ${detail}`;
  const message = `\`${server}\` ${description}${isChange && !sure ? advice : ""}`;
  return new (CLASSES[code] ?? DyadError)(message, failure, attempts);
}
